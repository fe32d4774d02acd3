"""One answer about a run's health, and all of them together.

An answer is a mark, a sentence and the figures behind it. Too little data is a mark of its own and says how much is needed: what
could not be judged is never called fine.
"""

from enum import StrEnum

import msgspec

from sandlot.core.types import Json


class HealthMark(StrEnum):
    """How one question came out."""

    OK = "ok"
    WARN = "warn"  # look at it; it may have a good reason
    FAIL = "fail"  # do not train on this
    UNKNOWN = "not_enough_data"
    NOT_ASKED = "not_asked"


class HealthItem(msgspec.Struct, frozen=True, kw_only=True):
    """One question about a run, answered."""

    name: str
    mark: HealthMark
    said: str
    """The answer in a sentence."""
    needed: str = ""
    """What it would take to answer, where the data do not suffice."""
    figures: Json = {}
    """The numbers behind it."""
    look: tuple[str, ...] = ()
    """Rollouts that show it, as `TASK/ROLLOUT`."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """A run's health."""

    format: int = 1
    run: str
    environment: str
    model: str
    against: str | None = None
    """The run that observations and actions were compared with; None for its own halves."""
    rollouts: int
    planned: int | None
    """None for a training, which takes as many rollouts as its steps need."""
    complete: bool = True
    """False if the run's command would take more rollouts."""
    rows: int
    """Rollouts whose figures were read: all of them, or a seeded draw from a very large run."""
    traces: int
    """Traces that were opened: a seeded draw."""
    seed: int
    items: tuple[HealthItem, ...]

    @property
    def verdict(self) -> HealthMark:
        """The worst mark; what is unknown counts only where nobody may be without it: the failure rate of a whole run."""
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
        """1 if anything failed, else 3 if too little is there to say, else 0; warnings are for people."""
        if self.verdict is HealthMark.FAIL:
            return 1
        return 3 if self.incomplete else 0
