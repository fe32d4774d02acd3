"""What a scripted play put in and what it was given."""

import msgspec

from sandlot.audit.case import Case
from sandlot.audit.subject import Play, Take
from sandlot.core.task import Task
from sandlot.core.types import Json

_MAX_PLAY_CHARS = 20_000


def request_for(case: Case, task: Task, play: Play) -> Take:
    """The request, with the audit's seed."""
    return Take(task=task.id, play=play, seed=case.seed)


def witness_inputs(task: Task, play: Play) -> Json:
    """What was done, for a witness: the play whole, unless it is huge."""
    whole = msgspec.to_builtins(play)
    said = msgspec.json.encode(whole).decode()
    return {"task": task.id, "play": whole if len(said) <= _MAX_PLAY_CHARS else said[:_MAX_PLAY_CHARS] + "..."}
