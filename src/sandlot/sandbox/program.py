"""The C program in `agent/`: zygote and agent in one small static file.

A wheel for Linux contains it. From source it is compiled at first use and kept in the cache, under a name with the processor and
a hash of the sources.
"""

import os
import stat
from importlib import resources
from pathlib import Path

from sandlot.core.errors import SandboxError
from sandlot.sandbox.compile import CompileError, compile_program, program_name

_BUILT = "built"
"""The folder beside the sources in which a wheel has it."""


def cache_folder() -> Path:
    """The folder of built programs and images: `$XDG_CACHE_HOME/sandlot`, by default `~/.cache/sandlot`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sandlot"


def find_program() -> Path:
    """The path of the program; compiles it if it is neither in the wheel nor in the cache."""
    sources = Path(str(resources.files("sandlot.sandbox") / "agent"))
    name = program_name(sources)
    if os.access(sources / _BUILT / name, os.X_OK):
        return sources / _BUILT / name  # as trusted as the code that runs it
    path = cache_folder() / name
    if not path.exists():
        try:
            compile_program(sources, path)
        except CompileError as error:
            raise SandboxError(str(error), kind="config") from error
        except OSError as error:
            raise SandboxError(
                f"cannot write the sandbox program to {path.parent}: {error}; set XDG_CACHE_HOME to another folder", kind="config"
            ) from error
    about = path.stat()
    if about.st_uid not in {0, os.getuid()} or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SandboxError(f"{path} may have been written by another user; remove it and start again", kind="config")
    return path
