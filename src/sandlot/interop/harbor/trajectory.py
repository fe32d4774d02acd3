"""A trajectory in Harbor's format (ATIF) as the messages of a trace.

A step of the agent is one turn; what followed it is one message of tool results, or of the user where it answers no call. Steps
that repeat an earlier part of the conversation are skipped, and so are the trajectories of sub-agents: they are counted.
"""

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sandlot.core.errors import ConfigError
from sandlot.core.image_formats import MAX_IMAGE_BYTES
from sandlot.core.text import encodable
from sandlot.core.trace import ImagePart, Message, Node, Part, Reasoning, Text, Tokens, ToolCall, ToolResult, Usage
from sandlot.core.types import Role
from sandlot.interop.harbor.records import (
    ATIF_VERSIONS,
    AtifMetrics,
    AtifResult,
    AtifStep,
    AtifText,
    AtifTool,
    AtifTrajectory,
)
from sandlot.interop.log_values import (
    UnreadableRecordError,
    bounded_cost,
    bounded_count,
    bounded_seconds,
    bounded_value,
    decode_record,
    image_part,
    seconds_of,
)
from sandlot.interop.untrusted import path_inside, read_bytes

_ROLES = {"system": Role.SYSTEM, "user": Role.USER, "agent": Role.ASSISTANT}
_MAX_FILES = 1_000
_MAX_BYTES = 128 * 2**20
"""Of one trial. Its records take some 20 times that in memory."""
_MAX_TOKEN = 2**31 - 1
_MAX_LOGPROB = 1e30


@dataclass(slots=True)
class TrajectoryReading:
    """One trial's conversation while it is read."""

    started: float = 0.0
    """When it began, in seconds since the epoch."""
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    tools: tuple[AtifTool, ...] = ()
    sub_agents: int = 0
    """Trajectories of sub-agents that were skipped."""
    bytes_read: int = 0
    tokens: list[int] = field(default_factory=list[int])
    """The prompt and the sampled tokens so far, where the log has them."""
    unreadable: int = 0
    """Trajectories that are damaged or too large."""
    exact: bool = True
    """False from the first turn on whose tokens are unknown or do not continue those before."""

    def read(self, path: Path, *, at_most: int) -> bytes:
        """A file of the trial; `UnreadableRecordError` if that makes too many bytes."""
        with suppress(OSError):  # reading tells what is wrong
            if (size := path.lstat().st_size) > at_most:
                raise UnreadableRecordError(f"`{path}` has {size:,} bytes; at most {at_most:,} are read")
        data = read_bytes(path, at_most=at_most)
        self.bytes_read += len(data)
        if self.bytes_read > _MAX_BYTES:
            raise UnreadableRecordError(f"`{path}`: the files of its trial have more than {_MAX_BYTES:,} bytes")
        return data


def read_trajectory(path: Path, reading: TrajectoryReading) -> Iterator[Node]:
    """The messages of a `trajectory.json` and of the files that continue it, without their parents."""
    seen: set[str] = set()
    while True:
        seen.add(path.name)
        trajectory = decode_record(reading.read(path, at_most=_MAX_BYTES), AtifTrajectory, f"`{path}`")
        if trajectory.schema_version not in ATIF_VERSIONS:
            raise ConfigError(
                f"`{path}` has the schema version {trajectory.schema_version[:40]!r}; "
                f"{ATIF_VERSIONS[0]} to {ATIF_VERSIONS[-1]} are read"
            )
        reading.tools = reading.tools or tuple(trajectory.agent.tool_definitions or ())
        reading.sub_agents += len(trajectory.subagent_trajectories or ())
        for step in trajectory.steps:
            if not step.is_copied_context:
                yield from _nodes(step, trajectory, path.parent, reading)
        following = trajectory.continued_trajectory_ref
        if following is None:
            return
        if not _plain_name(following) or following in seen or len(seen) >= _MAX_FILES:
            raise ConfigError(f"`{path}` continues in {following[:200]!r}, which is no other file of its folder")
        path = path.parent / following


def _plain_name(name: str) -> bool:
    return name not in {"", ".", ".."} and "/" not in name and "\\" not in name and name.isprintable()


def _nodes(step: AtifStep, trajectory: AtifTrajectory, folder: Path, reading: TrajectoryReading) -> Iterator[Node]:
    if step.source not in _ROLES:
        raise ConfigError(f"`{folder}`: a step has the unknown source {step.source[:40]!r}")
    role = _ROLES[step.source]
    started = seconds_of(step.timestamp)
    reading.started = reading.started or started
    parts = (*_reasoning(step), *_parts(step.message, folder, reading), *_calls(step))
    message = Message(role=role, parts=parts)
    if role is not Role.ASSISTANT or step.llm_call_count == 0:
        if parts:
            yield Node(message=message)
    else:
        context, tokens = _tokens(step.metrics, reading)
        yield Node(
            message=message,
            sampled=True,
            context=context,
            tokens=tokens,
            usage=_usage(step.metrics),
            stop="calls" if step.tool_calls else "stop",
            model=encodable(step.model_name or trajectory.agent.model_name or "")[:200] or None,
            start_s=bounded_seconds(started - reading.started if started and reading.started else 0.0),
        )
    yield from _observed(step, folder, reading)


def _reasoning(step: AtifStep) -> tuple[Part, ...]:
    return (Reasoning(encodable(step.reasoning_content)),) if step.reasoning_content else ()


def _calls(step: AtifStep) -> tuple[Part, ...]:
    return tuple(
        ToolCall(encodable(call.tool_call_id), encodable(call.function_name), bounded_value(call.arguments))
        for call in step.tool_calls or ()
    )


def _observed(step: AtifStep, folder: Path, reading: TrajectoryReading) -> Iterator[Node]:
    """What followed a step: results of its calls, and what answers none of them as a message of the user."""
    known = {call.tool_call_id for call in step.tool_calls or ()}
    results: list[ToolResult] = []
    others: list[Part] = []
    for result in step.observation.results if step.observation else ():
        reading.sub_agents += len(result.subagent_trajectory_ref or ())
        if result.source_call_id in known:
            results.append(_result(result, folder, reading))
        else:
            others += _parts(result.content, folder, reading)
    if results:
        yield Node(message=Message(role=Role.TOOL, parts=tuple(results)))
    if others:
        yield Node(message=Message(role=Role.USER, parts=tuple(others)))


def _result(result: AtifResult, folder: Path, reading: TrajectoryReading) -> ToolResult:
    parts = _parts(result.content, folder, reading)
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    images = tuple(part for part in parts if isinstance(part, ImagePart))
    return ToolResult(encodable(result.source_call_id or ""), text, images=images)


def _parts(content: AtifText, folder: Path, reading: TrajectoryReading) -> list[Part]:
    if content is None or isinstance(content, str):
        return [Text(encodable(content))] if content else []
    parts: list[Part] = []
    for each in content:
        where = each.source.path if each.source else ""
        if each.type == "text":
            parts.append(Text(encodable(each.text or "")))
        elif each.type == "image" and (path := _inside(folder, where)):
            parts.append(_image(path, reading) or _placeholder(each.type, where))
        else:
            parts.append(_placeholder(each.type, where))
    return parts


def _image(path: Path, reading: TrajectoryReading) -> Part | None:
    try:
        return image_part(reading.read(path, at_most=MAX_IMAGE_BYTES), reading.blobs)
    except ConfigError:
        return None


def _placeholder(kind: str, where: str) -> Part:
    return Text(f"[{encodable(kind)[:40]}: {encodable(where)[:200]}]")


def _inside(folder: Path, name: str) -> Path | None:
    """A file below the folder; None for any other place: nothing else is read or fetched."""
    try:
        path = path_inside(folder, name)
        return path if path.is_file() else None
    except (ConfigError, OSError):  # a name may be too long for a file
        return None


def _usage(metrics: AtifMetrics | None) -> Usage | None:
    if metrics is None:
        return None
    return Usage(
        prompt_tokens=bounded_count(metrics.prompt_tokens),
        completion_tokens=bounded_count(metrics.completion_tokens),
        cached_tokens=bounded_count(metrics.cached_tokens),
        usd=bounded_cost(metrics.cost_usd),
    )


def _tokens(metrics: AtifMetrics | None, reading: TrajectoryReading) -> tuple[bytes, Tokens | None]:
    """The tokens of a turn and the prompt before them, if they continue the conversation exactly; otherwise none."""
    prompt = metrics.prompt_token_ids if metrics else None
    sampled = metrics.completion_token_ids if metrics else None
    logprobs = _numbers(metrics.logprobs if metrics else None)
    known = len(reading.tokens)
    if not (
        reading.exact
        and prompt
        and sampled
        and logprobs
        and len(sampled) == len(logprobs)
        and prompt[:known] == reading.tokens
        and all(0 <= token <= _MAX_TOKEN for token in (*prompt, *sampled))
    ):
        reading.exact = False
        return b"", None
    reading.tokens = prompt + sampled
    count = len(sampled)
    return _int32(prompt[known:]), Tokens(ids=_int32(sampled), logprobs=struct.pack(f"<{count}f", *logprobs), mask=b"\1" * count)


def _numbers(logprobs: list[float | None] | None) -> list[float]:
    """Log-probabilities; none at all if one of them is none."""
    numbers = [each for each in logprobs or () if each is not None and abs(each) <= _MAX_LOGPROB]
    return numbers if len(numbers) == len(logprobs or ()) else []


def _int32(tokens: list[int]) -> bytes:
    return struct.pack(f"<{len(tokens)}i", *tokens)
