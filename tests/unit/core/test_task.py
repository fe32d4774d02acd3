"""A task's data belongs to each rollout alone."""

from dataclasses import dataclass, field

import pytest

import sandlot
from sandlot import Environment, Task
from sandlot.core.errors import ConfigError
from sandlot.core.task import require_trainable, split_of
from sandlot.core.types import Split


@dataclass
class Books:
    rows: list[int] = field(default_factory=list)


def test_copies_share_nothing_that_can_change():
    task = Task("a", data={"rows": [1, {"b": [2]}], "pair": ([3],), "books": Books([4])}, key={"right": [5]})
    for copy in (task.public(), task.copied()):
        copy.data["rows"][1]["b"].append(0)
        copy.data["pair"][0].append(0)
        copy.data["books"].rows.append(0)
        copy.data["new"] = 1
    copy.key["right"].append(0)
    assert task == Task("a", data={"rows": [1, {"b": [2]}], "pair": ([3],), "books": Books([4])}, key={"right": [5]})


def test_what_one_rollout_changes_in_its_task_no_other_one_sees(tmp_path):
    seen = []
    env = Environment("sharing")
    tasks = [Task("one", prompt="Go.", data={"list": []}, key={"list": []})]
    env.tasks(lambda rng: tasks)

    def note(where, *lists):
        seen.append((where, *(list(each) for each in lists)))
        [each.append(where) for each in lists]

    @env.setup
    def setup(world, task):
        note("setup", task.data["list"])

    @env.tool
    def add(world: sandlot.World) -> str:
        """Add."""
        note("tool", world.task.data["list"])
        return "ok"

    @env.check(points=1)
    def right(evidence, task):
        note("check", task.data["list"], task.key["list"])
        return True

    @env.solution
    async def solve(agent, task):
        note("solution", task.data["list"], task.key["list"])
        await agent.call("add")

    for trace in sandlot.run(env, "scripted:golden", rollouts=3, runs=tmp_path):
        assert trace.reward == 1.0
    assert sorted(seen) == sorted([("setup", []), ("tool", ["setup"]), ("check", [], []), ("solution", [], [])] * 3)
    assert tasks == [Task("one", prompt="Go.", data={"list": []}, key={"list": []})]


def test_a_task_that_is_held_out_is_refused_for_training_whether_it_says_so_or_its_hash():
    tasks = [Task(f"t{number}") for number in range(40)]
    kept = [task for task in tasks if split_of(task) is Split.TRAIN]
    by_hash = next(task for task in tasks if split_of(task) is Split.HELDOUT)
    require_trainable([*kept, Task("named", split=Split.TRAIN)])
    for task in (by_hash, Task("named", split=Split.HELDOUT)):
        with pytest.raises(ConfigError, match=f"^`{task.id}` held out"):
            require_trainable([*kept, task])
