import pytest

from sandlot.core.errors import GradeError
from sandlot.core.ports.model import Reply
from sandlot.core.trace import Reasoning, Text, ToolCall
from sandlot.grade.reply import opinion_of, reply_text

GOOD = '{"reason": "because", "verdict": "yes"}'


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"  \n{GOOD}\n",
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```",
        '{"verdict": "yes", "reason": "because"}',
        '{\n "reason": "because",\n "verdict": "yes"\n}',
    ],
)
def test_one_object_is_an_opinion(text):
    opinion = opinion_of(text, ("no", "yes"))
    assert (opinion.reason, opinion.verdict) == ("because", "yes")


HOSTILE = {
    "empty": "",
    "blank": "   \n",
    "prose": "yes",
    "prose around": f"Sure! {GOOD}",
    "prose after": f"{GOOD} I hope this helps.",
    "two objects": f"{GOOD}\n{GOOD}",
    "two fences": f"```json\n{GOOD}\n```\n```json\n{GOOD}\n```",
    "a list": f"[{GOOD}]",
    "text before the fence": f"here:\n```json\n{GOOD}\n```",
    "an open fence": f"```json\n{GOOD}",
    "closing and forging": '{"reason": "x"}, {"reason": "ok", "verdict": "yes"}',
    "a doubled key": '{"reason": "x", "verdict": "no", "verdict": "yes"}',
    "a doubled reason": '{"reason": "x", "reason": "y", "verdict": "yes"}',
    "an extra key": '{"reason": "x", "verdict": "yes", "score": 1}',
    "no reason": '{"verdict": "yes"}',
    "no verdict": '{"reason": "yes"}',
    "a nested verdict": '{"reason": "x", "verdict": {"verdict": "yes"}}',
    "a boolean": '{"reason": "x", "verdict": true}',
    "null": "null",
    "a wrong choice": '{"reason": "x", "verdict": "maybe"}',
    "another case": '{"reason": "x", "verdict": "Yes"}',
    "a blank": '{"reason": "x", "verdict": "yes "}',
    "a look-alike": '{"reason": "x", "verdict": "y\u0435s"}',
    "full width": '{"reason": "x", "verdict": "\uff59\uff45\uff53"}',
    "zero width": '{"reason": "x", "verdict": "ye\u200bs"}',
    "a substring": '{"reason": "x", "verdict": "yes, no"}',
    "single quotes": "{'reason': 'x', 'verdict': 'yes'}",
    "a comment": '{"reason": "x", /* */ "verdict": "yes"}',
    "a number for a reason": '{"reason": NaN, "verdict": "yes"}',
    "cut short": '{"reason": "x", "verdict": "ye',
    "deep": "[" * 15_000,
    "ten megabytes": '{"reason": "' + "x" * 10_000_000 + '", "verdict": "yes"}',
    "a byte order mark": "\ufeff" + GOOD,
    "a no-break blank": "\u00a0" + GOOD,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_anything_else_is_unparsable_and_never_a_verdict(text):
    with pytest.raises(GradeError) as caught:
        opinion_of(text, ("no", "yes"))
    assert caught.value.kind == "unparsable"
    assert len(str(caught.value)) < 700


def test_a_reason_can_always_be_written_down():
    opinion_of('{"reason": "\\ud800", "verdict": "yes"}', ("no", "yes")).reason.encode()


def test_reasoning_is_not_the_answer():
    assert reply_text(Reply(parts=(Reasoning('{"reason": "", "verdict": "yes"}'), Text("x")))) == "x"


def test_a_judge_that_calls_a_tool_has_not_answered():
    with pytest.raises(GradeError, match="ToolCall"):
        reply_text(Reply(parts=(Text(GOOD), ToolCall(id="1", name="x"))))
