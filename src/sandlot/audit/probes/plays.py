"""What probes play: the tasks, the requests, and the witnesses that show a play."""

from random import Random

import msgspec

from sandlot.audit.case import Case
from sandlot.audit.finding import Witness
from sandlot.audit.subject import Conditions, NamedPlay, Play, Take
from sandlot.core.groups import group_by_key
from sandlot.core.task import Task
from sandlot.core.types import Json

SURE = 59
"""No failure in this many tasks means that fewer than 5 % are affected, with 95 % confidence."""
GOLDEN = NamedPlay(name="golden")
MANY_TURNS = Conditions(limits={"turns": 1000})
"""For scripts that need more turns than the task allows."""
_MAX_PLAY_CHARS = 20_000


def choose_tasks(case: Case, most: int, *, sandboxed: int | None = None) -> list[Task]:
    """Up to `most` tasks, one of each kind (tags, rubric) before a second of any; up to `sandboxed` if tasks need a sandbox."""
    if case.description.image is not None and sandboxed is not None:
        most = sandboxed
    if len(case.tasks) <= most:
        return list(case.tasks)
    rng = Random(case.seed)  # noqa: S311 - seeded, not secret
    kinds = group_by_key(((task.rubric, *task.tags), task) for task in rng.sample(case.tasks, len(case.tasks)))
    picked: list[Task] = []
    while len(picked) < most:
        for tasks in [tasks for tasks in kinds.values() if tasks]:
            picked.append(tasks.pop())
            if len(picked) == most:
                break
    order = {task.id: place for place, task in enumerate(case.tasks)}
    return sorted(picked, key=lambda task: order[task.id])


def request_for(case: Case, task: Task, play: Play) -> Take:
    """The request to play this on a task, with the audit's seed."""
    return Take(task=task.id, play=play, seed=case.seed)


def witness_inputs(task: Task, play: Play) -> Json:
    """The task and the play, for a witness; a very long play is cut."""
    whole = msgspec.to_builtins(play)
    said = msgspec.json.encode(whole).decode()
    return {"task": task.id, "play": whole if len(said) <= _MAX_PLAY_CHARS else said[:_MAX_PLAY_CHARS] + "..."}


def witness_of(case: Case, task: Task, play: Play, expected: str, observed: str, **more: object) -> Witness:
    """A witness that repeats a play; `more` goes into its inputs."""
    return Witness(inputs=witness_inputs(task, play) | more, expected=expected, observed=observed, seed=case.seed)
