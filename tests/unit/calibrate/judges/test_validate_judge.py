"""`validate_judge`: what a judge is asked about, by the kind of file or folder that is named."""

import json

import pytest

from fakes.endpoint import FakeEndpoint, says
from sandlot.calibrate.judges.gates import GateState
from sandlot.calibrate.judges.judge import Probing
from sandlot.calibrate.judges.validate import validate_judge
from sandlot.core.errors import ConfigError

CHECK = {"kind": "judge", "id": "kind", "prompt": "The answer is kind.", "view": ["answer"]}
EXAMPLES = [{"view": "Gladly!", "verdict": "yes"}, {"view": "Go away.", "verdict": "no"}]


def flatterer(_request):
    return says('{"reason": "so good", "verdict": "yes"}')


@pytest.fixture
def rubric(tmp_path):
    path = tmp_path / "rubric.json"
    path.write_text(json.dumps({"checks": [{**CHECK, "examples": EXAMPLES}]}))
    return path


async def test_examples_of_a_rubric_and_labels_of_people_are_asked_together(tmp_path, rubric):
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"check": "kind", "view": "With pleasure.", "labels": ["yes"]}\n{"check": "kind", "view": "Hm."}\n')
    begun = []
    async with FakeEndpoint(then=flatterer) as endpoint:
        found = await validate_judge(
            rubric,
            f"openai:fake@{endpoint.url}",
            labels=labels,
            probing=Probing(repeats=2),
            begin=lambda *numbers: begun.append((*numbers, len(endpoint.requests))),
        )
    assert begun == [(4, 3, 0)]  # items, labelled ones, and no question yet
    assert (found.quality.items, found.quality.labelled, found.quality.calls) == (4, 3, len(endpoint.requests))
    assert found.standing is GateState.FAIL  # it says yes to everything, the canaries included


async def test_what_has_nothing_to_ask_about_is_refused_before_the_judge_is_opened(tmp_path):
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps({"checks": [CHECK]}))
    with pytest.raises(ConfigError, match=r"its judge checks \(kind\) have no examples"):
        await validate_judge(bare, "openai:fake@http://127.0.0.1:9/v1")


async def test_a_policy_is_no_judge(rubric):
    with pytest.raises(ConfigError, match="a judge is a chat model"):
        await validate_judge(rubric, "scripted:golden")
