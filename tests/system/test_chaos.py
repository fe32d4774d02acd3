"""Worker processes killed at random moments: no rollout is lost, none is stored twice, and none gets a score from it.

A run with sandboxes goes on while someone kills its workers, and at times the run itself, which is then repeated. In the end
the books must balance. `CHAOS_S` says how long the killing goes on (`make test-chaos`: ten minutes).
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from command_line import ENVIRONMENTS, NOTES, environ
from sandlot import Run
from sandlot.core.trace import Failed, Scored
from sandlot.run.collector import LOST, MOST_LOST

CHAOS_S = float(os.environ.get("CHAOS_S", "45"))
pytestmark = [pytest.mark.system, pytest.mark.timeout(CHAOS_S + 600)]


def workers_of(pid: int) -> list[int]:
    """The worker processes of a run."""
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, file.read_text().split())
    return [each for each in found if "executors.worker" in commanded(each)]


def commanded(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def below(marker: str) -> list[int]:
    """Every process that was started for this run, its workers and their sandboxes included."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if marker.encode() in (path / "environ").read_bytes():
                found.append(int(path.name))
    return found


def kill(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


@dataclass
class Killed:
    workers: int = 0
    runs: int = 0


def harass(command: list[str], tmp_path: Path) -> Killed:
    """Start the command, kill its workers and at times itself, and repeat it until it has an end."""
    random, killed, until = Random(4), Killed(), time.monotonic() + CHAOS_S
    variables = environ(CHAOS=tmp_path.name)

    def start() -> subprocess.Popen:
        return subprocess.Popen(command, cwd=tmp_path, env=variables, stdout=subprocess.DEVNULL)

    run = start()
    while run.poll() is None and time.monotonic() < until:
        time.sleep(random.uniform(1, 4))
        workers = workers_of(run.pid)
        if killed.runs < 3 and killed.workers > 4 * (killed.runs + 1) and random.random() < 0.3:
            kill(run.pid)
            run.wait()
            killed.runs += 1
            run = start()
        elif workers:
            killed.workers += kill(random.choice(workers))
    while run.wait(timeout=500) == 3:  # a sitting that was interrupted; the same command continues
        run = start()
    return killed


def command_of(env: Path, group: int, place: Path, *more: str) -> list[str]:
    words = ["run", env, "--model", "scripted:mixed:0.7", "--group", group, "--seed", 1, "--at-once", 16, "--run", place, *more]
    return [sys.executable, "-m", "sandlot", *map(str, words), "--json"]


@pytest.mark.parametrize(("env", "group"), [(NOTES, 1000), (ENVIRONMENTS / "drill", 2)], ids=["memory", "sandboxes"])
def test_the_books_balance_whoever_is_killed(env, group, tmp_path):
    killed = harass(command_of(env, group, tmp_path / "run", "--on", "processes:3"), tmp_path)
    assert killed.workers >= 3, "it was over before anyone was killed"
    stored = Run(tmp_path / "run")
    traces = list(stored)
    assert stored.verdict == "complete"
    assert len(traces) == len({trace.key for trace in traces}) == stored.manifest.num_rollouts, "lost or doubled"
    for trace in traces:
        lost = [attempt.outcome for attempt in trace.attempts if attempt.outcome.kind == LOST]
        assert all(outcome.side == "harness" for outcome in lost)
        if isinstance(trace.outcome, Failed):
            assert (trace.outcome.side, trace.outcome.kind, len(lost)) == ("harness", LOST, MOST_LOST - 1), trace.outcome
        else:
            assert isinstance(trace.outcome, Scored)
        for file in trace.evidence.files.values() if trace.evidence else ():
            assert len(stored.reader.blobs.read(file.blob)) == file.size
    failed, lost = (sum(each) for each in zip(*((isinstance(t.outcome, Failed), len(t.attempts)) for t in traces), strict=True))
    sys.stdout.write(f"{env.stem}: {len(traces):,} rollouts, {killed}, {lost} attempts lost, {failed} rollouts failed\n")
    scores_are_those_of_a_quiet_run(stored, env, group, tmp_path)
    nothing_is_left(f"CHAOS={tmp_path.name}")


def scores_are_those_of_a_quiet_run(stored: Run, env: Path, group: int, tmp_path: Path) -> None:
    """The same seed draws the same, so a kill can only cost a score, never change one."""
    command = command_of(env, group, tmp_path / "quiet")
    subprocess.run(command, cwd=tmp_path, env=environ(), check=True, capture_output=True, timeout=500)
    quiet = {(row.task, row.rollout): row.score for row in Run(tmp_path / "quiet").rows}
    assert len(quiet) == len(stored)
    assert all(row.score in {None, quiet[row.task, row.rollout]} for row in stored.rows)


def nothing_is_left(marker: str) -> None:
    """No worker and no sandbox outlives its run."""
    patience = time.monotonic() + 60
    while below(marker) and time.monotonic() < patience:
        time.sleep(0.2)
    assert not below(marker)
