"""Replaces secrets and personal data in rows, and reports what was replaced: kinds, counts and places, never the values.

The same value becomes the same mark, such as `[email-3]`, in all rows, so that texts that belong together still do. Marks are
numbered in the order of the rows: a hash of a phone number could be reversed by trying all of them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.types import Json
from sandlot.interop.data.personal import FINDERS, NAMED
from sandlot.interop.data.rows import DataRow, row_hash

_NAMED_KIND = "named_secret"
KINDS = (*FINDERS, _NAMED_KIND)
"""What can be redacted."""
_MARK = re.compile(r"\[(?:" + "|".join(KINDS) + r")-\d+\]")
_MAX_PLACES = 10_000
_MAX_TEXT_CHARS = 16 * 2**20


class RedactedPlace(msgspec.Struct, frozen=True):
    """One text in which something was replaced."""

    file: str
    line: int
    field: str
    kind: str
    count: int


class RedactionReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was replaced. It has no secret and no hash of one."""

    format: int = 1
    rows: int
    changed_rows: int
    kinds: dict[str, int]
    """By kind: how many replacements."""
    values: dict[str, int]
    """By kind: how many different values."""
    places: tuple[RedactedPlace, ...]
    places_left_out: int = 0


@dataclass(slots=True)
class Redactor:
    """Redacts row after row."""

    kinds: Sequence[str] = KINDS
    rows: int = 0
    changed_rows: int = 0
    _marks: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    _numbers: Counter[str] = field(default_factory=Counter[str])
    _counts: Counter[str] = field(default_factory=Counter[str])
    _places: list[RedactedPlace] = field(default_factory=list[RedactedPlace])
    _left_out: int = 0

    def __post_init__(self) -> None:
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown:
            raise ConfigError(f"there is no kind `{unknown[0]}` to redact; kinds: {', '.join(KINDS)}")

    def redact_rows(self, rows: Iterable[DataRow]) -> Iterator[DataRow]:
        """The rows without what the kinds name."""
        for row in rows:
            self.rows += 1
            found: Counter[tuple[str, str]] = Counter()
            value = cast("Json", self._value(row.value, "", found))
            # An earlier program may have named the source after what is in it. And a hash of the row as it was could be reversed
            # by trying all phone numbers.
            file = self.text(row.origin.file, "provenance.file", found)
            sha256 = row_hash(value) if found else row.origin.sha256
            redacted = DataRow(value, msgspec.structs.replace(row.origin, file=file, sha256=sha256))
            if found:
                self.changed_rows += 1
                self._record(redacted, found)
            yield redacted

    def report(self) -> RedactionReport:
        """What was replaced so far."""
        return RedactionReport(
            rows=self.rows,
            changed_rows=self.changed_rows,
            kinds=dict(sorted(self._counts.items())),
            values=dict(sorted(self._numbers.items())),
            places=tuple(self._places),
            places_left_out=self._left_out,
        )

    def _record(self, row: DataRow, found: Counter[tuple[str, str]]) -> None:
        for (place, kind), count in found.items():
            self._counts[kind] += count
            if len(self._places) < _MAX_PLACES:
                self._places.append(RedactedPlace(row.origin.file, row.origin.line, place, kind, count))
            else:
                self._left_out += 1

    def _value(self, value: Any, place: str, found: Counter[tuple[str, str]], *, named: bool = False) -> Any:
        """The value without what was found; with `named`, all texts and numbers in it are secrets."""
        named = named or NAMED.search(place) is not None
        match value:
            case str():
                return self.text(value, place, found, named=named)
            case bool() | None:
                return value
            case int() | float():
                text = self.text(str(value), place, found, named=named)  # a card number may be stored as a number
                return value if text == str(value) else text
            case dict():
                pairs = cast("dict[str, Any]", value).items()
                # The place never shows a key that itself holds a secret.
                return {
                    (clean := self.text(name, f"{place}.(name)".lstrip("."), found)): self._value(
                        each, f"{place}.{clean}".lstrip("."), found, named=named
                    )
                    for name, each in pairs
                }
            case list():
                each_value = enumerate(cast("list[Any]", value))
                return [self._value(each, f"{place}.{number}", found, named=named) for number, each in each_value]
            case _:
                return value

    def text(self, text: str, place: str, found: Counter[tuple[str, str]], *, named: bool = False) -> str:
        """The text with marks in place of what was found, which is counted in `found`."""
        if len(text) > _MAX_TEXT_CHARS:
            raise ConfigError(f"`{place}` has {len(text):,} characters; at most {_MAX_TEXT_CHARS:,} are redacted")
        if _NAMED_KIND in self.kinds and named and text and not _MARK.fullmatch(text):
            found[place, _NAMED_KIND] += 1
            return self._mark(_NAMED_KIND, text)
        spans: list[tuple[int, int, str]] = []
        taken = bytearray(len(text))
        for kind in FINDERS if text else ():
            for start, end in FINDERS[kind](text) if kind in self.kinds else ():
                if not any(taken[start:end]):
                    taken[start:end] = b"\1" * (end - start)
                    spans.append((start, end, kind))
        pieces: list[str] = []
        done = 0
        for start, end, kind in sorted(spans):
            found[place, kind] += 1
            pieces += [text[done:start], self._mark(kind, text[start:end])]
            done = end
        return "".join([*pieces, text[done:]])

    def _mark(self, kind: str, value: str) -> str:
        bare = "".join(value.split()).lower()
        if (kind, bare) not in self._marks:
            self._numbers[kind] += 1
            self._marks[kind, bare] = f"[{kind}-{self._numbers[kind]}]"
        return self._marks[kind, bare]
