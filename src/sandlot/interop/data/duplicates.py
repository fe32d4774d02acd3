"""Duplicate rows, exact and near, and rows that contain a held-out one.

Exact: the same words, whatever their case and spacing. Near: the share of three-word sequences that two texts have in common
(Jaccard) is at least the threshold; candidates are found by MinHash (128 hashes, 32 bands of 4: a pair of similarity 0.8 is
missed once in 10^7, one of 0.5 once in 8) and then compared exactly. Contaminated: at least 70 % of the eight-word sequences of a
held-out row are in the row, so that a question inside a longer text is found too.
"""

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec
import numpy as np
from numpy.typing import NDArray

from sandlot.core.errors import ConfigError
from sandlot.core.types import Split
from sandlot.interop.data.rows import DataRow, texts_of

_HASHES, _BANDS = 128, 32
_SEQUENCE, _LONG_SEQUENCE = 3, 8
_FEWEST_WORDS = 5
"""A held-out text of fewer words, such as `yes`, says nothing about contamination."""
_CONTAINED = 0.7
_MAX_CANDIDATES = 50
"""Earlier rows that a row is compared with, those with the most common bands: time stays linear."""
_BLOCK = 4096
"""Sequences whose hashes are computed at once."""
_PRIME = np.uint64((1 << 61) - 1)
_WORD = re.compile(r"\w+")
_UNCOMPARED = frozenset({"id", "split"})
"""Fields that differ between duplicates."""

Numbers = NDArray[np.uint64]


class DuplicateKind(StrEnum):
    """How a row repeats another."""

    EXACT = "exact"
    NEAR = "near"
    CONTAMINATED = "contaminated"
    """It contains a held-out row."""


class Duplicate(msgspec.Struct, frozen=True, kw_only=True):
    """A row that repeats another."""

    kind: DuplicateKind
    row: str
    """`FILE:LINE`."""
    of: str
    """`FILE:LINE` of the row that stays."""
    similarity: float


@dataclass(slots=True)
class DuplicateFinder:
    """Takes rows one by one and says which repeat an earlier one."""

    threshold: float = 0.8
    fields: Sequence[str] = ()
    """Only these fields are compared. Default: all but `id` and `split`."""
    _exact: dict[str, str] = field(default_factory=dict[str, str])
    _kept: list[tuple[str, Numbers]] = field(default_factory=list[tuple[str, Numbers]])
    _buckets: dict[tuple[int, bytes], list[int]] = field(default_factory=lambda: defaultdict[tuple[int, bytes], list[int]](list))
    _heldout: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    _sequences: dict[int, list[int]] = field(default_factory=lambda: defaultdict[int, list[int]](list))
    _factors: Numbers = field(init=False)
    _terms: Numbers = field(init=False)

    def __post_init__(self) -> None:
        if not 0.3 <= self.threshold <= 1:
            raise ConfigError(f"a similarity of {self.threshold:g}; give 0.3 to 1")
        rng = np.random.default_rng(0)
        self._factors = rng.integers(1, 1 << 29, size=(_HASHES, 1), dtype=np.uint64)
        self._terms = rng.integers(0, 1 << 61, size=(_HASHES, 1), dtype=np.uint64)

    def add_heldout(self, row: DataRow) -> None:
        """A row that no other may contain."""
        words = self._words(row)
        if len(words) < _FEWEST_WORDS:
            return
        sequences = set(_hashes(words, _LONG_SEQUENCE))
        self._heldout.append((row.origin.place, len(sequences)))
        for each in sequences:
            self._sequences[each].append(len(self._heldout) - 1)

    def look_at(self, row: DataRow) -> Duplicate | None:
        """How the row repeats a held-out or an earlier one; None if it does not, and then later rows are compared with it."""
        words = self._words(row)
        found = self._contaminated(row, words)
        if found is not None or not words:
            return found
        text = " ".join(words)
        if text in self._exact:
            return Duplicate(kind=DuplicateKind.EXACT, row=row.origin.place, of=self._exact[text], similarity=1.0)
        sequences = np.unique(np.fromiter(_hashes(words, _SEQUENCE), np.uint64))
        bands = self._bands(sequences)
        near = self._nearest(sequences, bands)
        if near is not None:
            return Duplicate(kind=DuplicateKind.NEAR, row=row.origin.place, of=near[0], similarity=round(near[1], 4))
        self._exact[text] = row.origin.place
        self._kept.append((row.origin.place, sequences))
        for band in bands:
            self._buckets[band].append(len(self._kept) - 1)
        return None

    def _words(self, row: DataRow) -> list[str]:
        missing = [name for name in self.fields if name not in row.value]
        if missing:
            raise ConfigError(f"{row.origin.place} has no field `{missing[0]}`; its fields: {', '.join(row.value)}")
        names = self.fields or sorted(set(row.value) - _UNCOMPARED)
        return [word for name in names for _, text in texts_of(row.value[name]) for word in _WORD.findall(text.casefold())]

    def _contaminated(self, row: DataRow, words: list[str]) -> Duplicate | None:
        if not self._heldout:
            return None
        seen = Counter[int]()
        for each in {*_hashes(words, _LONG_SEQUENCE), *self._short(words)}:
            seen.update(self._sequences.get(each, ()))
        shares = ((count / self._heldout[index][1], -index) for index, count in seen.items())
        share, index = max(shares, default=(0.0, 0))
        if share < _CONTAINED:
            return None
        of = self._heldout[-index][0]
        return Duplicate(kind=DuplicateKind.CONTAMINATED, row=row.origin.place, of=of, similarity=round(share, 4))

    def _short(self, words: list[str]) -> Iterator[int]:
        """Sequences as long as held-out texts that are shorter than a sequence."""
        for length in range(_FEWEST_WORDS, _LONG_SEQUENCE):
            yield from _hashes(words, length) if len(words) > length else ()

    def _bands(self, sequences: Numbers) -> list[tuple[int, bytes]]:
        blocks = np.array_split(sequences, max(1, -(-sequences.size // _BLOCK)))  # a long text would need gigabytes at once
        # At most 2^61 + 2^61: no overflow.
        minima = [((self._factors * block + self._terms) % _PRIME).min(axis=1) for block in blocks]
        smallest = np.min(minima, axis=0).reshape(_BANDS, -1)
        return [(number, band.tobytes()) for number, band in enumerate(smallest)]

    def _nearest(self, sequences: Numbers, bands: list[tuple[int, bytes]]) -> tuple[str, float] | None:
        counts = Counter[int]()
        for band in bands:
            counts.update(self._buckets.get(band, ())[:_MAX_CANDIDATES])
        best: tuple[str, float] | None = None
        for index, _ in counts.most_common(_MAX_CANDIDATES):
            place, other = self._kept[index]
            common = np.intersect1d(sequences, other, assume_unique=True).size
            share = common / (sequences.size + other.size - common)
            if share >= self.threshold and (best is None or share > best[1]):
                best = (place, share)
        return best


def _hashes(words: list[str], length: int) -> Iterator[int]:
    """A hash of every sequence of so many words; of the whole text if it is shorter."""
    for start in range(max(len(words) - length, 0) + 1):
        yield zlib.crc32(" ".join(words[start : start + length]).encode(errors="surrogatepass"))


class DedupeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a removal of duplicates found."""

    rows: int
    kept: int
    kinds: dict[str, int]
    duplicates: tuple[Duplicate, ...]


def dedupe(
    rows: Iterable[DataRow], *, against: Iterable[DataRow] = (), threshold: float = 0.8, fields: Sequence[str] = ()
) -> tuple[list[DataRow], DedupeReport]:
    """The rows that repeat no other, and a report. Of duplicates the first stays; held-out rows stay before others.

    - `rows`: the rows. Those with the field `split` = `heldout` are held out: no other row may contain them.
    - `against`: further held-out rows, of another file.
    - `threshold`: the share of three-word sequences that makes two rows near duplicates.
    - `fields`: only these fields are compared. Default: all but `id` and `split`.
    """
    finder = DuplicateFinder(threshold, fields)
    for row in against:
        finder.add_heldout(row)
    listed = list(rows)
    order = sorted(range(len(listed)), key=lambda index: not _is_heldout(listed[index]))
    found: dict[int, Duplicate] = {}
    for index in order:
        duplicate = finder.look_at(listed[index]) if not _is_heldout(listed[index]) else _own_repeat(finder, listed[index])
        if duplicate is not None:
            found[index] = duplicate
    kept = [row for index, row in enumerate(listed) if index not in found]
    kinds = Counter(str(each.kind) for each in found.values())
    report = DedupeReport(
        rows=len(listed),
        kept=len(kept),
        kinds=dict(sorted(kinds.items())),
        duplicates=tuple(found[index] for index in sorted(found)),
    )
    return kept, report


def _own_repeat(finder: DuplicateFinder, row: DataRow) -> Duplicate | None:
    """A held-out row may repeat another held-out one; if it does not, it is held out from here on."""
    duplicate = finder.look_at(row)
    if duplicate is None:
        finder.add_heldout(row)
    return duplicate


def _is_heldout(row: DataRow) -> bool:
    return row.value.get("split") == Split.HELDOUT.value
