"""The events of a run as OpenTelemetry spans: run > rollout > turn > model call and tools; rollout > grade.

Attributes follow the GenAI conventions where these have a name. Spans hold names and figures, and nothing of a prompt, a reply, a
tool's arguments or its output.
"""

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sandlot.core.text import one_line
from sandlot.observe.events import (
    AgentEnded,
    ModelRetried,
    RolloutBegan,
    RolloutEnded,
    RolloutEvent,
    RolloutGraded,
    RunBegan,
    RunEnded,
    RunEvent,
    StepLearned,
    ToolCalled,
    TurnTaken,
    WorldOpened,
)

_LONGEST_TEXT = 200
_INTERNAL, _CLIENT = 1, 3
_ERROR = 2
_Value = str | bool | int | float | Sequence[str] | None


@dataclass(slots=True)
class OpenRun:
    """A run that has not ended, and the rollouts in flight in it."""

    began: RunBegan
    trace: str
    parent: str
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    rollouts: dict[tuple[str, int], list[RolloutEvent]] = field(default_factory=dict[tuple[str, int], list[RolloutEvent]])


def encode_spans(spans: Iterable[Mapping[str, Any]]) -> bytes:
    """A request of OTLP/HTTP in JSON."""
    resource = {"attributes": _attributes({"service.name": "sandlot"})}
    scoped = {"scope": {"name": "sandlot"}, "spans": list(spans)}
    return msgspec.json.encode({"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}]})


def num_spans(event: RunEvent) -> int:
    """Spans that an event becomes; the end of a run also ends each rollout that was cancelled."""
    if isinstance(event, TurnTaken):
        return 2
    return 0 if isinstance(event, RolloutBegan | WorldOpened | ModelRetried | AgentEnded) else 1


def spans_of(run: OpenRun, events: Sequence[RunEvent]) -> list[dict[str, Any]]:
    """The spans of a whole rollout, of a training step, or of the run itself when it has ended."""
    match events:
        case [StepLearned(step=step, at=at)]:
            figures = {f"sandlot.{name}": getattr(step, name) for name in ("version", "reward", "kl", "entropy", "tokens")}
            return [_span(run.trace, run.id, "train step", at - step.seconds, at, figures)]
        case [RunEnded() as ended]:
            return [_run_span(run, ended)]
        case _:
            return _rollout_spans(run, events)


def _run_span(run: OpenRun, ended: RunEnded) -> dict[str, Any]:
    began = run.began
    about: dict[str, _Value] = {
        "sandlot.run": began.run,
        "sandlot.environment": began.environment,
        "gen_ai.request.model": began.model,
        "sandlot.rollouts.planned": began.num_planned,
        "sandlot.rollouts.cancelled": ended.num_cancelled,
    }
    span = _span(run.trace, run.parent, f"run {began.environment}", began.at, ended.at, about, failed=ended.stopped is not None)
    return {**span, "spanId": run.id}


def _rollout_spans(run: OpenRun, events: Sequence[RunEvent]) -> list[dict[str, Any]]:
    """The tree of one rollout. A turn lasts from its request to the result of its last tool call."""
    last = events[-1]
    rollout = _rollout_span(run, events[0], last)
    top = rollout["spanId"]
    spans = [rollout]
    turns: dict[int, dict[str, Any]] = {}
    for event in events:
        match event:
            case RolloutBegan():
                turns = {}  # another attempt counts from 1 again
            case TurnTaken():
                start = max(events[0].at, event.at - event.seconds)
                turn = _span(run.trace, top, f"turn {event.turn}", start, event.at, {"sandlot.turn": event.turn})
                turns[event.turn] = turn
                call = _span(run.trace, turn["spanId"], f"chat {run.began.model}", start, event.at, _of_call(run, event))
                spans += [turn, {**call, "kind": _CLIENT}]
            case ToolCalled():
                turn = turns.get(event.turn, rollout)
                about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": event.name}
                name, start = f"execute_tool {event.name}", event.at - event.seconds
                spans.append(_span(run.trace, turn["spanId"], name, start, event.at, about, failed=event.error))
                turn["endTimeUnixNano"] = max(turn["endTimeUnixNano"], _nanoseconds(event.at), key=int)
            case RolloutGraded():
                about = {"sandlot.score": event.score, "sandlot.passed": event.passed}
                spans.append(_span(run.trace, top, "grade", event.at - event.seconds, event.at, about))
            case _:
                pass
    return spans


def _rollout_span(run: OpenRun, first: RunEvent, last: RunEvent) -> dict[str, Any]:
    assert isinstance(first, RolloutEvent)
    about: dict[str, _Value] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.request.model": run.began.model,
        "sandlot.task": first.task,
        "sandlot.rollout": first.rollout,
        "sandlot.outcome": "cancelled",
    }
    failed = False
    if isinstance(last, RolloutEnded):
        row = last.row
        failed = row.outcome == "failed"
        about |= {
            "sandlot.outcome": row.outcome,
            "sandlot.end": row.end,
            "sandlot.score": row.score,
            "sandlot.attempts": row.attempts,
            "sandlot.cost_usd": row.usd,
            "sandlot.side": row.side,
            "error.type": row.kind,
            "gen_ai.usage.input_tokens": row.prompt_tokens,
            "gen_ai.usage.output_tokens": row.completion_tokens,
        }
    return _span(run.trace, run.id, f"rollout {first.task}/{first.rollout}", first.at, last.at, about, failed=failed)


def _of_call(run: OpenRun, event: TurnTaken) -> dict[str, _Value]:
    spec = run.began.model
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": spec.partition(":")[0] if ":" in spec else "sandlot",
        "gen_ai.request.model": spec,
        "gen_ai.usage.input_tokens": event.prompt_tokens,
        "gen_ai.usage.output_tokens": event.completion_tokens,
        "gen_ai.response.finish_reasons": [event.stop] if event.stop else None,
    }


def _span(
    trace: str, parent: str, name: str, start: float, end: float, about: Mapping[str, _Value], *, failed: bool = False
) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": secrets.token_hex(8),
        **({"parentSpanId": parent} if parent else {}),
        "name": _shown(name),
        "kind": _INTERNAL,
        "startTimeUnixNano": _nanoseconds(start),
        "endTimeUnixNano": _nanoseconds(max(start, end)),
        "attributes": _attributes(about),
        "status": {"code": _ERROR} if failed else {},
    }


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT and text.isprintable() else one_line(text, _LONGEST_TEXT)


def _nanoseconds(at: float) -> str:
    return str(int(at * 1e9))


def _attributes(values: Mapping[str, _Value]) -> list[dict[str, Any]]:
    known = {name: value for name, value in values.items() if value is not None}
    return [{"key": name, "value": _encoded(value)} for name, value in known.items()]


def _encoded(value: str | bool | float | Sequence[str]) -> dict[str, Any]:  # noqa: FBT001 - a value like any other
    match value:
        case str():
            return {"stringValue": _shown(value)}
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value if math.isfinite(value) else str(value).replace("inf", "Infinity").replace("nan", "NaN")}
        case _:
            return {"arrayValue": {"values": [_encoded(each) for each in value]}}
