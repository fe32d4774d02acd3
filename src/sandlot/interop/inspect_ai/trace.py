"""A sample of Inspect's log as a trace.

The conversation is the sample's messages at its end. What a model was asked besides, by a sub-agent or a scorer, is not in it.
"""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sandlot.core.errors import ConfigError, GradeError
from sandlot.core.text import encodable
from sandlot.core.trace import (
    Attempt,
    Cancelled,
    EvidenceRecord,
    Failed,
    ImagePart,
    Message,
    Node,
    Outcome,
    Part,
    Reasoning,
    Scored,
    Text,
    ToolCall,
    ToolResult,
    Trace,
    Usage,
)
from sandlot.core.types import End, Role, Side
from sandlot.interop.gyms.source import ScoreRange
from sandlot.interop.inspect_ai.records import (
    LogCall,
    LogContent,
    LogEvent,
    LogMessage,
    LogModelEvent,
    LogSample,
    LogUsage,
)
from sandlot.interop.inspect_ai.scores import rubric_score
from sandlot.interop.log_values import (
    MAX_COUNT,
    bounded_cost,
    bounded_count,
    bounded_seconds,
    decode_record,
    image_part,
    seconds_of,
)

_ATTACHMENT = "attachment://"
_MAX_ATTACHED_CHARS = 2**30
_ENDS = {
    "message": End.TURN_LIMIT,
    "turn": End.TURN_LIMIT,
    "custom": End.TURN_LIMIT,
    "token": End.TOKEN_LIMIT,
    "context": End.TOKEN_LIMIT,
    "cost": End.TOKEN_LIMIT,
    "time": End.TIME_LIMIT,
    "working": End.TIME_LIMIT,
}
_STOPS = {"stop": "stop", "max_tokens": "length", "model_length": "length", "tool_calls": "calls", "content_filter": "refusal"}
_FAILURE_CHARS = 4_000


@dataclass(slots=True)
class AttachedText:
    """Counts what attachments expand to: a small log could use one a million times."""

    chars: int = 0

    def add(self, text: str) -> str:
        """The text, counted. `ConfigError` if that is too much."""
        self.chars += len(text)
        if self.chars > _MAX_ATTACHED_CHARS:
            raise ConfigError(f"its attachments are used for more than {_MAX_ATTACHED_CHARS:,} characters")
        return text


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How samples are read."""

    status: str
    """The status of the whole log: `success`, `error`, `cancelled`, `started`."""
    scale: ScoreRange | None = None
    scorers: tuple[str, ...] = ()
    """Only these; none for all."""
    attached: AttachedText = field(default_factory=AttachedText)
    """Of all samples of the log together."""


@dataclass(slots=True)
class _Reading:
    """A sample while it is read."""

    sample: LogSample
    started: float
    attached: AttachedText
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    calls: dict[str, LogModelEvent] = field(default_factory=dict[str, LogModelEvent])
    """Model calls by the id of the message that they gave."""
    model_failed: bool = False
    """True if the last model call failed."""
    scoring: bool = False
    """True if the scorers had begun."""
    tool_s: float = 0.0
    tools: list[Any] = field(default_factory=list[Any])

    def text(self, text: str) -> str:
        """Text, or the attachment that stands for it."""
        if not text.startswith(_ATTACHMENT):
            return encodable(text)
        found = self.sample.attachments.get(text.removeprefix(_ATTACHMENT))
        if found is None:
            return encodable(text)
        return encodable(self.attached.add(found))


@dataclass(frozen=True, slots=True)
class SampleTrace:
    """The trace of a sample, and what it refers to."""

    trace: Trace
    blobs: tuple[bytes, ...]
    tools: tuple[Any, ...]
    """The tools of the first model call."""


def read_sample(sample: LogSample, task: str, settings: ReadSettings) -> SampleTrace:
    """The trace of a sample; `ConfigError` if it cannot be read."""
    if not 1 <= sample.epoch <= MAX_COUNT:
        raise ConfigError(f"its epoch is {sample.epoch}; epochs count from 1")
    reading = _Reading(sample, seconds_of(sample.started_at), settings.attached)
    _read_events(reading)
    trace = Trace(run="", task=task, rollout=sample.epoch - 1, seed=0, started=reading.started)
    for node in _nodes(reading):
        trace.append(msgspec.structs.replace(node, parent=len(trace.nodes) - 1 if trace.nodes else None))
    trace.outcome = _outcome(reading, settings)
    trace.end = End.CUT if not isinstance(trace.outcome, Scored) else _end(sample)
    trace.attempts = [Attempt(outcome=_failed(each.message), seconds=0.0) for each in sample.error_retries or ()]
    trace.phases = _phases(reading, trace)
    trace.evidence = EvidenceRecord(
        answer=reading.text(sample.output.completion),
        state={"target": sample.target, "metadata": sample.metadata, "store": sample.store},
    )
    return SampleTrace(trace, tuple(reading.blobs.values()), tuple(reading.tools))


def _read_events(reading: _Reading) -> None:
    for raw in reading.sample.events:
        event = decode_record(bytes(raw), LogEvent, "an event")
        if event.event == "model":
            call = decode_record(bytes(raw), LogModelEvent, "a model call")
            reading.model_failed = bool(call.error)
            reading.tools = reading.tools or list(call.tools)
            for choice in call.output.choices[:1]:
                if choice.message.id:
                    reading.calls[choice.message.id] = call
        elif event.event == "tool":
            reading.tool_s += bounded_seconds(event.working_time)
        elif event.event == "span_begin" and event.type == "scorers":
            reading.scoring = True


# -- the conversation --------------------------------------------------------------------------------------------------


def _nodes(reading: _Reading) -> Iterator[Node]:
    results: list[ToolResult] = []
    for message in reading.sample.messages:
        if message.role == Role.TOOL:
            results.append(_result(reading, message))
            continue
        if results:
            yield Node(message=Message(role=Role.TOOL, parts=tuple(results)))
            results = []
        yield _node(reading, message)
    if results:
        yield Node(message=Message(role=Role.TOOL, parts=tuple(results)))


def _node(reading: _Reading, message: LogMessage) -> Node:
    try:
        role = Role(message.role)
    except ValueError:
        raise ConfigError(f"a message has the unknown role {message.role[:40]!r}") from None
    calls = [_call(call) for call in message.tool_calls or ()]
    made = Message(role=role, parts=(*_parts(reading, message), *calls))
    call = reading.calls.get(message.id or "")
    if role is not Role.ASSISTANT or (call is None and message.source != "generate"):
        return Node(message=made)
    if call is None:
        return Node(message=made, sampled=True)
    started = seconds_of(call.timestamp)
    return Node(
        message=made,
        sampled=True,
        usage=_usage(call.output.usage),
        stop=_STOPS.get(call.output.choices[0].stop_reason),
        model=encodable(call.output.model)[:200] or None,
        start_s=bounded_seconds(started - reading.started if started and reading.started else 0.0),
        seconds=bounded_seconds(call.working_time),
    )


def _parts(reading: _Reading, message: LogMessage) -> Iterator[Part]:
    if isinstance(message.content, str):
        if text := reading.text(message.content):
            yield Text(text)
        return
    for content in message.content:
        if content.type == "text":
            yield Text(reading.text(content.text))
        elif content.type == "reasoning":
            yield Reasoning(reading.text(content.reasoning))
        elif content.type == "image":
            yield _image(reading, content)
        else:
            yield Text(f"[{encodable(content.type)[:40]}]")


def _image(reading: _Reading, content: LogContent) -> Part:
    """An image in the log itself. One that is elsewhere, or may not be shown, is a line of text; nothing is fetched."""
    address = reading.text(content.image)
    head, _, data = address.partition(";base64,")
    if not head.startswith("data:image/"):
        return Text(f"[image: {address[:200]}]")
    try:
        return image_part(base64.b64decode(data, validate=True), reading.blobs)
    except (binascii.Error, ValueError) as error:
        return Text(f"[image that cannot be shown: {encodable(str(error))[:200]}]")


def _call(call: LogCall) -> ToolCall:
    malformed = call.parse_error and f"{call.arguments} ({call.parse_error})"
    arguments = {} if malformed else call.arguments
    return ToolCall(encodable(call.id), encodable(call.function), arguments, encodable(malformed) if malformed else None)


def _result(reading: _Reading, message: LogMessage) -> ToolResult:
    parts = tuple(_parts(reading, message))
    text = "".join(part.text for part in parts if isinstance(part, Text))
    if message.error is not None:
        text = text or encodable(message.error.message)
    images = tuple(part for part in parts if isinstance(part, ImagePart))
    return ToolResult(encodable(message.tool_call_id or ""), text, error=message.error is not None, images=images)


def _usage(usage: LogUsage | None) -> Usage | None:
    if usage is None:
        return None
    return Usage(
        prompt_tokens=bounded_count(usage.input_tokens),
        completion_tokens=bounded_count(usage.output_tokens),
        cached_tokens=bounded_count(usage.input_tokens_cache_read or 0),
        usd=bounded_cost(usage.total_cost),
    )


# -- how it ended ------------------------------------------------------------------------------------------------------


def _outcome(reading: _Reading, settings: ReadSettings) -> Outcome:
    sample = reading.sample
    if sample.error is not None:
        side = Side.GRADER if reading.scoring else Side.MODEL if reading.model_failed else Side.ENVIRONMENT
        return _failed(sample.error.message, side)
    if sample.invalidation is not None:
        return Cancelled("the sample was declared invalid in Inspect")
    if sample.limit is not None and sample.limit.type == "operator":
        return Cancelled("an operator ended the sample in Inspect")
    scores = {name: score for name, score in (sample.scores or {}).items() if not settings.scorers or name in settings.scorers}
    if not scores and settings.status in {"cancelled", "started"}:
        return Cancelled("the eval ended before the sample was scored")
    try:
        return Scored(rubric_score(scores, settings.scale))
    except GradeError as error:
        return Failed(Side.GRADER, error.kind, str(error))


def _failed(message: str, side: Side = Side.ENVIRONMENT) -> Failed:
    return Failed(side, "crash", encodable(message)[:_FAILURE_CHARS] or "Inspect recorded an error without a message")


def _end(sample: LogSample) -> End:
    if sample.limit is not None:
        return _ENDS.get(sample.limit.type, End.TURN_LIMIT)
    refused = any(choice.stop_reason == "content_filter" for choice in sample.output.choices[:1])
    return End.REFUSED if refused else End.DONE


def _phases(reading: _Reading, trace: Trace) -> dict[str, float]:
    model = sum(node.seconds for node in trace.nodes)
    waiting = bounded_seconds(reading.sample.total_time) - model - reading.tool_s
    return {"model": model, "tools": reading.tool_s, "waiting": max(0.0, waiting)}
