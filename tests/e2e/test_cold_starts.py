"""Whole environments from one seed: two cold starts have the same bytes, and the same play ends in the same bytes.

A cold start is a fresh process, with another hash seed, time zone and folder, minutes of the clock later or not. What setup left
must be the same without exception. What the golden solution left is compared too: files by their digests, state, apps (digests of
each database's base state and of the journal of changes), and the score. `DIFFERS` names what may be different, and why.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandlot import load, tasks_of

ENVIRONMENTS = Path(__file__).parents[2] / "environments"
PLAY = """
import json, sys, msgspec, sandlot
found = {}
for trace in sandlot.run(sys.argv[1], "scripted:golden", tasks=tuple(sys.argv[3:]), runs=sys.argv[2], at_once=2):
    assert isinstance(trace.outcome, sandlot.Scored), (trace.task, trace.outcome)
    found[trace.task] = msgspec.to_builtins(trace.evidence) | {"score": str(trace.outcome.score)}
json.dump(found, sys.stdout)
"""

DIFFERS = {
    r"terminal/\w+-1/tmp/(all|one|two|pid|which)": "scratch files of the golden solution: process ids and processor time",
    r"terminal/\w+-1/work/site/\.git/index": "git's cache of the times of files",
    r"terminal/\w+-1/work/site/\.git/logs/.*": "git's log of when branches moved",
    r"terminal/(merge|tidy|backport)-1/work/site/\.git/(objects|refs)/.*": "new commits have the date at which they were made",
    r"terminal/release-1/out/release\.tar": "a tar has the times of its files",
    r"terminal/package-1/out/\w+\.pyz": "a zip has the times of its files",
}


def cold_start(name: str, tasks: list[str], folder: Path, hash_seed: str, zone: str) -> dict[str, Any]:
    """What a fresh process leaves of each task."""
    folder.mkdir()
    command = [sys.executable, "-c", PLAY, str(ENVIRONMENTS / name), str(folder / "runs"), *tasks]
    surroundings = os.environ | {"PYTHONHASHSEED": hash_seed, "TZ": zone}
    done = subprocess.run(command, env=surroundings, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def differences(name: str, task: str, one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Paths and parts of the evidence that differ and may not."""
    found = [f"initial {path}" for path in unequal(one["initial"], other["initial"])]  # without exception
    for part in ("files", "kinds"):
        found += [
            f"{part} {path}"
            for path in unequal(one[part], other[part])
            if not any(re.fullmatch(pattern, f"{name}/{task}{path}") for pattern in DIFFERS)
        ]
    return found + [part for part in unequal(one, other) if part not in {"initial", "files", "kinds"}]


def unequal(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))


def one_of_each_kind() -> list[str]:
    return [task.id for task in tasks_of(load(ENVIRONMENTS / "terminal")) if task.id.endswith("-1")]


SLOW = [pytest.mark.system, pytest.mark.timeout(900)]
COMPANY = ["support-new-1", "procurement-quotes-2", "oncall-notice-3", "hr-claims-4", "sales-clean-3", "reports-spend-2"]
PROOFS = ["coq-and-comm", "coq-root-two-irrational", "loop-double", "values-pythagoras-1000", "answer-integral-1"]
BROWSER = ["buy-named-1", "pay-known-1", "flight-in-policy-1"]


@pytest.mark.parametrize(
    ("name", "tasks"),
    [
        pytest.param("terminal", ["logs-1", "recover-1", "peer-1"], id="three of terminal"),
        pytest.param("terminal", None, id="terminal", marks=SLOW),
        pytest.param("company", COMPANY, id="company", marks=SLOW),
        pytest.param("proofs", PROOFS, id="proofs", marks=SLOW),
        pytest.param("browser", BROWSER, id="browser", marks=SLOW),
    ],
)
def test_two_cold_starts_and_the_same_play_have_the_same_bytes(tmp_path, name, tasks):
    tasks = tasks or one_of_each_kind()
    one = cold_start(name, tasks, tmp_path / "one", "1", "UTC")
    other = cold_start(name, tasks, tmp_path / "other", "2", "Asia/Tokyo")
    assert set(one) == set(other) == set(tasks)
    assert {task: differences(name, task, one[task], other[task]) for task in tasks} == {task: [] for task in tasks}
    assert all(file["blob"] for task in tasks for file in one[task]["files"].values())  # nothing was too large to be compared
    assert (name in {"company", "browser"}) == all(one[task]["apps"] for task in tasks)


LEFT: dict[str, Any] = {
    "initial": {"/data": {"size": 1, "blob": "a"}},
    "files": {"/out/x": {"size": 1, "blob": "a"}, "/tmp/pid": {"size": 1, "blob": "a"}},
    "kinds": {"/out": "folder"},
    "state": {},
    "apps": {"bases": {"mail": "a"}, "journal": "a"},
    "score": "1/1",
}


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, []),
        ({"initial": {}}, ["initial /data"]),
        ({"files": LEFT["files"] | {"/out/x": {"size": 1, "blob": "b"}}}, ["files /out/x"]),
        ({"files": LEFT["files"] | {"/tmp/pid": {"size": 1, "blob": "b"}}}, []),
        ({"files": LEFT["files"] | {"/out/more": {"size": 1, "blob": "b"}}}, ["files /out/more"]),
        ({"kinds": {}}, ["kinds /out"]),
        ({"apps": {"bases": {"mail": "b"}, "journal": "a"}}, ["apps"]),
        ({"apps": {"bases": {"mail": "a"}, "journal": "b"}}, ["apps"]),
        ({"score": "0/1"}, ["score"]),
    ],
)
def test_a_difference_is_seen(changed, found):
    assert differences("terminal", "runaway-1", LEFT, LEFT | changed) == found
