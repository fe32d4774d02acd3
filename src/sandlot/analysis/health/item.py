"""The result of one health check, and of all of them.

A result is a mark, a sentence and the figures behind it. Too little data has its own mark and says how much is needed; it never
counts as ok.
"""

from enum import StrEnum

import msgspec

from sandlot.core.types import Json


class HealthMark(StrEnum):
    """The result of one check."""

    OK = "ok"
    WARN = "warn"  # look at it; it may have a good reason
    FAIL = "fail"  # do not train on this
    UNKNOWN = "not_enough_data"
    NOT_ASKED = "not_asked"


class HealthItem(msgspec.Struct, frozen=True, kw_only=True):
    """One check of a run."""

    name: str
    mark: HealthMark
    said: str
    """The result in a sentence."""
    needed: str = ""
    """What is needed for a result, if there is too little data."""
    figures: Json = {}
    """The numbers behind it."""
    look: tuple[str, ...] = ()
    """Rollouts to look at, as `TASK/ROLLOUT`."""


def too_little(name: str, said: str, needed: str) -> HealthItem:
    """The item of a check that has too little data for a result."""
    return HealthItem(name=name, mark=HealthMark.UNKNOWN, said=said, needed=needed)


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a run."""

    format: int = 1
    run: str
    environment: str
    model: str
    against: str | None = None
    """The run it was compared with for drift; None for its own two halves."""
    rollouts: int
    planned: int | None
    """None for a training run, which takes as many rollouts as its steps need."""
    complete: bool = True
    """False if rollouts of the plan are missing."""
    rows: int
    """Rows that were read: all, or a seeded sample of a very large run."""
    traces: int
    """Traces that were read: a seeded sample."""
    seed: int
    items: tuple[HealthItem, ...]

    @property
    def verdict(self) -> HealthMark:
        """The worst mark. Unknown counts only if rollouts are missing or the failure rate is unknown."""
        marks = {item.mark for item in self.items}
        for worst in (HealthMark.FAIL, HealthMark.WARN):
            if worst in marks:
                return worst
        return HealthMark.UNKNOWN if self.incomplete else HealthMark.OK

    @property
    def incomplete(self) -> bool:
        """True if rollouts are missing, or there are too few to know the failure rate."""
        rate = next((item for item in self.items if item.name == "failures"), None)
        return not self.complete or rate is None or rate.mark is HealthMark.UNKNOWN

    @property
    def exit_code(self) -> int:
        """1 if a check failed, else 3 if there is too little data, else 0. Warnings do not count."""
        if self.verdict is HealthMark.FAIL:
            return 1
        return 3 if self.incomplete else 0
