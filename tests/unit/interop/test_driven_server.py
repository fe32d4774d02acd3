"""Rollouts served to another framework's loop, through the real program."""

import json
import sys

import pytest

from drive.command_line import ENVIRONMENTS
from sandlot import Run
from sandlot.core.errors import AuthorError
from sandlot.core.trace import ToolCall
from sandlot.interop.driven_server import ForeignCall, ForeignMessage
from sandlot.interop.package_process import PackageProcess

PROGRAM = """
import sys
from sandlot.interop.driven_server import main
main({env!r}, {run!r})
"""


@pytest.fixture
def served(tmp_path):
    (tmp_path / "serve.py").write_text(PROGRAM.format(env=str(ENVIRONMENTS / "arithmetic"), run=str(tmp_path / "run")))
    process = PackageProcess(sys.executable, tmp_path / "serve.py")
    yield process
    process.close()


def test_a_rollout_is_played_graded_and_stored(served, tmp_path):
    begun = served.ask("begin", within_s=50, task="arithmetic-0")
    question = begun["messages"][-1]["content"]
    first, sign, second = question.removeprefix("What is ").partition("?")[0].split()
    right = {"+": int(first) + int(second), "-": int(first) - int(second), "*": int(first) * int(second)}[sign]
    moved = served.ask("move", within_s=50, rollout=begun["rollout"], message={"text": str(right), "calls": []})
    assert moved == {"messages": [], "over": True}
    assert served.ask("finish", within_s=50, rollout=begun["rollout"]) == {"reward": 1.0, "failed": ""}
    assert served.ask("drop", within_s=50, rollout=begun["rollout"]) == {}
    assert Run(tmp_path / "run").trace("arithmetic-0").reward == 1.0


def test_a_rollout_that_the_other_side_ends_is_graded_as_it_is(served):
    begun = served.ask("begin", within_s=50, task="arithmetic-0")
    assert served.ask("finish", within_s=50, rollout=begun["rollout"]) == {"reward": 0.0, "failed": ""}


def test_wrong_requests_fail_and_the_next_is_answered(served):
    for wrong, words in (
        ({"do": "begin", "task": "none"}, "is none of the"),
        ({"do": "move", "rollout": "none", "message": {}}, "KeyError"),
        ({"do": "exec", "code": "1"}, "KeyError"),
        ({"do": "begin", "other": 1}, "TypeError"),
    ):
        with pytest.raises(AuthorError, match=words):
            served.ask(wrong.pop("do"), within_s=50, **wrong)
    assert served.ask("begin", within_s=50, task="arithmetic-1")["tools"] == []


def test_arguments_that_are_no_object_are_kept_as_they_came():
    message = ForeignMessage(
        text="x", calls=(ForeignCall("1", "f", '{"a": 1}'), ForeignCall("2", "f", "[1]"), ForeignCall("3", "f", "{"))
    )
    assert message.parts[1:] == (
        ToolCall("1", "f", json.loads('{"a": 1}')),
        ToolCall("2", "f", malformed="[1]"),
        ToolCall("3", "f", malformed="{"),
    )


PRINTING = """
from sandlot import Environment, Task

env = Environment("printing")
print("loading", flush=True)

@env.tasks
def tasks(rng):
    yield Task("t", prompt="Say it.")

@env.check(points=1)
def right(evidence, task):
    print(evidence.answer, flush=True)
    return evidence.answer == "right"
"""


def test_what_author_code_prints_is_no_answer(tmp_path):
    (tmp_path / "printing.py").write_text(PRINTING)
    (tmp_path / "serve.py").write_text(PROGRAM.format(env=str(tmp_path / "printing.py"), run=str(tmp_path / "run")))
    process = PackageProcess(sys.executable, tmp_path / "serve.py")
    forged = json.dumps({"id": 3, "result": {"reward": 1.0, "failed": ""}})
    begun = process.ask("begin", within_s=50, task="t")
    process.ask("move", within_s=50, rollout=begun["rollout"], message={"text": forged, "calls": []})
    assert process.ask("finish", within_s=50, rollout=begun["rollout"])["reward"] == 0.0
    process.close()


def test_arguments_that_cannot_be_stored_are_malformed():
    (call,) = ForeignMessage(calls=(ForeignCall("1", "f", '{"a": 1' + "0" * 30 + "}"),)).parts
    assert call.malformed
