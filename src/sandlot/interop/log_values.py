"""Values of other frameworks' logs, which anyone may have written: JSON, times, counts, names and images, each with a bound."""

import re
from collections import Counter
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.image_formats import BadImageError, image_facts
from sandlot.core.text import encodable
from sandlot.core.trace import ImagePart, Part, Text
from sandlot.core.types import digest
from sandlot.interop.folder_writer import task_id

MAX_COUNT = 2**40
MAX_SECONDS = 1e9
_MAX_INTEGER = 2**63
"""Limit of the integers that records can hold."""
_MAX_DEPTH = 64
_NAME_CHARS = 110
_R = TypeVar("_R")
_CONSTANT = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)|-?Infinity|NaN', re.DOTALL)


class UnreadableRecordError(ConfigError):
    """A file of a log that is damaged or too large: another one of the same log may be whole."""


def decode_record(data: bytes, kind: type[_R], what: str) -> _R:
    """A record from JSON, in which Python also writes NaN and Infinity: those become null. `ConfigError` names what is wrong.

    It is an `UnreadableRecordError` if the data is no JSON, such as a file that was not written to its end.
    """
    try:
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            return msgspec.json.decode(_CONSTANT.sub(_finite, data), type=kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{what} cannot be read: {error}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableRecordError(f"{what} cannot be read: {error}") from error


def _finite(found: re.Match[bytes]) -> bytes:
    return found.group() if found.group().startswith(b'"') else b"null"


def seconds_of(timestamp: str | None) -> float:
    """A time in seconds since the epoch, in UTC if it names no zone; 0 if it is none."""
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(timestamp or "")
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return 0.0


def bounded_seconds(seconds: float | None) -> float:
    """Seconds; 0 if there are none, or absurdly many."""
    return seconds if seconds is not None and 0.0 <= seconds <= MAX_SECONDS else 0.0


def bounded_count(number: int | None) -> int:
    """A count between 0 and `MAX_COUNT`."""
    return min(max(number or 0, 0), MAX_COUNT)


def bounded_cost(usd: float | None) -> float:
    """A cost; 0 if there is none, or an absurd one."""
    return usd if usd is not None and 0.0 <= usd <= MAX_SECONDS else 0.0


def bounded_value(value: Any, depth: int = 0) -> Any:
    """Plain data that can be stored: whole numbers beyond 64 bits become text, and what is nested too deeply is left out."""
    if isinstance(value, int) and not -_MAX_INTEGER <= value < _MAX_INTEGER:
        return str(value) if value.bit_length() < 10_000 else "[a number that is too large]"
    if not isinstance(value, dict | list):
        return value
    if depth >= _MAX_DEPTH:
        return "[nested too deeply]"
    if isinstance(value, list):
        return [bounded_value(each, depth + 1) for each in cast("list[Any]", value)]
    return {name: bounded_value(each, depth + 1) for name, each in cast("dict[str, Any]", value).items()}


def image_part(image: bytes, blobs: dict[str, bytes]) -> Part:
    """An image as a part of a message, with its bytes added to `blobs`. One that may not be shown is a line of text."""
    try:
        facts = image_facts(image)
    except BadImageError as error:
        return Text(f"[image that cannot be shown: {encodable(str(error))[:200]}]")
    name = digest(image)
    blobs[name] = image
    return ImagePart(name, facts.media_type, width=facts.width, height=facts.height)


@dataclass(slots=True)
class LoggedTaskNames:
    """A task id for each task of a log, and another one for another task, even if both would look the same."""

    given: dict[Hashable, str] = field(default_factory=dict[Hashable, str])
    taken: set[str] = field(default_factory=set[str])
    repeats: Counter[str] = field(default_factory=Counter[str])

    def name_of(self, key: Hashable, text: str) -> str:
        """The id of the task with this key, made from the text."""
        if key not in self.given:
            stem = name = task_id(text)
            while name in self.taken:
                cut = stem[:_NAME_CHARS]
                self.repeats[cut] += 1
                name = f"{cut}-{self.repeats[cut] + 1}"
            self.taken.add(name)
            self.given[key] = name
        return self.given[key]
