"""Notes which test reaches which place. `measure.py` lays it beside `sandlot` in a throw-away copy, as `sandlot_recorder`.

A place calls `at(name)`, in whatever process it runs. Processes other than pytest's own find the test by their ancestors: the
nearest one that has written the name of its test. It imports little, because every command that a test starts imports it.
"""

# ruff: noqa: PTH100, PTH110, PTH118, PTH120, PTH123 - as above

import os
import time

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".recorded")
_AGAIN_S = 0.02


class _Here:
    """What this process knows."""

    def __init__(self) -> None:
        self.test = ""
        self.exact = False
        self.asked_at = 0.0
        self.seen: set[str] = set()


_here = _Here()
os.register_at_fork(after_in_child=_here.__init__)


def begin(test: str) -> None:
    """This process runs this test from now on, and the processes below it."""
    _here.test, _here.exact = test, True
    _here.seen.clear()
    with open(_name_of(os.getpid()), "w") as file:
        file.write(test)


def at(place: str) -> None:
    """Note that the running test was here, once."""
    if not _here.exact and time.monotonic() - _here.asked_at > _AGAIN_S:
        test = _test_of_ancestors()
        if test != _here.test:
            _here.seen.clear()
        _here.test, _here.asked_at = test, time.monotonic()
    if place not in _here.seen:
        _here.seen.add(place)
        append("reached.tsv", f"{place}\t{_here.test}\n")


def append(name: str, line: str) -> None:
    """Write a whole line, whatever other processes write; a process that may not write is left alone."""
    try:
        file = os.open(os.path.join(FOLDER, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except OSError:
        return
    try:
        os.write(file, line.encode())
    except OSError:
        pass
    finally:
        os.close(file)


def _test_of_ancestors() -> str:
    pid = os.getpid()
    try:
        while pid > 1:
            if os.path.exists(_name_of(pid)):
                with open(_name_of(pid)) as file:
                    return file.read()
            with open(f"/proc/{pid}/stat") as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0] or "?"


def _name_of(pid: int) -> str:
    return os.path.join(FOLDER, f"test-of-{pid}")
