"""The states of the trials of one job: each of their parts is sent once, and kept once by whoever reads them.

Trials of one environment leave nearly the same state. If it is a database of megabytes, thousands of whole copies fill the
memory and take most of the time. Here a state is a tree of parts with numbers. A part is told from others by its exact bytes,
so that what is read is what was written, order and types of numbers included. States that were read share their parts: do not
change them.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from sandlot.core.trace import Trace

_WHOLE_BYTES = 1024
"""A part of at most so many bytes is not divided."""


class Whole(msgspec.Struct, frozen=True, tag="whole", array_like=True):
    """A part that is not divided."""

    value: Any


class Fields(msgspec.Struct, frozen=True, tag="fields", array_like=True):
    """An object: its keys in order, and the number of the part below each."""

    keys: tuple[str, ...]
    parts: tuple[int, ...]


class Items(msgspec.Struct, frozen=True, tag="items", array_like=True):
    """A list, by the numbers of its parts."""

    parts: tuple[int, ...]


StatePart = Whole | Fields | Items


class StateWriter:
    """Divides states into parts, and gives out each part once."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._seen: dict[int, tuple[Any, int]] = {}
        """Whole states by identity: probes grade the state of one trial many times."""
        self._encode = msgspec.msgpack.Encoder().encode
        self._new: list[StatePart] = []

    def number_of(self, state: Any, *, lasting: bool = False) -> int:
        """The number of a state. `lasting`: the object outlives the writer and is not changed, so it is looked at once."""
        known = self._seen.get(id(state))
        if known is not None:
            return known[1]
        number = self._divide(state)
        if lasting:
            self._seen[id(state)] = (state, number)
        return number

    def take_new(self) -> tuple[StatePart, ...]:
        """The parts that were added since the last time, in the order of their numbers."""
        new, self._new = tuple(self._new), []
        return new

    def _divide(self, value: Any) -> int:
        body = self._encode(value)
        key = body if len(body) <= _WHOLE_BYTES else hashlib.sha256(body).digest()
        number = self._numbers.get(key)
        if number is None:
            part = self._part(value, len(body))
            number = self._numbers[key] = len(self._numbers)
            self._new.append(part)
        return number

    def _part(self, value: Any, num_bytes: int) -> StatePart:
        """The part, after those below it: a number is only used once it was given out."""
        if num_bytes > _WHOLE_BYTES and isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            return Fields(tuple(named), tuple(map(self._divide, named.values())))
        if num_bytes > _WHOLE_BYTES and isinstance(value, list | tuple):
            return Items(tuple(map(self._divide, cast("Sequence[Any]", value))))
        return Whole(value)


class StateReader:
    """Puts states together again."""

    def __init__(self) -> None:
        self._made: list[Any] = []

    def add(self, parts: Sequence[StatePart]) -> None:
        """Take what the writer gave out. `ValueError` for the number of a part that was not given out."""
        for part in parts:
            match part:
                case Whole():
                    made: Any = part.value
                case Fields():
                    made = dict(zip(part.keys, map(self.state, part.parts), strict=True))
                case Items():
                    made = [self.state(number) for number in part.parts]
            self._made.append(made)

    def state(self, number: int) -> Any:
        """The state with a number."""
        if not 0 <= number < len(self._made):
            raise ValueError(f"a state refers to part {number} of {len(self._made)}")
        return self._made[number]


def with_state(trace: Trace, state: Any) -> Trace:
    """The trace with another final state; as it is if it has no evidence."""
    if trace.evidence is None:
        return trace
    return msgspec.structs.replace(trace, evidence=msgspec.structs.replace(trace.evidence, state=state))
