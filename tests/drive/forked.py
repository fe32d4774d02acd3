"""Work in a fork of this process: it has the imports behind it, and may spoil what it likes."""

import os
import traceback
import warnings
from collections.abc import Callable


def forked(work: Callable[[], str]) -> str:
    """What the work returned; an `AssertionError` with its traceback if it raised, or ended the process."""
    ours, its = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: those here hold no lock that the work needs
        pid = os.fork()
    if pid == 0:
        _be(work, its)
    os.close(its)
    with os.fdopen(ours, encoding="utf-8") as stream:
        said = stream.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 0, f"exit {code}: {said}"
    return said


def _be(work: Callable[[], str], its: int) -> None:
    code, said = 1, ""
    try:
        code, said = 0, work()
    except BaseException:  # noqa: BLE001 - the parent tells of it
        code, said = 1, traceback.format_exc()
    finally:
        with os.fdopen(its, "w", encoding="utf-8") as stream:
            stream.write(said)
        os._exit(code)
