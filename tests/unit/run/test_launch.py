"""The order in which the rollouts of a plan start."""

from sandlot.core.task import Task
from sandlot.run.config import RunPlan
from sandlot.run.launch import DEFAULT_POLICY, LaunchQueue
from sandlot.run.schedule.job import RolloutJob
from sandlot.run.schedule.lengths import Lengths
from sandlot.run.schedule.policies import Key


class Counting:
    """The default policy, which counts the keys it gives."""

    chunk, learns, num_keys = None, True, 0

    def key(self, job: RolloutJob, lengths: Lengths) -> Key:
        self.num_keys += 1
        return DEFAULT_POLICY.key(job, lengths)


def plan(tasks: int, group: int) -> RunPlan:
    return RunPlan(tuple(Task(id=f"t{number}", prompt="") for number in range(tasks)), (group,) * tasks)


def taken(queue: LaunchQueue) -> list[tuple[str, int]]:
    return [(task.id, number) for task, number in (queue.take() for _ in range(len(queue)))]


def test_one_of_each_of_the_first_tasks_then_group_by_group():
    whole = plan(10, 2)
    queue = LaunchQueue(whole, set())
    assert len(queue) == 20
    order = taken(queue)
    first = [(f"t{number}", 0) for number in range(8)]
    assert order == [*first, *((f"t{number}", 1) for number in range(8)), ("t8", 0), ("t8", 1), ("t9", 0), ("t9", 1)]


def test_what_is_stored_is_left_out():
    assert taken(LaunchQueue(plan(2, 2), {("t0", 0), ("t1", 1)})) == [("t1", 0), ("t0", 1)]


def test_tasks_whose_rollouts_took_long_come_first_once_that_is_known():
    queue = LaunchQueue(plan(4, 8), set())
    for _ in range(4):
        queue.take()
    for _ in range(4):
        for task, seconds in (("t0", 1.0), ("t1", 30.0), ("t2", 2.0), ("t3", 9.0)):
            queue.note_ended(task, seconds)
    order = [task for task, _ in taken(queue)]
    assert order == ["t1"] * 7 + ["t3"] * 7 + ["t2"] * 7 + ["t0"] * 7


def test_every_rollout_starts_once_whatever_ends_meanwhile():
    queue, order = LaunchQueue(plan(5, 4), set()), []
    while len(queue):
        task, number = queue.take()
        order.append((task.id, number))
        queue.note_ended(task.id, 1.0 + 7 * (number % 3))
    assert sorted(order) == [(f"t{task}", number) for task in range(5) for number in range(4)]


def test_what_an_end_costs_does_not_grow_with_the_rollouts_of_a_task():
    queue = LaunchQueue(plan(3, 100_000), set(), policy := Counting())
    for _ in range(200):
        task, _ = queue.take()
        queue.note_ended(task.id, 1.0)
    assert policy.num_keys < 2_000
