"""The C program in `agent/`, built once and kept: zygote and agent in one small static file.

It is compiled at first use, because a wheel for every machine would be worth more than it costs only when there is one. The
file's name carries a hash of the sources, so a changed source is a new program, and two versions of Sandlot do not meet.
"""

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

from sandlot.errors import SandboxError

FLAGS = ("-std=gnu11", "-O2", "-static", "-Wall", "-Wextra")


def cache_folder() -> Path:
    """Where built programs and image skeletons lie: `$XDG_CACHE_HOME/sandlot`, by default `~/.cache/sandlot`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sandlot"


def program() -> Path:
    """The built program; compiles it if this version was never built here."""
    with resources.as_file(resources.files("sandlot.sandbox") / "agent") as sources:
        path = cache_folder() / f"agent-{_hash(sources)}"
        if not path.exists():
            _compile(sources, path)
    about = path.stat()
    if about.st_uid not in {0, os.getuid()} or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SandboxError(f"{path} could have been written by another user; remove it and start again", kind="config")
    return path


def _hash(sources: Path) -> str:
    whole = hashlib.sha256(" ".join(FLAGS).encode())
    for source in sorted(sources.glob("*.[ch]")):
        whole.update(f"{source.name}\0{source.stat().st_size}\0".encode() + source.read_bytes())
    return whole.hexdigest()[:16]


def _compile(sources: Path, path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SandboxError("no C compiler to build the sandbox program with: `apt-get install gcc libc6-dev`", kind="config")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            built = Path(folder) / "agent"
            command = [compiler, *FLAGS, "-o", str(built), *map(str, sorted(sources.glob("*.c")))]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - our own sources
            if done.returncode:
                fix = "is libc6-dev installed? `apt-get install gcc libc6-dev`"
                raise SandboxError(f"building the sandbox program failed; {fix}\n{done.stderr[-2000:]}", kind="config")
            built.chmod(0o755)
            built.replace(path)
    except OSError as error:
        raise SandboxError(
            f"cannot keep the sandbox program in {path.parent}: {error}; set XDG_CACHE_HOME", kind="config"
        ) from error
