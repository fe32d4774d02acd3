"""What other trainers read: the shapes TRL and verl document, from real rollouts, without held-out tasks."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from builders.tiny_models import write_tiny
from drive.command_line import ENVIRONMENTS, refused
from sandlot.core.task import split_of
from sandlot.core.types import Split
from sandlot.env.load import load
from sandlot.env.module import load_module
from sandlot.env.taskset import tasks_of
from sandlot.run.results import Run
from sandlot.train.train import train

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def helpdesk(sandlot, tmp_path_factory):
    """A run whose agent is sometimes right, with tool calls."""
    place = tmp_path_factory.mktemp("export")
    words = ("run", ENVIRONMENTS / "helpdesk", "--model", "scripted:mixed:0.5", "--group", 4, "--run", "runs/made")
    tasks = tasks_of(load(ENVIRONMENTS / "helpdesk"))
    some = [task for split in Split for task in [each for each in tasks if split_of(each) is split][:15]]
    chosen = [word for task in some for word in ("--task", task.id)]
    assert sandlot(*words, *chosen, cwd=place).code == 0
    return place


def test_sft_has_the_conversations_of_full_marks_as_messages(sandlot, helpdesk):
    done = sandlot("export", "sft", "runs/made", "--out", "sft.jsonl", "--json", cwd=helpdesk)
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in (helpdesk / "sft.jsonl").read_text().splitlines()]
    assert len(rows) == done.json["rows"] > 0
    assert {row["reward"] for row in rows} == {1.0}
    assert {message["role"] for row in rows for message in row["messages"]} == {"system", "user", "assistant", "tool"}
    call = next(call for row in rows for message in row["messages"] for call in message.get("tool_calls", ()))
    assert set(call) == {"id", "type", "function"}
    assert isinstance(call["function"]["arguments"], dict)
    told = {tool["function"]["name"] for tool in rows[0]["tools"]}
    assert call["function"]["name"] in told
    assert {message["name"] for row in rows for message in row["messages"] if message["role"] == "tool"} <= told
    assert all(row["messages"][-1]["role"] == "assistant" for row in rows)
    heldout = {row.task for row in Run(helpdesk / "runs" / "made").rows if row.split == "heldout"}
    assert heldout
    assert not heldout & {row["task"] for row in rows}


def test_held_out_tasks_come_only_when_they_are_named(sandlot, helpdesk):
    done = sandlot("export", "sft", "runs/made", "--split", "heldout", "--out", "held.jsonl", "--json", cwd=helpdesk)
    assert done.json["rows"] > 0
    assert "end its name with .jsonl or .parquet" in refused(
        sandlot("export", "sft", "runs/made", "--out", "x.csv", cwd=helpdesk)
    )


def test_pairs_are_prompt_chosen_and_rejected(sandlot, helpdesk):
    assert sandlot("export", "pairs", "runs/made", "--out", "pairs.parquet", cwd=helpdesk).code == 0
    table = pq.read_table(helpdesk / "pairs.parquet")
    assert table.column_names == ["prompt", "chosen", "rejected", "score_chosen", "score_rejected", "task", "tools"]
    rows = [{**row, "chosen": [json.loads(message) for message in row["chosen"]]} for row in table.to_pylist()]
    assert all(row["score_chosen"] > row["score_rejected"] for row in rows)
    assert len({row["task"] for row in rows}) == len(rows) > 0
    assert all(row["prompt"][-1]["role"] == "user" and row["chosen"][0]["role"] == "assistant" for row in rows)


def test_parquet_holds_the_very_messages_that_jsonl_holds(sandlot, helpdesk):
    for name in ("same.jsonl", "same.parquet"):
        assert sandlot("export", "sft", "runs/made", "--out", name, cwd=helpdesk).code == 0
    lines = [json.loads(line) for line in (helpdesk / "same.jsonl").read_text().splitlines()]
    table = pq.read_table(helpdesk / "same.parquet")
    assert str(table.schema.field("messages").type.value_type) == "extension<arrow.json>"
    rows = [
        {
            name: value if name in {"task", "rollout", "reward"} else [json.loads(each) for each in value]
            for name, value in row.items()
        }
        for row in table.to_pylist()
    ]
    assert rows == lines


def test_rollouts_are_the_exact_tokens_with_mask_and_logprobs(sandlot, tmp_path):
    letters = load_module(ENVIRONMENTS.parent / "tests" / "worlds" / "letters.py")
    train(letters.recipe(write_tiny(tmp_path / "tiny"), steps=1), run=tmp_path / "runs" / "run")
    done = sandlot("export", "rollouts", "run", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    table = pq.read_table(tmp_path / "runs" / "run" / "exports" / "rollouts.parquet").to_pylist()
    assert len(table) == done.json["rows"] == 8
    for row in table:
        assert len(row["ids"]) == len(row["mask"]) == len(row["logprobs"]) == len(row["versions"])
        mask = np.array(row["mask"], bool)
        assert mask.any()
        assert (np.array(row["logprobs"])[mask] < 0).all()
        assert (np.array(row["versions"])[mask] == 0).all()
        assert row["prompt"][-1]["role"] == "user"
        assert row["completion"][0]["role"] == "assistant"
