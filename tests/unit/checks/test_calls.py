"""Checks of calls see what a foreign agent called from its shell, and not what it only said."""

import json

from builders.evidence import make_evidence, tool_call
from sandlot.checks.calls import max_calls, tool_called, tool_not_called
from sandlot.core.trace import Event
from sandlot.grade.view import transcript


def evidence_of(*, foreign: bool):
    evidence = make_evidence(calls=[tool_call("refund", amount=5)])
    if foreign:
        made = {"call": "tool1", "tool": "delete", "arguments": {"id": 7}, "text": "gone", "error": False}
        evidence.trace.events += [Event(kind="captured", turn=1), Event(kind="tool_called", turn=1, detail=made)]
    return evidence


def test_an_agent_in_the_loop_made_the_calls_of_its_messages():
    evidence = evidence_of(foreign=False)
    assert tool_called(evidence, "refund", where={"amount": 5})[0]
    assert tool_not_called(evidence, "delete")[0]


def test_a_foreign_agent_made_the_calls_that_the_environment_ran():
    evidence = evidence_of(foreign=True)
    assert not tool_called(evidence, "refund")[0]
    assert tool_called(evidence, "delete", where={"id": 7})[0]
    assert not tool_not_called(evidence, "delete")[0]
    assert not max_calls(evidence, 0)[0]
    lines = [json.loads(line) for line in transcript(evidence.trace).splitlines()[1:]]
    assert {"role": "shell", "turn": 1, "calls": "delete", "arguments": {"id": 7}} in lines
    assert {"role": "tool", "result": "gone"} in lines
