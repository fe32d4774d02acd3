"""How often rollouts failed, and on which side.

More than 5 % failures on the environment's side (environment, sandbox, grader, harness) means that the environment is broken, not
the model. The check uses Wilson's interval over all rollouts, and the rule that stops a run early, applied to the rollouts in the
order they started. The model's side has its own limit.
"""

from collections import Counter
from collections.abc import Iterable

from sandlot.analysis.health.item import HealthItem, HealthMark
from sandlot.core.stats.intervals import wilson
from sandlot.core.trace_row import TraceRow
from sandlot.core.types import Json, Side
from sandlot.run.breaker import MODEL_FAILURE_SHARE, Breaker, Tripped

ENVIRONMENT_LIMIT = 0.05
_SHOWN = 3


def failures(rows: Iterable[TraceRow]) -> tuple[HealthItem, HealthItem]:
    """Failures on the environment's side, and on the model's."""
    counted = sorted((row for row in rows if row.outcome != "cancelled"), key=lambda row: row.started)
    num_tasks = len({row.task for row in counted})
    environment, model = _Count(num_tasks), _Count(num_tasks)
    for row in counted:
        environment.add(row, failed=row.side is not None and row.side != Side.MODEL)
        model.add(row, failed=row.side == Side.MODEL)
    return _environment(environment), _model(model)


class _Count:
    def __init__(self, num_tasks: int) -> None:
        self.sides: Counter[str] = Counter()
        self.look: list[str] = []
        self.counted = 0
        self.spoiled = 0
        self._breaker = Breaker(num_tasks=num_tasks)

    def add(self, row: TraceRow, *, failed: bool) -> None:
        place = self._breaker.begin(row.task)
        self.counted += 1
        self.spoiled += row.attempts - 1
        if failed:
            self.sides[row.side or ""] += 1
            self.look += [f"{row.task}/{row.rollout}"] if len(self.look) < _SHOWN else []
            self._breaker.end(place, row.rollout, {Side(row.side or ""): row.message or ""})

    @property
    def failed(self) -> int:
        return self.sides.total()

    @property
    def tripped(self) -> Tripped | None:
        return self._breaker.tripped

    def figures(self) -> Json:
        rate = wilson(self.failed, self.counted)
        return {
            "rollouts": self.counted,
            "failed": self.failed,
            "rate": rate.value,
            "low": rate.low,
            "high": rate.high,
            "by_side": {
                side: {"failed": count, "low": wilson(count, self.counted).low, "high": wilson(count, self.counted).high}
                for side, count in self.sides.most_common()
            },
            "over_limit": self.tripped.describe() if self.tripped else None,
            "repeated_attempts": self.spoiled,
        }

    def said(self) -> str:
        if not self.counted:
            return "no rollout has ended"
        rate = wilson(self.failed, self.counted)
        sides = "; " + ", ".join(f"{count} {side}" for side, count in self.sides.most_common()) if self.sides else ""
        return f"{self.failed} of {self.counted:,} rollouts failed ({rate.low:.1%} to {rate.high:.1%} at 95 %{sides})"


def _environment(count: _Count) -> HealthItem:
    rate = wilson(count.failed, count.counted)
    needed = ""
    if rate.low > ENVIRONMENT_LIMIT or count.tripped is not None:
        mark = HealthMark.FAIL
    elif rate.high <= ENVIRONMENT_LIMIT:
        mark = HealthMark.OK
    elif count.failed:
        mark = HealthMark.WARN
    else:
        mark = HealthMark.UNKNOWN
        needed = f"{rollouts_needed(0)} rollouts without a failure, to show that the rate is below {ENVIRONMENT_LIMIT:.0%}"
    said = count.said()
    if count.tripped is not None:
        said += f"; the rule that stops runs applies: {count.tripped.describe()}"
    if count.spoiled:
        said += f"; {count.spoiled} more attempts failed because of infrastructure and were repeated"
    return HealthItem(name="failures", mark=mark, said=said, needed=needed, figures=count.figures(), look=tuple(count.look))


def _model(count: _Count) -> HealthItem:
    rate = wilson(count.failed, count.counted)
    mark = HealthMark.FAIL if count.tripped is not None else HealthMark.WARN if rate.low > MODEL_FAILURE_SHARE else HealthMark.OK
    said = f"the model's endpoint: {count.said()}" if count.failed else "the model's endpoint never failed"
    return HealthItem(name="model", mark=mark, said=said, figures=count.figures(), look=tuple(count.look))


def rollouts_needed(failed: int, limit: float = ENVIRONMENT_LIMIT) -> int:
    """The smallest number of rollouts, with this many failures, whose interval is below the limit."""
    low, high = failed, max(1, failed)
    while wilson(failed, high).high > limit:
        low, high = high, 2 * high
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if wilson(failed, middle).high <= limit else (middle, high)
    return high
