"""Scripted plays: the request that starts one, and the witness that shows one."""

import msgspec

from sandlot.audit.case import Case
from sandlot.audit.finding import Witness
from sandlot.audit.subject import Conditions, NamedPlay, Play, Take
from sandlot.core.task import Task
from sandlot.core.types import Json

GOLDEN = NamedPlay(name="golden")
MANY_TURNS = Conditions(limits={"turns": 1000})
"""For scripts that need more turns than the task allows."""
_MAX_PLAY_CHARS = 20_000


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
