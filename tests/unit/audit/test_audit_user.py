"""Audits of environments whose user a model plays: what cannot be played as asked is INCOMPLETE, never FIX."""

import re
from pathlib import Path

import pytest

from fakes.endpoint import FakeEndpoint, says, status
from sandlot.audit.audit import AuditPlan, audit_subject
from sandlot.audit.finding import Layer
from sandlot.audit.layers import AuditSelection
from sandlot.audit.subject import Conditions, NamedPlay, Take
from sandlot.audit.verdict import Audit, AuditVerdict, State
from sandlot.core.errors import ConfigError

GUIDE = Path(__file__).parents[3] / "docs/guides/users.md"
PLAYED = frozenset({Layer.GRADER, Layer.SCRIPTED})
PROBES = frozenset({"golden", "golden-passes", "allowed-calls", "forbidden-calls"})
DEAD = "openai:x@http://127.0.0.1:9/v1"


@pytest.fixture
def kettle(tmp_path) -> str:
    """The guide's own example."""
    found = re.search(r"```python kettle\.py\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    (tmp_path / "kettle.py").write_text(found[1])
    return str(tmp_path / "kettle.py")


@pytest.fixture
def audited(subject_of):
    async def audited(env: str, *, user: str | None = None, judge: str | None = None, sandbox: str = "native") -> Audit:
        given = AuditPlan(subject=env, user=user, judge=judge, wanted=AuditSelection(layers=PLAYED, probes=PROBES))
        return await audit_subject(subject_of(env, user=user, judge=judge, sandbox=sandbox), given)

    return audited


def reason(found: Audit) -> str:
    """Why the layers that play could not; no layer has found anything."""
    assert found.verdict is AuditVerdict.INCOMPLETE
    assert not found.findings
    stopped = [layer for layer in found.layers if layer.layer in PLAYED]
    assert {layer.state for layer in stopped} == {State.COULD_NOT_RUN}
    return stopped[0].why


async def test_a_persona_without_a_model_is_incomplete(kettle, audited):
    assert "name one with `--user MODEL`" in reason(await audited(kettle))


async def test_a_persona_that_a_model_plays_is_played(kettle, audited):
    found = await audited(kettle, user="scripted:persona")
    assert not found.findings
    assert {layer.state for layer in found.layers if layer.layer in PLAYED} == {State.RAN}


async def test_a_user_that_cannot_be_reached_is_no_flaw_of_the_environment(kettle, audited):
    assert "127.0.0.1:9" in reason(await audited(kettle, user=DEAD))


async def test_a_user_that_fails_in_the_middle_is_no_flaw_of_the_environment(kettle, audited):
    async with FakeEndpoint([says("The order number is 1.")], then=status(400)) as endpoint:
        found = await audited(kettle, user=f"openai:x@{endpoint.url}")
    assert "could not be played" in reason(found)
    assert {request.body["temperature"] for request in endpoint.requests} == {0.0}


async def test_a_user_that_plays_badly_is_no_flaw_of_the_environment(kettle, audited):
    assert "with `scripted:persona` it does" in reason(await audited(kettle, user="scripted:constant:No."))


async def test_a_golden_solution_that_fails_with_every_user_is_a_flaw(kettle, audited):
    file = Path(kettle)
    file.write_text(file.read_text().replace("order=number.strip()", 'order="0"'))
    found = await audited(kettle, user="scripted:constant:No.")
    assert found.verdict is AuditVerdict.FIX
    assert {finding.code for finding in found.findings} == {"D13.golden"}


async def test_a_user_for_an_environment_without_a_persona_is_refused(tmp_path, audited):
    (tmp_path / "plain.py").write_text(PLAIN_ENV)
    with pytest.raises(ConfigError, match="has no persona for a model to play"):
        await audited(str(tmp_path / "plain.py"), user="scripted:persona")


async def test_the_user_stays_reachable_while_the_network_is_off_and_says_the_same_in_every_place(kettle, subject_of):
    async with FakeEndpoint(then=says("1")) as endpoint:
        subject = subject_of(kettle, user=f"openai:x@{endpoint.url}")
        requests = [Take(task="refund-0", play=NamedPlay(name="golden"))] * 2
        trials = await subject.take(requests, Conditions(network=False))
    assert [trial.failed for trial in trials] == [None, None]
    first, *others = [request.body for request in endpoint.requests if len(request.body["messages"]) == 4]
    assert others
    assert all(other == first for other in others)


async def test_a_sandbox_that_is_not_there_is_no_flaw_of_the_environment(tmp_path, audited):
    (tmp_path / "plain.py").write_text(PLAIN_ENV.replace('"plain"', '"plain", image="host"'))
    found = await audited(str(tmp_path / "plain.py"), sandbox=f"docker:{tmp_path / 'none.sock'}")
    assert "none.sock" in reason(found)


async def test_a_judge_that_cannot_be_reached_is_no_flaw_of_the_environment(tmp_path, audited):
    env = str(tmp_path / "plain.py")
    (tmp_path / "plain.py").write_text(PLAIN_ENV + JUDGED)
    async with FakeEndpoint(then=status(400)) as endpoint:
        assert "answered 400" in reason(await audited(env, judge=f"openai:x@{endpoint.url}"))
    assert "name one with `--judge MODEL`" in reason(await audited(env))
    assert "127.0.0.1:9" in reason(await audited(env, judge=DEAD))


PLAIN_ENV = """
from sandlot import Environment, Task
env = Environment("plain")
@env.tasks
def tasks(rng):
    yield Task("one", prompt="Say 1.")
@env.check(points=1)
def right(evidence, task):
    return evidence.answer == "1"
@env.solution
async def solve(agent, task):
    await agent.say("1")
"""


JUDGED = """
from sandlot.core.rubric import JudgeCheck, Rubric
env.marked.rubrics["default"] = Rubric(checks=(JudgeCheck(id="nice", prompt="It is polite."),))
"""
