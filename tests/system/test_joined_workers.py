"""A run whose workers join over the network: one is killed, one joins later, one leaves, and the books balance."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from drive.command_line import environ
from drive.ports import free_port
from sandlot import Run
from sandlot.core.trace import Scored
from sandlot.run.collector import LOST, RETURNED
from sandlot.run.control import RunOrder, tell_run
from worlds.executors import CHORES, joining

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
GROUP = 60
NUM_ROLLOUTS = 4 * GROUP
TOKEN = {"SANDLOT_WORKER_TOKEN": "of the test of workers that join"}


def command_of(place: Path, on: str) -> list[str]:
    tasks = [word for number in range(4) for word in ("--task", f"long-{number}")]
    words = ["run", CHORES, *tasks, "--model", "scripted:mixed:0.7", "--group", GROUP, "--seed", 1, "--run", place, "--on", on]
    return [sys.executable, "-m", "sandlot", *map(str, words), "--at-once", "16", "--json"]


def events_of(log: Path) -> list[dict]:
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def wait_for(log: Path, num_ended: int, run: subprocess.Popen) -> None:
    while sum(event["event"] == "rollout_ended" for event in events_of(log)) < num_ended:
        assert run.poll() is None, "it was over too soon"
        time.sleep(0.05)


def test_every_rollout_is_there_once_whoever_dies_joins_and_leaves(tmp_path):
    port, log = free_port(), tmp_path / "run" / "events.jsonl"
    started = []

    def start(command: list[str]) -> subprocess.Popen:
        process = subprocess.Popen(command, cwd=tmp_path, env=environ(**TOKEN), stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    def join() -> subprocess.Popen:
        return start(joining(port, "--at-once", 4, "--wait-s", 60, "--grace-s", 0.1, "--json"))

    try:
        run = start(command_of(tmp_path / "run", f"workers:{port}"))
        doomed, leaving = join(), join()
        wait_for(log, 1, run)
        while (status := tell_run(tmp_path / "run", RunOrder(do="status"))).workers != 2:
            time.sleep(0.05)
        assert status.waiting > 0, "16 at once, and two workers take 4 each"
        wait_for(log, 20, run)
        doomed.kill()
        wait_for(log, 40, run)
        staying = join()
        wait_for(log, 80, run)
        leaving.send_signal(signal.SIGTERM)
        said = {name: json.loads(each.communicate(timeout=120)[0]) for name, each in (("left", leaving), ("stayed", staying))}
        assert run.wait(60) == 0
    finally:
        for process in started:
            process.kill()
            process.communicate()
    assert (said["left"]["how"], leaving.returncode) == ("left", 0)
    assert (said["stayed"]["how"], staying.returncode) == ("run ended", 0)

    stored = Run(tmp_path / "run")
    traces = list(stored)
    assert stored.verdict == "complete"
    assert len(traces) == len({trace.key for trace in traces}) == NUM_ROLLOUTS, "lost or doubled"
    assert all(isinstance(trace.outcome, Scored) for trace in traces)
    for trace in traces:
        for file in trace.evidence.files.values():
            assert len(stored.reader.blobs.read(file.blob)) == file.size
    attempts = Counter((attempt.outcome.side, attempt.outcome.kind) for trace in traces for attempt in trace.attempts)
    # Those that the leaving worker has may all end while it may finish them; `test_workers.py` shows that others are returned.
    assert {("harness", LOST)} <= attempts.keys() <= {("harness", LOST), ("harness", RETURNED)}
    events = events_of(log)
    kinds = Counter(event["event"] for event in events)
    assert kinds["rollout_began"] == NUM_ROLLOUTS + attempts.total(), "every attempt is either an end, a loss or a return"
    assert kinds["rollout_ended"] == NUM_ROLLOUTS
    loads = [(event["num_workers"], event["num_waiting"]) for event in events if event["event"] == "workers"]
    assert loads[-1] == (0, 0)
    assert max(waiting for _, waiting in loads) > 0, "there were always too few"

    subprocess.run(command_of(tmp_path / "quiet", "local"), cwd=tmp_path, env=environ(), check=True, capture_output=True)
    quiet = {(row.task, row.rollout): row.score for row in Run(tmp_path / "quiet").rows}
    assert {(row.task, row.rollout): row.score for row in stored.rows} == quiet, "the same seed draws the same, wherever it is"
    sys.stdout.write(f"{NUM_ROLLOUTS} rollouts, {dict(attempts)}, {said}\n")
