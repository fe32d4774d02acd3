"""Which tasks a probe plays: a small seeded choice, spread over the kinds of tasks."""

from collections import defaultdict
from random import Random

from sandlot.audit.case import Case
from sandlot.core.task import Task

SURE = 59
"""No failure in this many tasks means that fewer than 5 % are affected, with 95 % confidence."""


def choose_tasks(case: Case, most: int, *, sandboxed: int | None = None) -> list[Task]:
    """Up to `most` tasks, one of each kind (tags, rubric) before a second of any; up to `sandboxed` if tasks need a sandbox."""
    if case.description.image is not None and sandboxed is not None:
        most = sandboxed
    if len(case.tasks) <= most:
        return list(case.tasks)
    rng = Random(case.seed)  # noqa: S311 - seeded, not secret
    kinds: dict[tuple[str, ...], list[Task]] = defaultdict(list)
    for task in rng.sample(case.tasks, len(case.tasks)):
        kinds[(task.rubric, *task.tags)].append(task)
    picked: list[Task] = []
    while len(picked) < most:
        for tasks in [tasks for tasks in kinds.values() if tasks]:
            picked.append(tasks.pop())
            if len(picked) == most:
                break
    order = {task.id: place for place, task in enumerate(case.tasks)}
    return sorted(picked, key=lambda task: order[task.id])
