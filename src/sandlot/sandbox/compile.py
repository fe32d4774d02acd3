"""Compiles the C program in `agent/` into one static file, for this machine's processor or for another.

musl is preferred: the file has a seventh of the size, and musl's licence requires only its notice. Without musl, glibc is used.
This file imports only the standard library, because the package's build (`hatch_build.py`) loads it by its path.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

_FLAGS = ("-std=gnu11", "-O2", "-static", "-Wall", "-Wextra")
PROCESSORS = ("x86_64", "aarch64")
"""Processors that the system call filter supports."""
_COMPILER = "SANDLOT_CC"
"""Environment variable with the compiler and its options, instead of the ones that are found."""


class CompileError(Exception):
    """The program could not be built; the message says why."""


def program_name(sources: Path, processor: str | None = None) -> str:
    """File name of the program for these sources and this processor.

    It has a hash of the sources: two versions of Sandlot, or two machines that share a cache, never use each other's program.
    """
    whole = hashlib.sha256(" ".join(_FLAGS).encode())
    for source in sorted(sources.glob("*.[ch]")):
        whole.update(f"{source.name}\0{source.stat().st_size}\0".encode() + source.read_bytes())
    return f"agent-{processor or platform.machine()}-{whole.hexdigest()[:16]}"


def compile_program(sources: Path, path: Path, processor: str | None = None) -> str:
    """Build the program at `path`, complete or not at all, and return the C library that is linked into it: `musl` or `glibc`."""
    compilers = _find_compilers(processor or platform.machine())
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = Path(folder) / "agent"
        said = ""
        for compiler in compilers:
            done = _run([*compiler, *_FLAGS, "-o", str(built), *map(str, sorted(sources.glob("*.c")))])
            if done.returncode == 0:
                built.chmod(0o755)
                built.replace(path)
                return _c_library(compiler)
            said = done.stderr
    fix = "are the C library's headers installed? `apt-get install gcc libc6-dev`"
    raise CompileError(f"building the sandbox program with `{compilers[-1][0]}` failed; {fix}\n{said[-2000:]}")


def _find_compilers(processor: str) -> list[list[str]]:
    """Commands that may build for this processor, best first."""
    if chosen := os.environ.get(_COMPILER):
        return [shlex.split(chosen)]
    # musl's wrapper hides the kernel's headers together with glibc's; these options add them again after musl's own.
    kernel = ["-idirafter", "/usr/include", "-idirafter", f"/usr/include/{processor}-linux-gnu"]
    if processor == platform.machine():
        names: dict[str, list[str]] = {"musl-gcc": kernel, "cc": [], "gcc": []}
        missing = "no C compiler to build the sandbox program with: `apt-get install gcc libc6-dev`"
    else:
        names = {f"{processor}-linux-musl-gcc": [], f"{processor}-linux-gnu-gcc": []}
        package = f"gcc-{processor.replace('_', '-')}-linux-gnu"
        missing = f"no C compiler for {processor}: `apt-get install {package}`, or name one in `{_COMPILER}`"
    found = [[where, *options] for name, options in names.items() if (where := shutil.which(name))]
    if not found:
        raise CompileError(missing)
    return found


def _c_library(compiler: list[str]) -> str:
    """The name of a compiler's C library: glibc's headers define `__GLIBC__`; musl's do not."""
    said = _run([*compiler, "-E", "-P", "-include", "features.h", "-x", "c", "-"], "__GLIBC__\n").stdout
    return "musl" if said.strip().endswith("__GLIBC__") else "glibc"


def _run(command: list[str], given: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - our own sources
    except OSError as error:
        raise CompileError(f"cannot run the compiler `{command[0]}`: {error}") from error
