"""The rollouts of a run that match a person's own filter, as a queue to read. Only columns are read, no traces."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sandlot.analysis.taxonomy import label_of_failure, label_of_scored
from sandlot.analysis.triage.strata import Chosen
from sandlot.core.errors import ConfigError
from sandlot.core.types import End, Side
from sandlot.run.results import Run

WHY = "your filter"
_COLUMNS = ("task", "rollout", "split", "tags", "end", "outcome", "side", "kind", "score", "passed")


class QueueFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a rollout must be like. A field that is empty asks for nothing."""

    task: str = ""
    """Characters of the task's id."""
    tag: str = ""
    split: str = ""
    outcome: str = ""
    """`scored` or `failed`."""
    label: str = ""
    """The computed label, as far as columns show it."""
    end: str = ""
    low: float | None = None
    """The lowest score."""
    high: float | None = None
    """The highest score."""

    @classmethod
    def parse(cls, words: Mapping[str, str]) -> "QueueFilter":
        """From the words of an address; others are ignored. `ConfigError` if a score is no number."""
        texts = {name: words.get(name, "")[:200] for name in ("task", "tag", "split", "outcome", "label", "end")}
        return cls(**texts, low=_number("low", words), high=_number("high", words))

    @property
    def words(self) -> dict[str, str]:
        """The fields that ask for something, as words of an address."""
        given = msgspec.structs.asdict(self)
        return {
            name: value if isinstance(value, str) else f"{value:g}" for name, value in given.items() if value not in {"", None}
        }

    def matches(self, row: Mapping[str, Any]) -> bool:
        """True if a row of columns is as asked."""
        score = row["score"]
        return (
            self.task in row["task"]
            and (not self.tag or self.tag in (row["tags"] or ()))
            and all(not asked or asked == row[name] for name, asked in (("split", self.split), ("outcome", self.outcome)))
            and (not self.end or self.end == row["end"])
            and (self.low is None or (score is not None and score >= self.low))
            and (self.high is None or (score is not None and score <= self.high))
            and (not self.label or self.label == _label(row))
        )


def filter_queue(run: Run, asked: QueueFilter) -> tuple[Chosen, ...]:
    """The rollouts that match, in stored order. Cancelled ones are left out."""
    table = run.reader.table(_COLUMNS)
    columns = [table.column(name).to_pylist() for name in _COLUMNS]
    rows: Iterator[dict[str, Any]] = (dict(zip(_COLUMNS, values, strict=True)) for values in zip(*columns, strict=True))
    return tuple(
        Chosen(task=row["task"], rollout=row["rollout"], why=WHY, label=_label(row))
        for row in rows
        if row["outcome"] != "cancelled" and asked.matches(row)
    )


def _number(name: str, words: Mapping[str, str]) -> float | None:
    text = words.get(name, "").strip()
    try:
        return float(text) if text else None
    except ValueError:
        raise ConfigError(f"`{name}` is `{text[:60]}`; give a number, such as 0.5") from None


def _label(row: Mapping[str, Any]) -> str:
    if row["outcome"] == "scored":
        return label_of_scored(passed=row["passed"] is True, end=End(row["end"]))
    return label_of_failure(Side(row["side"]), row["kind"] or "") if row["side"] else ""
