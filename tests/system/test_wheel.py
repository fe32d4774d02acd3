"""Wheels for both processors: the sandbox program comes with them, and works on a machine without a compiler."""

import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

from drive.packages import make_environment

REPOSITORY = Path(__file__).parents[2]
WORKS = """
import anyio
from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.command import run_command
from sandlot.sandbox.native.backend import open_native
from sandlot.sandbox.program import find_program

async def main():
    async with open_native() as backend, backend.open("host") as sandbox:
        print((await run_command(sandbox, Command(argv=("echo", "works")))).stdout.strip(), find_program())

anyio.run(main)
"""

pytestmark = [pytest.mark.system, pytest.mark.core, pytest.mark.timeout(600)]


def ran(*argv: str | Path, **fields) -> str:
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=500, check=False, **fields)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


BUILD = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir")
HERE = "--no-build-isolation"
"""With the builder of this environment; without it, one is installed for the build, as for everybody else."""


def build(folder: Path, *options: str, **environment: str) -> Path:
    ran(*BUILD, folder, *options, REPOSITORY, env={**os.environ, **environment})
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))


def test_a_wheel_names_its_processor_and_has_the_program(wheel: Path):
    assert f"manylinux2014_{os.uname().machine}" in wheel.name
    names = [each for each in zipfile.ZipFile(wheel).infolist() if "/agent/built/agent-" in each.filename]
    assert len(names) == 1
    assert names[0].external_attr >> 16 & 0o111


@pytest.mark.parametrize(("processor", "machine"), [("x86_64", 62), ("aarch64", 183)])
def test_a_wheel_is_made_for_the_processor_that_is_named(processor: str, machine: int, tmp_path: Path):
    made = build(tmp_path / "dist", HERE, SANDLOT_PROCESSOR=processor)
    assert {f"manylinux2014_{processor}", f"musllinux_1_1_{processor}"} <= set(made.stem.rpartition("-")[2].split("."))
    with zipfile.ZipFile(made) as archive:
        (name,) = [each for each in archive.namelist() if "/agent/built/agent-" in each]
        assert f"agent-{processor}-" in name
        binary = archive.read(name)
        (notice,) = [each for each in archive.namelist() if "/agent/built/NOTICE-" in each]
        library = "glibc" if b"GLIBC_TUNABLES" in binary else "musl"  # every static program of glibc reads that variable
        assert notice.endswith(f"NOTICE-{library}.txt")
        assert {"glibc": "GNU LESSER GENERAL PUBLIC LICENSE", "musl": "Rich Felker"}[library] in archive.read(notice).decode()
        (described,) = [each for each in archive.namelist() if each.endswith(".dist-info/sboms/sandlot.cdx.json")]
        sbom = msgspec.json.decode(archive.read(described))
        assert [each for each in archive.namelist() if each.endswith("licenses/THIRD-PARTY.md")]
    assert library in {each["name"] for each in sbom["components"]}
    assert {"anyio", "msgspec", "mcp"} <= {each["name"] for each in sbom["components"]}
    assert binary[:4] == b"\x7fELF"
    assert struct.unpack_from("<H", binary, 18) == (machine,)
    start, size, num = struct.unpack_from("<Q14xHH", binary, 32)  # the program headers
    kinds = {struct.unpack_from("<I", binary, start + at * size)[0] for at in range(num)}
    assert 1 in kinds
    assert 3 not in kinds  # no interpreter: it is static


def test_a_wheel_for_an_unknown_processor_is_not_made(tmp_path: Path):
    command = [*BUILD, str(tmp_path), HERE, str(REPOSITORY)]
    environment = {**os.environ, "SANDLOT_PROCESSOR": "riscv64"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=environment)
    assert done.returncode != 0
    assert "SANDLOT_PROCESSOR is `riscv64`" in done.stderr + done.stdout


def test_an_installed_wheel_makes_sandboxes_without_a_compiler(wheel: Path, tmp_path: Path):
    home = tmp_path / "venv"
    make_environment(home, wheel)
    (tmp_path / "empty").mkdir()
    environment = {"PATH": str(tmp_path / "empty"), "HOME": str(tmp_path)}
    told = msgspec.json.decode(ran(home / "bin" / "sandlot", "doctor", "--json", env=environment, cwd=tmp_path))
    assert told
    said, where = ran(home / "bin" / "python", "-c", WORKS, env=environment, cwd=tmp_path).split()
    assert said == "works"
    assert Path(where).is_relative_to(home)
