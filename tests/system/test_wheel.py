"""A wheel on a machine without a compiler: the sandbox program comes with it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

REPOSITORY = Path(__file__).parents[2]
WORKS = """
import anyio
from sandlot.sandboxes import Command
from sandlot.sandbox.command import run_command
from sandlot.sandbox.native import open_native
from sandlot.sandbox.program import program

async def main():
    async with open_native() as backend, backend.open("host") as sandbox:
        print((await run_command(sandbox, Command(argv=("echo", "works")))).stdout.strip(), program())

anyio.run(main)
"""

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


def ran(*argv: str | Path, **fields) -> str:
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=500, check=False, **fields)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    ran(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, REPOSITORY)
    (built,) = folder.iterdir()
    return built


def test_a_wheel_names_its_processor_and_has_the_program(wheel: Path):
    assert f"manylinux2014_{os.uname().machine}" in wheel.name
    names = [each for each in zipfile.ZipFile(wheel).infolist() if "/agent/built/" in each.filename]
    assert len(names) == 1
    assert names[0].external_attr >> 16 & 0o111


def test_an_installed_wheel_makes_sandboxes_without_a_compiler(wheel: Path, tmp_path: Path):
    home = tmp_path / "venv"
    ran(sys.executable, "-m", "venv", home)
    ran(home / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    (tmp_path / "empty").mkdir()
    environment = {"PATH": str(tmp_path / "empty"), "HOME": str(tmp_path)}
    told = msgspec.json.decode(ran(home / "bin" / "sandlot", "doctor", "--json", env=environment, cwd=tmp_path))
    assert told
    said, where = ran(home / "bin" / "python", "-c", WORKS, env=environment, cwd=tmp_path).split()
    assert said == "works"
    assert Path(where).is_relative_to(home)
