"""Models in roles of Inspect's tasks, in solvers, tools and scorers: the run's user model plays them."""

from pathlib import Path

import pytest

import sandlot
from sandlot.core.errors import ConfigError
from sandlot.core.persona import ROLE_ANSWERED
from sandlot.core.trace import Failed
from sandlot.core.types import Side
from sandlot.env.importing import import_environment

ROLES = Path(__file__).with_name("inspect_roles.py")
ASKING = """
from sandlot import Agent, Task


async def solve(agent: Agent, task: Task) -> None:
    await agent.say(await agent.call("ask_expert", question="4 or 2?"))
"""


def imported(name, folder):
    report = import_environment("inspect", f"{ROLES}@{name}", folder)
    assert (len(report.tasks), report.left_out) == (2, ())
    return "\n".join(report.notes)


def ran(folder, runs, user, model="scripted:constant:4"):
    return list(sandlot.run(folder, model, user=user, runs=runs, at_once=2))


def roles_of(trace):
    return [event.detail["role"] for event in trace.events if event.kind == ROLE_ANSWERED]


def test_a_grader_is_a_role_and_its_failure_is_the_graders(tmp_path):
    folder = tmp_path / "env"
    assert "in the role grader" in imported("graded", folder)
    for grade, reward in {"C": 1.0, "I": 0.0}.items():
        traces = ran(folder, tmp_path / grade, f"scripted:constant:GRADE: {grade}")
        assert [(trace.reward, roles_of(trace)) for trace in traces] == [(reward, ["grader"])] * 2
    for trace in ran(folder, tmp_path / "crash", "scripted:crash"):
        assert isinstance(trace.outcome, Failed)
        assert (trace.outcome.side, trace.reward) == (Side.GRADER, None)
    with pytest.raises(ConfigError, match="--user MODEL"):
        ran(folder, tmp_path / "none", None)


def test_a_scorer_that_swallows_the_refusal_of_a_model_scores_nothing(tmp_path):
    folder = tmp_path / "env"
    imported("forgiven", folder)
    for trace in ran(folder, tmp_path / "runs", None):
        assert isinstance(trace.outcome, Failed)
        assert (trace.outcome.side, trace.reward) == (Side.GRADER, None)


def test_an_answer_that_inspect_keeps_is_not_that_of_another_model(tmp_path):
    folder = tmp_path / "env"
    imported("remembered", folder)
    for grade, reward in {"C": 1.0, "I": 0.0}.items():
        traces = ran(folder, tmp_path / grade, f"scripted:constant:{grade}")
        assert [trace.reward for trace in traces] == [reward] * 2
        assert all(roles_of(trace) == ["grader"] for trace in traces)


def test_a_tool_may_ask_a_role(tmp_path):
    folder = tmp_path / "env"
    imported("advised", folder)
    (folder / "solution.py").write_text(ASKING)
    for trace in ran(folder, tmp_path / "unseen", None, "scripted:golden"):  # nobody was asked before the agent's first call
        assert isinstance(trace.outcome, Failed)
        assert "import it with `?roles=expert`" in trace.outcome.message
    folder = tmp_path / "again"
    imported("advised?roles=expert", folder)
    (folder / "solution.py").write_text(ASKING)
    traces = ran(folder, tmp_path / "runs", "scripted:constant:2 and 4", "scripted:golden")
    assert [(trace.reward, roles_of(trace)) for trace in traces] == [(1.0, ["expert"])] * 2


def test_roles_that_are_asked_at_once_are_answered_one_after_the_other(tmp_path):
    folder = tmp_path / "env"
    assert "in the role left, right" in imported("both", folder)
    traces = ran(folder, tmp_path / "runs", "scripted:echo", "scripted:echo")
    assert [sorted(roles_of(trace)) for trace in traces] == [["left", "right"]] * 2
    assert {trace.nodes[0].message.text for trace in traces} == {"Who are you, left? and Who are you, right?"}
