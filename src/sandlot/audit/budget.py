"""A time budget: the most telling probes first, and a share of the time for every layer, so that none uses up that of the others.

What a layer leaves unused goes to the next. A budget also limits the number of tasks, by its size alone, so that what two audits
with the same seed and budget both reach is the same.
"""

import re
import time
from collections.abc import Sequence

from sandlot.audit.case import Probe
from sandlot.audit.finding import Layer
from sandlot.core.errors import ConfigError

_TELLING = (
    *("golden-passes", "hollow-answers", "near-misses", "best-guess", "spellings", "odd-answers", "dead-criteria", "ladder"),
    *("does-nothing", "golden", "empty-words", "mutants", "shortcuts", "planted-files", "own-adversaries", "own-controls"),
    *("look-up", "copied-field", "after-others", "graded-again", "neighbours"),
)
"""Probes by how often they found a defect that counts, most often first; the others follow in their usual order."""
_SPENT_AFTER = {Layer.GRADER: 0.45, Layer.SCRIPTED: 0.8}
"""The share of the budget that is spent when a layer ends; all of it for the others. Static probes take none worth counting."""
_TASK_S = 3.0
"""A budget of 60 s is for 20 tasks."""
_FEWEST_TASKS = 6
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def parse_budget(text: str) -> float:
    """Seconds of `90`, `60s`, `5m` or `1h`; `ConfigError` for anything else."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h)?\s*", text)
    if found is None or float(found[1]) <= 0:
        raise ConfigError(f"--budget is `{text}`; write a time such as `60s` or `5m`")
    return float(found[1]) * _UNITS[found[2] or ""]


def tasks_within(budget_s: float | None, most: int) -> int:
    """How many tasks are played within a budget."""
    return most if budget_s is None else min(most, max(_FEWEST_TASKS, int(budget_s / _TASK_S)))


def most_telling_first(probes: Sequence[Probe]) -> list[Probe]:
    """The probes in the order in which a budget buys them."""
    order = {name: place for place, name in enumerate(_TELLING)}
    return sorted(probes, key=lambda probe: order.get(probe.name, len(order)))


class TimeBudget:
    """Time that an audit may take, from now on."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._began = time.monotonic()

    @property
    def ends(self) -> float:
        """When it is spent, by the monotonic clock."""
        return self._began + self.seconds

    def left(self, layer: Layer) -> float:
        """Seconds that are left for the probes of a layer; 0 or less if its share is spent."""
        return self._began + self.seconds * _SPENT_AFTER.get(layer, 1.0) - time.monotonic()
