"""Rollouts run ahead by as many versions as allowed, in order, and none is thrown away."""

from random import Random

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.task import Task
from sandlot.core.trace import Trace
from sandlot.train.choices import TaskChoices
from sandlot.train.groups import Groups, open_groups

TASKS = [Task(f"t{number}", prompt="") for number in range(5)]


def chosen() -> TaskChoices:
    return TaskChoices({"e": TASKS}, seed=0)


def learn(seed, staleness, step, extra, steps):
    """A loop whose rollouts take random time; for each group learned from, how far behind its oldest rollout was."""
    rng = Random(seed)
    version, begun, behind, order = 0, {}, [], []

    async def take(choice, rollout):
        task = choice.task
        begun[task.id, rollout] = version
        for _ in range(rng.randrange(30)):
            await anyio.lowlevel.checkpoint()
        return Trace(run="r", task=task.id, rollout=rollout, seed=0)

    async def main():
        nonlocal version
        groups = Groups(take, chosen(), size=2, step=step, staleness=staleness, first=0)
        async with open_groups(groups):
            for _ in range(steps):
                for choice, traces in [*await groups.next(step), *await groups.next(rng.randrange(extra + 1))]:
                    order.append(choice.task.id)
                    behind.append(version - min(begun[trace.key] for trace in traces))
                for _ in range(rng.randrange(10)):  # learning takes time too
                    await anyio.lowlevel.checkpoint()
                version += 1
                groups.published()

    anyio.run(main)
    return behind, order


@given(st.integers(0, 999), st.integers(0, 3), st.integers(1, 4), st.integers(0, 3))
def test_no_group_is_older_than_the_bound(seed, staleness, step, extra):
    behind, _ = learn(seed, staleness, step, extra, steps=6)
    assert max(behind) <= staleness


@given(st.integers(0, 999), st.integers(0, 3), st.integers(0, 2))
def test_groups_come_in_the_order_of_their_tasks_and_each_once(seed, staleness, extra):
    _, order = learn(seed, staleness, 2, extra, steps=6)
    expected = [chosen().at(number).task.id for number in range(len(order))]
    assert order == expected


def test_more_staleness_is_used():
    behind, _ = learn(1, 2, 2, 0, steps=8)
    assert max(behind) == 2


async def test_an_error_in_a_rollout_reaches_the_loop():
    async def take(choice, rollout):
        raise RuntimeError("no disk")

    with pytest.raises(RuntimeError, match="no disk"), anyio.fail_after(5):
        async with open_groups(Groups(take, chosen(), size=1, step=1, staleness=0, first=0)) as groups:
            await groups.next(1)


async def test_nothing_begins_for_steps_that_will_not_come():
    begun = []

    async def take(choice, rollout):
        begun.append(choice.task.id)
        return Trace(run="r", task=choice.task.id, rollout=rollout, seed=0)

    groups = Groups(take, chosen(), size=1, step=2, staleness=1, first=0, steps=2)
    async with open_groups(groups):
        for _ in range(2):
            await groups.next(2)
            groups.published()
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
    assert len(begun) == 4
