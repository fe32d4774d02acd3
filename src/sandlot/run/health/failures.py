"""How often rollouts failed, and on whose side.

More than one failure in twenty on the environment's side (environment, sandbox, grader, harness) means the harness is at fault,
and not the model. The gate is Wilson's interval over all rollouts, and the sequential test that stops a run while it goes on.
The model's side has a limit of its own.
"""

from collections import Counter
from collections.abc import Iterable

from sandlot.run.breaker import MODEL_FAILURE_SHARE, failure_test
from sandlot.run.health.item import Item, Mark
from sandlot.stats import Sprt, Standing, wilson
from sandlot.trace import TraceRow
from sandlot.types import Json, Side

ENVIRONMENT_LIMIT = 0.05
SHOWN = 3


def failures(rows: Iterable[TraceRow]) -> tuple[Item, Item]:
    """The environment's side and the model's, in one pass over the rows in the order they were kept."""
    environment, model = _Count(failure_test()), _Count(failure_test(MODEL_FAILURE_SHARE))
    for row in rows:
        if row.outcome == "cancelled":
            continue  # an operator's decision says nothing about either side
        environment.add(row, failed=row.side is not None and row.side != Side.MODEL)
        model.add(row, failed=row.side == Side.MODEL)
    return _environment(environment), _model(model)


class _Count:
    def __init__(self, test: Sprt) -> None:
        self.test = test
        self.sides: Counter[str] = Counter()
        self.look: list[str] = []
        self.spoiled = 0
        self.tripped_after: int | None = None

    def add(self, row: TraceRow, *, failed: bool) -> None:
        self.test = self.test.after(failed=failed)
        self.spoiled += row.attempts - 1
        if failed:
            self.sides[row.side or ""] += 1
            self.look += [f"{row.task}/{row.rollout}"] if len(self.look) < SHOWN else []
            if self.tripped_after is None and self.test.standing is Standing.FAIL:
                self.tripped_after = self.counted

    @property
    def failed(self) -> int:
        return self.test.failures

    @property
    def counted(self) -> int:
        return self.test.failures + self.test.clean

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
            "sequential_test": "fail" if self.tripped_after is not None else self.test.standing.value,
            "tripped_after": self.tripped_after,
            "repeated_attempts": self.spoiled,
        }

    def said(self) -> str:
        if not self.counted:
            return "no rollout has come to an end"
        rate = wilson(self.failed, self.counted)
        sides = "; " + ", ".join(f"{count} {side}" for side, count in self.sides.most_common()) if self.sides else ""
        return f"{self.failed} of {self.counted:,} rollouts failed ({rate.low:.1%} to {rate.high:.1%} at 95 %{sides})"


def _environment(count: _Count) -> Item:
    rate = wilson(count.failed, count.counted)
    needed = ""
    if rate.low > ENVIRONMENT_LIMIT or count.tripped_after is not None:
        mark = Mark.FAIL
    elif rate.high <= ENVIRONMENT_LIMIT:
        mark = Mark.OK
    elif count.failed:
        mark = Mark.WARN
    else:
        mark = Mark.UNKNOWN
        needed = f"{rollouts_needed(0)} rollouts without a failure, to say that it is below {ENVIRONMENT_LIMIT:.0%}"
    said = count.said()
    if count.tripped_after is not None:
        said += f"; the sequential test gave it up after {count.tripped_after}"
    if count.spoiled:
        said += f"; {count.spoiled} more attempts were spoiled by infrastructure and repeated"
    return Item(name="failures", mark=mark, said=said, needed=needed, figures=count.figures(), look=tuple(count.look))


def _model(count: _Count) -> Item:
    rate = wilson(count.failed, count.counted)
    mark = Mark.FAIL if count.tripped_after is not None else Mark.WARN if rate.low > MODEL_FAILURE_SHARE else Mark.OK
    said = f"the model's endpoint: {count.said()}" if count.failed else "the model's endpoint never failed"
    return Item(name="model", mark=mark, said=said, figures=count.figures(), look=tuple(count.look))


def rollouts_needed(failed: int, limit: float = ENVIRONMENT_LIMIT) -> int:
    """The fewest rollouts with so many failures among them whose interval lies below the limit."""
    low, high = failed, max(1, failed)
    while wilson(failed, high).high > limit:
        low, high = high, 2 * high
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if wilson(failed, middle).high <= limit else (middle, high)
    return high
