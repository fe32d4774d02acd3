"""A trace: the messages of one rollout, its timeline, checks, files, events, and the commands that play it again."""

import functools
import re
import shlex
from typing import Any

from sandlot.core.rubric import CheckResult
from sandlot.core.text import printable
from sandlot.core.trace import Cancelled, Failed, Scored, Trace
from sandlot.run.recording import has_terminal, recorded_events
from sandlot.run.results import Run
from sandlot.web.artifacts import read_blob
from sandlot.web.pages.files import show_files
from sandlot.web.pages.messages import frames_of, open_trace, place_of, show_messages
from sandlot.web.pages.timeline import draw_timeline
from sandlot.web.site import Asked

_EVIDENCE = 20_000
"""Characters of a check's evidence."""
_FRAMES = 200
"""Images in the strip of a rollout."""
_EVENTS = 500
_PLAIN = re.compile(r"[A-Za-z0-9_.:-]+")


def trace_page(asked: Asked) -> dict[str, Any]:
    """The rollout that is asked for, with the messages from `from`; without it, the first and the last."""
    run, trace = open_trace(asked)
    start = asked.number("from") if "from" in asked.query else None
    return show_trace(run, trace) | {"messages": show_messages(trace, start), "start": start}


def recording_data(asked: Asked) -> dict[str, Any]:
    """The terminal recording of a rollout, for the player of its page."""
    run, trace = open_trace(asked)
    return {"events": recorded_events(trace, functools.partial(read_blob, run))}


def show_trace(run: Run, trace: Trace) -> dict[str, Any]:
    """Everything about a trace but its messages."""
    outcome, place = trace.outcome, place_of(run, trace)
    frames = frames_of(trace)
    return {
        "title": f"{run.path.name} / {trace.task} / {trace.rollout}",
        "name": run.path.name,
        "task": trace.task,
        "rollout": trace.rollout,
        "seed": trace.seed,
        "score": outcome.score if isinstance(outcome, Scored) else None,
        "checks": [_check(check, number) for number, check in enumerate(outcome.score.checks)]
        if isinstance(outcome, Scored)
        else [],
        "failed": outcome if isinstance(outcome, Failed) else None,
        "cancelled": printable(outcome.reason, 300) if isinstance(outcome, Cancelled) else None,
        "problem": printable(outcome.message, 4_000) if isinstance(outcome, Failed) else "",
        "end": str(trace.end or ""),
        "num_messages": len(trace.nodes),
        "usage": trace.usage,
        "num_tokens": sum(node.num_tokens for node in trace.turns()),
        "num_turns": trace.num_turns,
        "timeline": draw_timeline(trace),
        "events": [(event.turn, event.kind, printable(str(event.detail), 400)) for event in trace.events[:_EVENTS]],
        "files": show_files(run, trace),
        "frames": frames[:_FRAMES],
        "num_frames": len(frames),
        "replay": shlex.join(("sandlot", "replay", place)),
        "shell": shlex.join(("sandlot", "shell", place)) if _has_sandbox(run, trace) else None,
        "recorded": has_terminal(trace),
        "record": shlex.join(("sandlot", "record", place, "--out", "rollout.cast")),
    }


def _has_sandbox(run: Run, trace: Trace) -> bool:
    """Whether the world of the rollout can be stepped into."""
    return any(tool.name == "bash" for tool in run.manifest.tools) or bool(trace.evidence and trace.evidence.files)


def _check(check: CheckResult, number: int) -> dict[str, Any]:
    """One check. Its anchor is its id, which stays the same when the rubric grows."""
    return {
        "id": check.id,
        "anchor": f"check-{check.id if _PLAIN.fullmatch(check.id) else number}",
        "verdict": str(check.verdict),
        "level": str(check.verdict) if check.worth > 0 else f"penalty_{check.verdict}",
        "lost": check.points < check.worth if check.worth > 0 else check.points < 0,
        "points": check.points,
        "worth": check.worth,
        "evidence": printable(check.evidence, _EVIDENCE),
        "tags": check.tags,
        "judge": check.judge,
    }
