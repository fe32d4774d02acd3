"""Promise 7 on the real machine: killed at random moments, hundreds of times, nothing is lost and nothing doubled."""

import os
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

ROUNDS = 240
ROUNDS_A_RUN = 12
SECONDS = 60  # on a crowded machine fewer rounds fit; never fewer than `LEAST`
LEAST = 200


@pytest.fixture
def nursery():
    """A process that forks writers."""
    script = Path(__file__).parent / "crash_writer.py"
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        yield process
        process.stdin.close()


def killed_after(nursery, path: Path, acknowledgements: Path, seconds: float) -> None:
    nursery.stdin.write(f"{path} {acknowledgements}\n")
    pid = int(nursery.stdout.readline())
    time.sleep(seconds)  # the moment is what is being tested
    os.kill(pid, signal.SIGKILL)
    assert int(nursery.stdout.readline()) == -signal.SIGKILL, "the writer ended by itself"


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


@pytest.mark.system
@pytest.mark.timeout(300)
async def test_killed_hundreds_of_times_nothing_is_lost_and_nothing_doubled(nursery, tmp_path):
    random = Random(20)
    stop = time.monotonic() + SECONDS
    kept = rounds = sealed = 0
    while rounds < LEAST or (rounds < ROUNDS and time.monotonic() < stop):
        path = tmp_path / f"run{rounds // ROUNDS_A_RUN}"
        seen: set = set()
        for _ in range(ROUNDS_A_RUN):
            acknowledgements = tmp_path / f"{path.name}.acknowledged"
            killed_after(nursery, path, acknowledgements, random.uniform(0.0, 0.25))
            if (path / "manifest.json").exists():
                seen = await check(path, acknowledged_in(acknowledgements), seen, reopen=random.random() < 0.3)
            else:
                assert not acknowledged_in(acknowledgements)
            rounds += 1
        kept += len(seen)
        sealed += len(layout_of(path).segments)
    assert rounds >= LEAST
    assert sealed > rounds / 10, "too little was sealed while writers were killed"
    assert kept > rounds, f"kept {kept} in {rounds} rounds: writers were killed before they could keep anything"
