"""The timeline of a rollout: when the model, the tools and the grading worked, as rectangles of one drawing."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sandlot.core.trace import AFTER_THE_END, Trace

_WIDTH = 1000
_LANE = 18
_LANES = ("environment", "model", "tools", "grading")
_FINEST = 2.0
"""Rectangles of a lane that are closer than this are drawn as one: a long trace has thousands of turns."""


@dataclass(frozen=True, slots=True)
class _Span:
    lane: str
    start: float
    end: float
    says: str
    message: int | None = None


def draw_timeline(trace: Trace) -> dict[str, Any] | None:
    """The lanes of a trace; None if it has no times."""
    spans = list(_spans(trace))
    total = max([span.end for span in spans], default=0.0)
    if total <= 0:
        return None
    lanes = [lane for lane in _LANES if any(span.lane == lane for span in spans)]
    rows = [
        {
            "name": lane,
            "seconds": sum(span.end - span.start for span in spans if span.lane == lane),
            "rectangles": list(_rectangles([span for span in spans if span.lane == lane], total, 2 + _LANE * number)),
        }
        for number, lane in enumerate(lanes)
    ]
    return {"lanes": rows, "total": total, "width": _WIDTH, "height": _LANE * len(lanes), "bar": _LANE - 4}


def _spans(trace: Trace) -> Iterator[_Span]:
    """What is known of a trace's times. A tool has no time of its own: it worked from the end of a turn to the next one."""
    opened = trace.phases.get("open", 0.0)
    if opened:
        yield _Span("environment", 0.0, opened, "open: sandbox, tools, setup")
    now, acted = opened, None
    for number, node in enumerate(trace.nodes):
        if node.sampled:
            if acted is not None and node.start_s > now:
                yield _Span("tools", now, node.start_s, f"tools after message {acted}", acted)
            now = max(now, node.start_s + node.seconds)
            yield _Span("model", node.start_s, node.start_s + node.seconds, f"message {number}", number)
            acted = number if node.message.calls else None
    if acted is not None:
        known = trace.phases.get("tools", 0.0) - sum(_gaps(trace))
        if known > 0:
            yield _Span("tools", now, now + known, f"tools after message {acted}", acted)
            now += known
    for phase in AFTER_THE_END:
        spent = trace.phases.get(phase, 0.0)
        if spent:
            yield _Span("grading" if phase in {"waiting", "grade"} else "environment", now, now + spent, phase)
            now += spent


def _gaps(trace: Trace) -> Iterator[float]:
    """The time between each turn with calls and the next."""
    turns = [node for node in trace.nodes if node.sampled]
    for turn, following in itertools.pairwise(turns):
        if turn.message.calls:
            yield max(0.0, following.start_s - turn.start_s - turn.seconds)


def _rectangles(spans: list[_Span], total: float, top: float) -> Iterator[dict[str, Any]]:
    """The rectangles of one lane, in the order of time, few enough to draw."""
    scale, left, right, first, count = _WIDTH / total, 0.0, -1.0, None, 0
    for span in sorted(spans, key=lambda each: each.start):
        start, end = span.start * scale, max(span.end * scale, span.start * scale + 1)
        if first is not None and start - left < _FINEST and end - left < 4 * _FINEST:
            right, count = max(right, end), count + 1
            continue
        if first is not None:
            yield _rectangle(first, count, left, right, top)
        left, right, first, count = start, end, span, 1
    if first is not None:
        yield _rectangle(first, count, left, right, top)


def _rectangle(span: _Span, count: int, left: float, right: float, top: float) -> dict[str, Any]:
    says = f"{span.says}, {span.end - span.start:.3f} s" if count == 1 else f"{span.says} and {count - 1} more"
    return {
        "x": f"{left:.2f}",
        "y": top,
        "width": f"{max(0.8, min(right, _WIDTH) - left):.2f}",
        "message": span.message,
        "says": f"{says}, at {span.start:.1f} s",
    }
