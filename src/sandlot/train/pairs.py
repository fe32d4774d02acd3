"""Pairs from a file: a better and a worse answer to the same prompt, as `sandlot export pairs RUN` and TRL write them.

The whole file is read and rendered before anything is trained, so that a broken line is found at once: the error names the file
and the line. Pairs that teach nothing (equal answers) or do not fit the model's context are left out and counted.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal, cast

import msgspec
import numpy as np

from sandlot.core.disk import write_file
from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Part, Reasoning, ToolCall
from sandlot.core.types import Json, Role, digest
from sandlot.model.render.renderer import TokenRenderer
from sandlot.model.wire.turn import call_from_history, result_message, text_parts
from sandlot.train.rows import Group, Member, Row

FILE = "pairs.json"
_LONGEST = 16 * 2**20
"""Bytes of the longest line that is read."""
_SHOWN = 5
"""Line numbers shown of pairs that are left out."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One line of a file of pairs."""

    line: int
    task: str
    """The task's id; without one, the hash of the prompt."""
    prompt: tuple[Message, ...]
    chosen: tuple[Message, ...]
    """The better answer: messages that begin and end with the assistant's."""
    rejected: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()


class PairsUsed(msgspec.Struct, frozen=True, kw_only=True):
    """`pairs.json` in the run directory: the pairs that were trained on."""

    format: int = 1
    file: str
    digest: str
    """Hash of the file; a training continues only with the same pairs."""
    read: int
    """Pairs in the file."""
    equal: tuple[int, ...] = ()
    """Lines left out because both answers are the same tokens."""
    too_long: tuple[int, ...] = ()
    """Lines left out because an answer does not fit the model's context."""

    @property
    def sentence(self) -> str:
        """What was left out, in a sentence; empty if nothing was."""
        reasons = (("equal answers", self.equal), ("longer than the context", self.too_long))
        told = [
            f"{len(lines)} with {why}" if why.startswith("equal") else f"{len(lines)} {why}" for why, lines in reasons if lines
        ]
        lines = sorted((*self.equal, *self.too_long))
        shown = ", ".join(map(str, lines[:_SHOWN])) + (", ..." if len(lines) > _SHOWN else "")
        return (
            f"{len(lines)} of {self.read} pairs of `{self.file}` are left out: {', '.join(told)} (lines {shown})" if told else ""
        )


@dataclass(frozen=True, slots=True)
class RenderedPairs:
    """Pairs as tokens: each is a group of two members, the better with reward 1, the worse with reward 0."""

    groups: tuple[Group, ...]
    used: PairsUsed
    tools: tuple[tuple[ToolSpec, ...], ...] = field(default=())
    """The different sets of tools that the pairs have."""


class PairBatches:
    """The batches of a training from pairs: all pairs once, in shuffled order, then again in another order."""

    def __init__(self, groups: Sequence[Group], seed: int, first: int = 0) -> None:
        self._groups, self._seed = groups, seed
        self._order: tuple[int, list[int]] = (-1, [])
        self.taken = first
        """Pairs used so far; the number of the next one."""

    def next(self, count: int) -> list[Group]:
        """The next pairs in order."""
        self.taken += count
        return [self._at(number) for number in range(self.taken - count, self.taken)]

    def _at(self, number: int) -> Group:
        epoch, place = divmod(number, len(self._groups))
        if self._order[0] != epoch:
            order = list(range(len(self._groups)))
            Random(f"{self._seed}/pairs/{epoch}").shuffle(order)  # noqa: S311 - seeded on purpose
            self._order = epoch, order
        return self._groups[self._order[1][place]]

    def published(self) -> None:
        """Nothing waits for new weights: nothing is sampled."""


# -- rendering ---------------------------------------------------------------------------------------------------------


def load_pairs(file: Path, renderer: TokenRenderer, context: int) -> RenderedPairs:
    """Read and render a file of pairs; `ConfigError` names the first line that is wrong."""
    groups: list[Group] = []
    left_out: dict[str, list[int]] = {"equal": [], "too_long": []}
    tools: dict[bytes, tuple[ToolSpec, ...]] = {}
    read = 0
    for pair in read_pairs(file):
        read += 1
        rows = [_row(pair, number, renderer, file) for number in (0, 1)]
        if max(map(len, rows)) > context:
            left_out["too_long"].append(pair.line)
        elif np.array_equal(rows[0].ids, rows[1].ids):
            left_out["equal"].append(pair.line)
        else:
            groups.append(Group(pair.task, (Member(1.0, (rows[0],)), Member(0.0, (rows[1],)))))
            tools[msgspec.json.encode(pair.tools)] = pair.tools
    used = PairsUsed(
        file=str(file),
        digest=digest(file.read_bytes()),
        read=read,
        equal=tuple(left_out["equal"]),
        too_long=tuple(left_out["too_long"]),
    )
    if not groups:
        raise ConfigError(used.sentence or f"`{file}` has no pairs; `sandlot export pairs RUN` writes some")
    return RenderedPairs(tuple(groups), used, tuple(tools.values()))


def conversation_row(
    messages: Sequence[Message], tools: Sequence[ToolSpec], renderer: TokenRenderer, rollout: tuple[str, int] = ("", 0)
) -> Row:
    """A conversation that ends with an assistant turn, as a row: the assistant's tokens are trained."""
    told = renderer.demonstration([_in_order(message) for message in messages], tools)
    trained = np.array(told.mask, dtype=bool)
    begins = trained & ~np.concatenate(([False], trained[:-1]))
    return Row(
        rollout=rollout,
        ids=np.array(told.ids, np.int32),
        trained=trained,
        logprobs=np.zeros(len(trained), np.float32),
        versions=np.where(trained, 0, -1).astype(np.int32),
        turns=np.where(trained, begins.cumsum() - 1, -1).astype(np.int32),
    )


def _in_order(message: Message) -> Message:
    """An assistant's message with its parts in the order that files of messages have: thoughts, text, calls."""
    if message.role is not Role.ASSISTANT:
        return message
    thoughts = "".join(part.text for part in message.parts if isinstance(part, Reasoning))
    parts: list[Part] = [*((Reasoning(thoughts),) if thoughts else ()), *text_parts(message.text), *message.calls]
    return msgspec.structs.replace(message, parts=tuple(parts))


def _row(pair: Pair, number: int, renderer: TokenRenderer, file: Path) -> Row:
    messages = (*pair.prompt, *(pair.rejected if number else pair.chosen))
    try:
        return conversation_row(messages, pair.tools, renderer, (pair.task, number))
    except ModelError as error:
        raise ConfigError(f"{_place(file, pair.line)}: {error}") from error


def require_same_pairs(used: PairsUsed, path: Path) -> None:
    """Refuse to continue a training with other pairs than it was begun with; else note them in the run directory."""
    file = path / FILE
    if file.is_file() and msgspec.json.decode(file.read_bytes(), type=PairsUsed).digest != used.digest:
        raise ConfigError(f"`{path}` was begun with other pairs: `{used.file}` has changed; name a new folder")
    write_file(file, msgspec.json.format(msgspec.json.encode(used), indent=2) + b"\n")


# -- reading -----------------------------------------------------------------------------------------------------------


class _Function(msgspec.Struct):
    name: str
    arguments: Json | str = {}


class _Call(msgspec.Struct):
    function: _Function
    id: str | None = None


class _Entry(msgspec.Struct):
    """A message as chat templates read it."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    error: bool | None = None


class _Described(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: Json | None = None


class _Tool(msgspec.Struct):
    function: _Described


class _Line(msgspec.Struct):
    prompt: str | list[_Entry]
    chosen: str | list[_Entry]
    rejected: str | list[_Entry]
    score_chosen: float | None = None
    score_rejected: float | None = None
    task: str | None = None
    tools: list[_Tool] | None = None


def read_pairs(file: Path) -> Iterator[Pair]:
    """The pairs of a `.jsonl` or `.parquet` file, one by one; `ConfigError` names the first line that is wrong."""
    if not file.is_file():
        raise ConfigError(f"no file `{file}`; `sandlot export pairs RUN --out pairs.jsonl` writes pairs")
    if file.suffix not in {".jsonl", ".parquet"}:
        raise ConfigError(f"`{file}` has an unknown format; pairs are read from .jsonl and .parquet")
    for number, line in _parquet_lines(file) if file.suffix == ".parquet" else _jsonl_lines(file):
        yield _pair(file, number, line)


def _place(file: Path, line: int) -> str:
    return f"`{file}`, {'row' if file.suffix == '.parquet' else 'line'} {line}"


def _jsonl_lines(file: Path) -> Iterator[tuple[int, _Line]]:
    with file.open("rb") as source:
        for number, line in enumerate(iter(lambda: source.readline(_LONGEST + 1), b""), 1):
            if len(line) > _LONGEST:
                raise ConfigError(f"{_place(file, number)} is longer than {_LONGEST // 2**20} MiB")
            if line.isspace():
                continue
            try:
                found = msgspec.json.decode(line, type=_Line)
                json.loads(line, object_pairs_hook=_require_distinct)
            except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
                raise ConfigError(f"{_place(file, number)}: {error}") from error
            yield number, found


def _require_distinct(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"the key `{twice[:80]}` occurs twice in an object")


def _parquet_lines(file: Path) -> Iterator[tuple[int, _Line]]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - JSONL does not need it

    number = 0
    try:
        for batch in cast("Any", pq.ParquetFile(file)).iter_batches(256):
            for row in batch.to_pylist():
                number += 1
                yield number, msgspec.convert({name: _decoded(value) for name, value in row.items()}, _Line)
    except (ValueError, TypeError, LookupError, RuntimeError, OSError) as error:  # pyarrow's errors are among these
        raise ConfigError(f"{_place(file, number)}: {error}") from error


def _decoded(value: Any) -> Any:
    """A column's value; lists of JSON texts as the objects that they are."""
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        return [msgspec.json.decode(entry) if isinstance(entry, str) else entry for entry in entries]
    return value


def _pair(file: Path, number: int, line: _Line) -> Pair:
    prompt = _messages(line.prompt, "user", file, number)
    chosen, rejected = (
        _answer(side, name, file, number) for side, name in ((line.chosen, "chosen"), (line.rejected, "rejected"))
    )
    if not prompt:
        raise ConfigError(f"{_place(file, number)}: `prompt` is empty")
    if line.score_chosen is not None and line.score_rejected is not None and not line.score_chosen > line.score_rejected:
        raise ConfigError(
            f"{_place(file, number)}: `score_chosen` is {line.score_chosen:g} and `score_rejected` {line.score_rejected:g}; "
            "the chosen answer must have the higher score"
        )
    tools = tuple(
        ToolSpec(name=each.function.name, description=each.function.description or "", parameters=each.function.parameters or {})
        for each in line.tools or ()
    )
    task = line.task if line.task is not None else digest(msgspec.json.encode(prompt))[:16]
    return Pair(number, task, prompt, chosen, rejected, tools)


def _answer(side: str | list[_Entry], name: str, file: Path, number: int) -> tuple[Message, ...]:
    answer = _messages(side, "assistant", file, number)
    if not answer or answer[0].role is not Role.ASSISTANT or answer[-1].role is not Role.ASSISTANT:
        raise ConfigError(f"{_place(file, number)}: `{name}` must begin and end with a message of the assistant")
    return answer


def _messages(side: str | list[_Entry], role: Literal["user", "assistant"], file: Path, number: int) -> tuple[Message, ...]:
    entries = [_Entry(role, side)] if isinstance(side, str) else side
    return tuple(_message(entry, at, file, number) for at, entry in enumerate(entries))


def _message(entry: _Entry, at: int, file: Path, number: int) -> Message:
    text = entry.content or ""
    if entry.role == "tool":
        return result_message(entry.tool_call_id or "", text, error=bool(entry.error))
    if entry.role != "assistant":
        return Message(role=Role(entry.role), parts=text_parts(text))
    calls = [_call(call, f"call_{at}_{place}") for place, call in enumerate(entry.tool_calls or ())]
    broken = next((call for call in calls if call.malformed is not None), None)
    if broken is not None:
        raise ConfigError(f"{_place(file, number)}: the arguments of the call of `{broken.name}` are not a JSON object")
    thoughts = (Reasoning(entry.reasoning_content),) if entry.reasoning_content else ()
    return Message(role=Role.ASSISTANT, parts=(*thoughts, *text_parts(text), *calls))


def _call(call: _Call, name: str) -> ToolCall:
    return call_from_history(call.id or name, call.function.name, call.function.arguments)
