"""Compiling the C program in `agent/` into one static file.

Standard library only, and nothing of Sandlot: the package's own build (`hatch_build.py`) loads this file by its path.
"""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

FLAGS = ("-std=gnu11", "-O2", "-static", "-Wall", "-Wextra")


class CompileError(Exception):
    """There is no program, and why."""


def program_name(sources: Path) -> str:
    """The file name of the program made from these sources: it carries their hash, so that two versions never meet."""
    whole = hashlib.sha256(" ".join(FLAGS).encode())
    for source in sorted(sources.glob("*.[ch]")):
        whole.update(f"{source.name}\0{source.stat().st_size}\0".encode() + source.read_bytes())
    return f"agent-{whole.hexdigest()[:16]}"


def compile_program(sources: Path, path: Path) -> None:
    """Put the program there, whole or not at all."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise CompileError("no C compiler to build the sandbox program with: `apt-get install gcc libc6-dev`")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = Path(folder) / "agent"
        command = [compiler, *FLAGS, "-o", str(built), *map(str, sorted(sources.glob("*.c")))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - our own sources
        if done.returncode:
            fix = "is libc6-dev installed? `apt-get install gcc libc6-dev`"
            raise CompileError(f"building the sandbox program failed; {fix}\n{done.stderr[-2000:]}")
        built.chmod(0o755)
        built.replace(path)
