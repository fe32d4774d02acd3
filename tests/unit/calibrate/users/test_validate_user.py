"""`validate_user`: which conversations of an environment a simulated user is measured in."""

import json

import pytest

from drive.command_line import ENVIRONMENTS
from sandlot.calibrate.judges.gates import GateState
from sandlot.calibrate.users.validate import validate_user
from sandlot.core.errors import ConfigError
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of

RETURNS = ENVIRONMENTS / "returns"


@pytest.mark.parametrize(("user", "standing"), [("scripted:persona", GateState.PASS), ("scripted:echo", GateState.FAIL)])
async def test_a_user_is_measured_in_the_known_conversations_of_so_many_tasks(user, standing):
    begun = []
    found = await validate_user(RETURNS, user, most=3, repeats=2, begin=lambda *numbers: begun.append(numbers))
    assert found.standing is standing
    ((tasks, conversations),) = begun
    assert tasks == found.quality.tasks == 3
    assert conversations >= 3


async def test_labelled_conversations_of_other_tasks_are_held_too(tmp_path):
    env = load(RETURNS)
    first, second = (task.id for task in tasks_of(env)[:2])
    labels = tmp_path / "labels.jsonl"
    labels.write_text(json.dumps({"task": second, "agent": ["I am sorry to hear that."], "labels": ["goes on"]}) + "\n")
    begun = []
    await validate_user(env, "scripted:persona", tasks=(first, second), most=1, repeats=2, begin=lambda *said: begun.append(said))
    await validate_user(
        env, "scripted:persona", tasks=(first, second), labels=labels, most=1, repeats=2, begin=lambda *said: begun.append(said)
    )
    (one, alone), (other, labelled) = begun
    assert (one, other) == (1, 1)
    assert labelled == alone + 1


async def test_wrong_options_are_refused():
    with pytest.raises(ConfigError, match="--tasks is 0; give 1 or more"):
        await validate_user(RETURNS, "scripted:persona", most=0)
    with pytest.raises(ConfigError, match="no persona for a model to play"):
        await validate_user(ENVIRONMENTS / "drill", "scripted:persona")
