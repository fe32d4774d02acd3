"""A crash of our own part after the agent has acted: it is recorded, and does not decide whether the rollout is graded.

Tools, apps, servers and functions of the author may crash on what an agent does. The agent gets an error, the trace an event, and
what is there is graded: a crash must not let an agent escape a bad grade. The event has a signature without the agent's words, by
which crashes are counted as defects of the environment (`run/breaker.py`, `analysis/health/crashes.py`, the audit, a training).

What lives inside the agent's own sandbox it may kill, replace and remove. A crash for such a reason is shown like any other, but
it stops neither a run nor a training: otherwise a few agents could end the run of all. Its signature says so.
"""

import traceback
from pathlib import Path
from typing import Literal, get_args

from sandlot.core.concurrency.author import frames_of
from sandlot.core.errors import ConfigError, InsideError, SandlotError
from sandlot.core.trace import CRASHES, TEARDOWN_FAILED, TOOL_CRASHED, Event, Trace
from sandlot.core.types import Side

OnCrash = Literal["grade", "lose", "fail"]
"""What a crash of a tool does to its rollout: graded on what is there; ended and scored without a point; failed, no reward."""
REFUSED = "refused"
"""The kind of an error that changed nothing, such as a refusal that should not have been: a rollout is not lost by it."""
_ON_CRASH = get_args(OnCrash)
_HERE = str(Path(__file__).parents[1])
_SANDBOX = str(Path(__file__).parents[1] / "sandbox")
_INSIDE = ", in the sandbox"
_MESSAGE_CHARS = 1000


def require_on_crash(given: object, where: str) -> None:
    """`ConfigError` if it is none of these."""
    if given not in _ON_CRASH:
        raise ConfigError(f"{where}: on_crash={given!r} is unknown; use {', '.join(map(repr, _ON_CRASH))}")


def crash_event(what: str, error: SandlotError, turn: int, *, whole: bool = True) -> Event:
    """The event of a crash of a tool or a function. Without `whole` it has the signature only: an agent may repeat a call."""
    detail = {"tool": what, "signature": signature_of(error)}
    if whole:
        detail |= {"message": str(error)[:_MESSAGE_CHARS], "frames": list(frames_of(error))}
    return Event(kind=TOOL_CRASHED, turn=turn, detail=detail)


def teardown_event(error: SandlotError, turn: int) -> Event:
    """The event of a world that could not be closed in order."""
    signature = f"{(error.side or Side.HARNESS).value}/{error.kind}"
    return Event(
        kind=TEARDOWN_FAILED,
        turn=turn,
        detail={"tool": "teardown", "signature": signature, "message": str(error)[:_MESSAGE_CHARS]},
    )


def crashes_in(trace: Trace) -> dict[str, str]:
    """What crashed in a rollout, as `TOOL: SIGNATURE`, each with a message."""
    crashes: dict[str, str] = {}
    for event in trace.events:
        if event.kind in CRASHES:
            crashes.setdefault(f"{event.detail['tool']}: {event.detail['signature']}", str(event.detail.get("message", "")))
    return crashes


def may_stop_runs(crash: str) -> bool:
    """Whether a crash, as `crashes_in` names it, may stop a run: not if the agent may have caused it in its own sandbox."""
    return not crash.endswith(_INSIDE)


def signature_of(error: SandlotError) -> str:
    """The kind of a crash and its place in the code, without what the agent wrote: `KeyError at tools.py:12 in buy`."""
    return _kind_and_place(error) + (_INSIDE if _is_inside(error) else "")


def _is_inside(error: SandlotError) -> bool:
    """True if something inside the sandbox broke: a server, a command, or a path that the author's code read."""
    if isinstance(error, InsideError) or not isinstance(error.original, OSError):
        return isinstance(error, InsideError)
    frames = traceback.extract_tb(error.original.__traceback__)
    return bool(frames) and frames[-1].filename.startswith(_SANDBOX)


def _kind_and_place(error: SandlotError) -> str:
    cause = error.original
    name = error.kind if cause is None else type(cause).__name__
    place = next((frame.partition(": ")[0] for frame in reversed(frames_of(error))), "") or (_own_place(cause) if cause else "")
    return f"{name} at {place.rpartition('/')[2]}" if place else name


def _own_place(error: BaseException) -> str:
    """The innermost place in Sandlot's code, for a crash of a part that comes with it."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(_HERE)]
    return f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
