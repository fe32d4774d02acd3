"""Our judges, held to the suite that we ship."""

import pytest

from sandlot.core.errors import GradeError
from sandlot.core.ports.model import Reply
from sandlot.core.trace import Text
from sandlot.grade.judge import CANARIES, ModelJudge
from sandlot.testing.fakes import FixedJudge, ScriptedChat
from sandlot.testing.judge import *


def model_judge(reply):
    """Its model answers the control questions right, and everything else with `reply`."""

    def said(messages):
        known = next((verdict for question, verdict in CANARIES if f"Criterion: {question}" in messages[-1].text), None)
        if known is None and isinstance(reply, Exception):
            raise reply
        return Reply(parts=(Text(f'{{"reason": "", "verdict": "{known}"}}' if known else reply),))

    return ModelJudge(ScriptedChat(said))


def fixed_judge(reply):
    return FixedJudge(reply, reason="r")


@pytest.fixture(params=[model_judge, fixed_judge])
def judge_of(request):
    return request.param


@pytest.fixture
def reply_with(judge_of):
    if judge_of is fixed_judge:
        return lambda verdict, reason: verdict
    return lambda verdict, reason: f'{{"reason": "{reason}", "verdict": "{verdict}"}}'


@pytest.mark.parametrize("reply", ["yes", "{}", '{"reason": "", "verdict": "yes"} yes'])
async def test_a_reply_that_is_no_json_object_alone_is_an_error(reply):
    with pytest.raises(GradeError) as caught:
        await model_judge(reply).ask("q", ("no", "yes"), {"answer": "x"}, 1)
    assert caught.value.kind == "unparsable"
