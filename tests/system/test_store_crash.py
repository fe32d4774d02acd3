"""Promise 7 on the real machine: killed at random moments, hundreds of times, nothing is lost and nothing doubled."""

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from sandlot.store.directory import open_run
from sandlot.store.layout import layout_of
from sandlot.store.reader import RunReader
from system.crash_writer import blob_for, key_for, trace_for

pytestmark = [pytest.mark.system, pytest.mark.core]

ROUNDS = 204
ROUNDS_A_RUN = 12
MOST_KEPT = 60
"""Traces that a writer keeps before it is killed, at most: some kill it while it starts, some while it seals its third log."""


@pytest.fixture
def nursery():
    """A process that forks writers."""
    script = Path(__file__).parent / "crash_writer.py"
    command, env = [sys.executable, str(script)], os.environ | {"PYTHONPATH": str(script.parents[1])}
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        yield process
        process.stdin.close()


def killed_somewhere(nursery, path: Path, acknowledgements: Path, random: Random) -> None:
    """Kill a writer after what it kept, however fast it does, and a moment that differs."""
    enough = len(acknowledged_in(acknowledgements)) + random.randrange(MOST_KEPT)
    nursery.stdin.write(f"{path} {acknowledgements}\n")
    pid = int(nursery.stdout.readline())
    while len(acknowledged_in(acknowledgements)) < enough and not has_ended(nursery):
        time.sleep(0.001)
    time.sleep(random.uniform(0.0, 0.02))  # the moment is what is being tested
    os.kill(pid, signal.SIGKILL)
    assert int(nursery.stdout.readline()) == -signal.SIGKILL, "the writer ended by itself"


def has_ended(nursery) -> bool:
    """True if it has said how its writer ended."""
    return bool(select.select([nursery.stdout], [], [], 0)[0])


def acknowledged_in(path: Path) -> list[int]:
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [int(line) for line in lines if line.endswith(b"\n")]


async def check(path: Path, acknowledged: list[int], seen: set, *, reopen: bool) -> set:
    """Everything acknowledged is there once, as it was; nothing is there twice; blobs can be read."""
    reader = RunReader(path)
    traces = list(reader.traces())
    keys = {trace.key for trace in traces}
    assert len(keys) == len(traces), "doubled"
    missing = {key_for(rollout) for rollout in acknowledged} - keys
    assert not missing, f"lost: {missing}"
    for trace in traces:
        if trace.key not in seen:
            assert trace == trace_for(trace.rollout)
            assert reader.blobs.read(trace.evidence.files["/out/answer.txt"].blob) == blob_for(trace.rollout)
    if reopen:
        async with open_run(path) as run:
            assert run.done_keys() == keys
    return keys


@pytest.mark.timeout(600)
async def test_killed_hundreds_of_times_nothing_is_lost_and_nothing_doubled(nursery, tmp_path):
    random = Random(20)
    kept = rounds = sealed = 0
    while rounds < ROUNDS:
        path = tmp_path / f"run{rounds // ROUNDS_A_RUN}"
        seen: set = set()
        for _ in range(ROUNDS_A_RUN):
            acknowledgements = tmp_path / f"{path.name}.acknowledged"
            killed_somewhere(nursery, path, acknowledgements, random)
            if (path / "manifest.json").exists():
                seen = await check(path, acknowledged_in(acknowledgements), seen, reopen=random.random() < 0.3)
            else:
                assert not acknowledged_in(acknowledgements)
            rounds += 1
        kept += len(seen)
        sealed += len(layout_of(path).segments)
    assert sealed > rounds / 4, "too little was sealed while writers were killed"
    assert kept > 10 * rounds, f"kept {kept} in {rounds} rounds: writers were killed before they could keep anything"
