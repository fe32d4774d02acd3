import os
import platform
import shutil
import struct
from pathlib import Path

import pytest

from sandlot.sandbox.compile import PROCESSORS, CompileError, compile_program, program_name

SMALL = "int main(void) { return 7; }\n"
OTHER = next(processor for processor in PROCESSORS if processor != platform.machine())


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "main.c").write_text(SMALL)
    return folder


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH, with this machine's `cc` in it."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("cc", "as", "ld", "sh"):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(Path(found).resolve())
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("SANDLOT_CC", raising=False)
    return folder


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_the_name_tells_processors_and_sources_apart(sources: Path):
    first = program_name(sources)
    assert first == program_name(sources, platform.machine())
    assert first != program_name(sources, OTHER)
    (sources / "main.c").write_text(SMALL.replace("7", "8"))
    assert first != program_name(sources)


def test_the_program_is_static_for_this_processor_and_says_its_c_library(sources: Path, tools: Path, tmp_path: Path):
    assert compile_program(sources, tmp_path / "program") == "glibc"
    assert elf_machine(tmp_path / "program") == platform.machine()
    assert os.waitstatus_to_exitcode(os.system(str(tmp_path / "program"))) == 7


def test_musl_is_preferred(sources: Path, tools: Path, tmp_path: Path):
    script(tools / "musl-gcc", f'echo "$@" >> {tmp_path}/asked; exec cc "$@"')
    compile_program(sources, tmp_path / "program")
    assert "-static" in (tmp_path / "asked").read_text()


def test_a_musl_that_cannot_build_it_is_passed_over(sources: Path, tools: Path, tmp_path: Path):
    script(tools / "musl-gcc", "echo no kernel headers >&2; exit 1")
    assert compile_program(sources, tmp_path / "program") == "glibc"


def test_the_compiler_can_be_named_with_its_options(sources: Path, tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (sources / "main.c").write_text("int main(void) { return ANSWER; }\n")
    monkeypatch.setenv("SANDLOT_CC", "cc -DANSWER=9")
    compile_program(sources, tmp_path / "program")
    assert os.waitstatus_to_exitcode(os.system(str(tmp_path / "program"))) == 9


def test_a_named_compiler_that_is_not_there_is_said(sources: Path, tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SANDLOT_CC", "no-such-compiler -O3")
    with pytest.raises(CompileError, match="cannot run the compiler `no-such-compiler`"):
        compile_program(sources, tmp_path / "program")


def test_a_missing_compiler_for_another_processor_is_named_with_its_package(sources: Path, tools: Path, tmp_path: Path):
    with pytest.raises(CompileError, match=f"gcc-{OTHER.replace('_', '-')}-linux-gnu"):
        compile_program(sources, tmp_path / "program", OTHER)


def test_nothing_is_left_where_building_failed(sources: Path, tools: Path, tmp_path: Path):
    (sources / "main.c").write_text("this is not C")
    with pytest.raises(CompileError, match=r"building the sandbox program with `.*cc` failed"):
        compile_program(sources, tmp_path / "built/program")
    assert list((tmp_path / "built").iterdir()) == []


def elf_machine(path: Path) -> str:
    (machine,) = struct.unpack_from("<H", path.read_bytes(), 18)
    return {62: "x86_64", 183: "aarch64"}[machine]
