"""One writer per run: an advisory lock, which the system releases when its holder ends."""

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from sandlot.core.errors import ConfigError, StoreError, boundary
from sandlot.store.layout import lock_file


@contextmanager
def write_lock(run: Path) -> Generator[None]:
    """Lock the run for writing; `ConfigError` with the holder's pid if it is locked."""

    def refusal(holder: str) -> ConfigError:
        how = f"wait until it ends, or stop it with `kill -INT {holder}`"
        return ConfigError(f"run `{run}` is being written by process {holder}; {how}", kind="locked")

    with locked_file(Path(lock_file(run)), f"run `{run}`", refusal):
        yield


@contextmanager
def locked_file(file: Path, what: str, refusal: Callable[[str], ConfigError]) -> Generator[None]:
    """Hold the lock of a file, which is made; what `refusal` says of the holder's pid if another process holds it."""
    with boundary(StoreError, f"{what} cannot be locked"):
        # A link is refused: a run from elsewhere may point it at a file of the user's.
        fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise refusal(os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown") from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)  # releases the lock; the file stays, since without it two holders could lock two files


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
