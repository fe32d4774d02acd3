"""`play_task`: one graded rollout by any policies, stored nowhere. Replays are tested in `tests/e2e`."""

import pytest

from drive.command_line import ENVIRONMENTS, NOTES
from sandlot.core.errors import ConfigError
from sandlot.core.trace import Scored
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of
from sandlot.model.policy.scripted import scripted_policies
from sandlot.run.replay import play_task


async def test_the_first_task_or_the_named_one_is_played_and_graded():
    env = load(NOTES)
    first, *_, last = tasks_of(env)
    golden = scripted_policies("golden", env.marked.solution)
    for named, task in ((None, first), (last.id, last)):
        trace = await play_task(env, golden, named)
        assert (trace.task, trace.run) == (task.id, "play")
        assert isinstance(trace.outcome, Scored)
        assert trace.outcome.score.passed


async def test_a_user_is_played_by_the_model_that_is_named():
    env = load(ENVIRONMENTS / "returns")
    golden = scripted_policies("golden", env.marked.solution)
    trace = await play_task(env, golden, user="scripted:persona")
    assert isinstance(trace.outcome, Scored)


@pytest.mark.parametrize(
    ("options", "refusal"),
    [({"task": "nope"}, "no task `nope`"), ({"user": "scripted:persona"}, "no persona for a model to play")],
)
async def test_what_cannot_be_played_is_refused(options, refusal):
    with pytest.raises(ConfigError, match=refusal):
        await play_task(NOTES, scripted_policies("noop", None), **options)
