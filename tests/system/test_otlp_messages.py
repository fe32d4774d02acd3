"""What `--otlp` sends, decoded by the real protobuf messages: a complete tree of spans for every rollout of a run."""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from drive.command_line import NOTES, started
from fakes.otlp_receiver import receiving
from sandlot.run.results import Run

pytestmark = pytest.mark.system
HERE = Path(__file__).parent


def test_the_real_messages_hold_the_whole_tree_of_every_rollout(tmp_path: Path) -> None:
    python = subprocess.run(
        ["sh", HERE.parent / "install" / "otlp.sh", sys.executable], check=True, stdout=subprocess.PIPE, text=True, timeout=250
    ).stdout.strip()
    words = ("run", NOTES, "-m", "scripted:golden", "--rollouts", 2000, "--run", "r", "--json")
    with receiving() as receiver:
        done = started(*words, "--otlp", receiver.url, cwd=tmp_path, patience_s=200)
    assert (done.code, done.err) == (0, "")
    (tmp_path / "bodies").mkdir()
    for number, body in enumerate(receiver.bodies):
        (tmp_path / "bodies" / f"{number:06d}.json").write_bytes(body)
    told = subprocess.run(
        [python, HERE / "otlp_messages.py", tmp_path / "bodies"], check=True, stdout=subprocess.PIPE, timeout=120
    )
    spans = [json.loads(line) for line in told.stdout.splitlines()]
    assert {(span["service"], span["trace"]) for span in spans} == {("sandlot", spans[0]["trace"])}
    children = defaultdict(list)
    for span in spans:
        children[span["parent"]].append(span)
    (root,) = children[""]
    assert root["name"] == "run notes"
    rows = {f"rollout {row.task}/{row.rollout}": row for row in Run(tmp_path / "r").rows}
    assert len(rows) == 2000
    found = {span["name"]: span for span in children[root["id"]]}
    assert found.keys() == rows.keys()
    for name, row in rows.items():
        assert found[name]["about"]["sandlot.score"] == row.score
        below = sorted(span["name"] for span in children[found[name]["id"]])
        assert below == ["grade", *(f"turn {number + 1}" for number in range(row.turns))]
        turns = [span for span in children[found[name]["id"]] if span["name"] != "grade"]
        calls = [span for turn in turns for span in children[turn["id"]]]
        assert sum(span["name"].startswith("execute_tool") for span in calls) == row.calls
        assert sum(span["name"].startswith("chat") for span in calls) == row.turns
    assert len(spans) == len({span["id"] for span in spans})
