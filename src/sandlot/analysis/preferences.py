"""Which of two rollouts of one task is better: what people said without seeing scores, stored with the run.

The file is `preferences.jsonl`, one answer per line. Lines are only appended; the last answer of a person for a pair counts.
Pairs are drawn by a seed, and the side on which a rollout stands is drawn too, so that neither order nor side says anything.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from enum import StrEnum
from itertools import combinations
from pathlib import Path
from random import Random

import msgspec

from sandlot.analysis.triage.agreement import ReaderAgreement, reader_agreements
from sandlot.analysis.triage.labels import NOTE_CHARS, reader_name
from sandlot.core.text import printable
from sandlot.core.types import derive_seed
from sandlot.run.results import Run
from sandlot.store.lines import append_line, read_lines

FILE = "preferences.jsonl"
_PER_TASK = 3
"""Maximum pairs of one task."""


class Choice(StrEnum):
    """The answer to "which is better?"."""

    LEFT = "left"
    RIGHT = "right"
    EQUAL = "equal"


class Preference(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of one person about two rollouts of one task."""

    format: int = 1
    task: str
    left: int
    """Number of the rollout that stood on the left."""
    right: int
    choice: Choice
    by: str
    note: str = ""
    at: float
    """Seconds since the epoch."""

    @property
    def key(self) -> tuple[str, int, int]:
        """The task and the two rollouts, whichever side they stood on."""
        return self.task, min(self.left, self.right), max(self.left, self.right)

    @property
    def better(self) -> int | None:
        """Number of the better rollout; None if they are equal."""
        return {Choice.LEFT: self.left, Choice.RIGHT: self.right, Choice.EQUAL: None}[self.choice]


class RolloutPair(msgspec.Struct, frozen=True, kw_only=True):
    """Two rollouts to compare."""

    task: str
    left: int
    right: int

    @property
    def key(self) -> tuple[str, int, int]:
        """The task and the two rollouts, whichever side they stand on."""
        return self.task, min(self.left, self.right), max(self.left, self.right)


class Preferences(msgspec.Struct, frozen=True, kw_only=True):
    """All answers of a run, in order."""

    given: tuple[Preference, ...] = ()
    damaged: tuple[int, ...] = ()
    """Lines of the file that cannot be read, counted from 1."""

    @property
    def counting(self) -> tuple[Preference, ...]:
        """The last answer of each person for each pair."""
        return tuple({(each.key, each.by): each for each in self.given}.values())


def read_preferences(run: Path) -> Preferences:
    """Read the answers of a run. A last line that a crash cut off is ignored."""
    given: list[Preference] = []
    damaged: list[int] = []
    lines = read_lines(run / FILE)
    for number, line in enumerate(lines, start=1):
        try:
            given += [msgspec.json.decode(line, type=Preference)] if line.strip() else []
        except (msgspec.MsgspecError, UnicodeDecodeError):
            damaged += [number] if number < len(lines) else []
    return Preferences(given=tuple(given), damaged=tuple(damaged))


def add_preference(run: Path, pair: RolloutPair, choice: Choice, *, by: str, note: str = "", at: float) -> Preference:
    """Store an answer; it is on disk when this returns."""
    told = Preference(
        task=pair.task,
        left=pair.left,
        right=pair.right,
        choice=choice,
        by=reader_name(by),
        note=printable(note, NOTE_CHARS),
        at=at,
    )
    append_line(run / FILE, msgspec.json.encode(told))
    return told


def draw_pairs(run: Run, *, seed: int = 0) -> tuple[RolloutPair, ...]:
    """Pairs of scored rollouts of one task, one of every task first, then a second and a third one. The same for a seed."""
    table = run.reader.table(["task", "rollout", "outcome"])
    rollouts: defaultdict[str, list[int]] = defaultdict(list)
    for task, rollout, outcome in zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True):
        if outcome == "scored":
            rollouts[task].append(rollout)
    rounds: list[list[RolloutPair]] = [[] for _ in range(_PER_TASK)]
    for task, numbers in rollouts.items():
        rng = Random(derive_seed("preferences", seed, task))  # noqa: S311 - a repeatable order, not a secret
        for place, pair in enumerate(_some_pairs(rng, sorted(numbers))):
            left, right = rng.sample(pair, 2)
            rounds[place].append(RolloutPair(task=task, left=left, right=right))
    for each in rounds:
        Random(derive_seed("preferences", seed)).shuffle(each)  # noqa: S311 - as above
    return tuple(pair for each in rounds for pair in each)


def agreed_preferences(answers: Preferences) -> list[tuple[str, int, int]]:
    """The task, the better and the worse rollout of every pair on which most people prefer one; ties are left out."""
    votes: defaultdict[tuple[str, int, int], Counter[int | None]] = defaultdict(Counter)
    for each in answers.counting:
        votes[each.key][each.better] += 1
    found: list[tuple[str, int, int]] = []
    for (task, one, other), counts in votes.items():
        if counts[one] != counts[other] and max(counts[one], counts[other]) * 2 > counts.total():
            found.append((task, one, other) if counts[one] > counts[other] else (task, other, one))
    return found


def agreements_on(counting: Iterable[Preference]) -> tuple[ReaderAgreement, ...]:
    """The agreement of every two people who compared the same pairs."""
    return reader_agreements([(each.by, each.key, _verdict(each)) for each in counting])


def _verdict(told: Preference) -> str:
    """The verdict in words that do not depend on the side."""
    if told.better is None:
        return "equal"
    return "the lower number" if told.better == told.key[1] else "the higher number"


def _some_pairs(rng: Random, numbers: list[int]) -> list[tuple[int, int]]:
    """A few different pairs, without listing all pairs of a large group."""
    few = rng.sample(numbers, min(len(numbers), _PER_TASK + 1))
    pairs = list(combinations(few, 2))
    return rng.sample(pairs, min(len(pairs), _PER_TASK))
