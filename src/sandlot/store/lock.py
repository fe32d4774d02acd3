"""One writer per run: an advisory lock, which the system releases when its holder ends."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sandlot.core.errors import ConfigError, StoreError, boundary
from sandlot.store.layout import lock_file


@contextmanager
def write_lock(run: Path) -> Generator[None]:
    """Lock the run for writing; `ConfigError` with the holder's pid if it is locked."""
    with boundary(StoreError, f"run `{run}` cannot be locked"):
        # A link is refused: a run from elsewhere may point it at a file of the user's.
        fd = os.open(lock_file(run), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
            raise ConfigError(
                f"run `{run}` is being written by process {holder}; wait until it ends, or stop it with `kill -INT {holder}`",
                kind="locked",
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)  # releases the lock; the file stays, since without it two writers could lock two files


def is_live(run: Path) -> bool:
    """True if a process is writing the run now: it holds the lock. Trying to lock it could stop a run from starting."""
    try:
        wanted = f":{Path(lock_file(run)).stat().st_ino}"
        # The system gives a long list page by page, and a lock released between two pages hides another: a "no" is asked again.
        return _holds(wanted) or _holds(wanted)
    except OSError:
        return False


def _holds(wanted: str) -> bool:
    lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    return any("FLOCK" in line and wanted in {word[word.rfind(":") :] for word in line.split()} for line in lines)
