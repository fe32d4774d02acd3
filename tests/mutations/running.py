"""Runs pytest in a copy, and leaves no process behind."""

import ctypes
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Ran:
    """How pytest ended."""

    failed: tuple[str, ...]
    code: int
    cpu_s: float
    said: str


def run_suite(copy: Path) -> None:
    """Everything that `make test` runs, with the recorder beside `sandlot`."""
    for name in ("recorder", "costs"):
        shutil.copy(_HERE / f"{name}.py", copy / "src" / f"sandlot_{name}.py")
    done = run_pytest(
        copy,
        ["-n", "2", "-m", "not system", "-p", "sandlot_costs", "-p", "no:cacheprovider", "--timeout", "600"],
        most_s=4 * 3600,
    )
    (copy / ".recorded" / "said.txt").write_text(done.said)
    print(done.said[-3000:])  # noqa: T201 - the result


def run_pytest(copy: Path, words: list[str], *, most_s: float) -> Ran:
    """One pytest process. A process that it leaves behind becomes a child of this one, and is ended."""
    _adopt_orphans()
    before = _cpu_s()
    with tempfile.TemporaryDirectory(prefix="mutated-") as folder, tempfile.TemporaryFile() as said:
        kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG"}}
        environ = {**kept, "PYTEST_DEBUG_TEMPROOT": folder}
        command = [str(copy / ".venv/bin/python"), "-m", "pytest", *words]
        process = subprocess.Popen(
            command, cwd=copy, env=environ, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
        try:
            code = process.wait(most_s)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait() or -1
        _end_orphans()
        said.seek(0)
        text = said.read().decode(errors="replace")
    failed = tuple(match[1] for match in re.finditer(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.MULTILINE))
    return Ran(failed, code, _cpu_s() - before, text)


def _adopt_orphans() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_orphans() -> None:
    """All that is still below this process was left behind by the tests."""
    for _ in range(100):
        left = _children()
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError, PermissionError):
                pass
        time.sleep(0.02)


def _children() -> list[int]:
    found = []
    for task in Path("/proc/self/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return found


def _cpu_s() -> float:
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
