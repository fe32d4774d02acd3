"""The breaker: stops a run that is broken, and says whose fault it is.

More than one failure in twenty on the environment's side means the harness is at fault and not the model, and every rollout after
that is wasted. A sequential test decides, so it may be asked after every attempt; intervals are only for display. The model's
side has a test and a limit of its own: endpoints are shakier than environments, and it is somebody else who mends them.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from sandlot.errors import ConfigError
from sandlot.stats import Interval, Sprt, Standing, wilson
from sandlot.trace import TraceRow
from sandlot.types import Side

ENVIRONMENT_FAILURE_SHARE = 0.02
"""Failures that are put up with. Four times as many are not, and the test decides between the two: 2 % and 8 %."""
MODEL_FAILURE_SHARE = 0.05
EXAMPLES = 3
MESSAGE_CHARS = 300


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt that failed: where to look, and what it said."""

    task: str
    rollout: int
    side: Side
    message: str


class Tripped(msgspec.Struct, frozen=True, kw_only=True):
    """Why the run was stopped."""

    side: Side
    """The guilty side: of the failures that tripped it, the most frequent."""
    failures: dict[str, int]
    """Failures by side, of the sides this test is about."""
    attempts: int
    rate: Interval
    """The share of attempts that failed, with Wilson's interval."""
    examples: tuple[Example, ...]

    def describe(self) -> str:
        """The reason in one sentence."""
        sides = ", ".join(f"{count} {side}" for side, count in sorted(self.failures.items(), key=lambda item: -item[1]))
        failed = sum(self.failures.values())
        return (
            f"{failed} of {self.attempts} attempts failed on the {self.side} side ({sides}; "
            f"{self.rate.low:.0%} to {self.rate.high:.0%} at 95 %)"
        )


def failure_test(share: float = ENVIRONMENT_FAILURE_SHARE) -> Sprt:
    """The sequential test between this share of failures and four times as many."""
    return Sprt(p0=share, p1=min(4 * share, (1 + share) / 2))


class Breaker:
    """Told of every finished attempt; trips at most once for each side and stays tripped."""

    def __init__(self, *, model_failure_share: float = MODEL_FAILURE_SHARE) -> None:
        if not 0 < model_failure_share < 1:
            raise ConfigError(f"model_failure_share is {model_failure_share}; give a number between 0 and 1, such as 0.05")
        # by whether the model's side is meant
        self._tests = {False: failure_test(), True: failure_test(model_failure_share)}
        self._failures: Counter[Side] = Counter()
        self._examples: dict[Side, list[Example]] = {}
        self._tripped: Tripped | None = None

    @property
    def tripped(self) -> Tripped | None:
        """Why the run should stop; None while there is no reason."""
        return self._tripped

    def note(self, side: Side | None, task: str, rollout: int, message: str = "") -> Tripped | None:
        """Count an attempt that failed on `side`, or did not fail (None); the reason to stop, once there is one.

        A cancelled attempt says nothing about anyone and is not counted.
        """
        if side is not None:
            self._failures[side] += 1
            examples = self._examples.setdefault(side, [])
            if len(examples) < EXAMPLES:
                examples.append(Example(task=task, rollout=rollout, side=side, message=message[:MESSAGE_CHARS]))
        for of_model, test in self._tests.items():
            failed = side is not None and (side is Side.MODEL) == of_model
            self._tests[of_model] = after = test.after(failed=failed)
            if failed and self._tripped is None and after.standing is Standing.FAIL:
                self._tripped = self._reason(after, of_model=of_model)
        return self._tripped

    def resume(self, rows: Iterable[TraceRow]) -> None:
        """Count rollouts stored by an earlier start. Of one that was tried several times only the last attempt is known."""
        for row in rows:
            if row.outcome != "cancelled":
                self.note(Side(row.side) if row.side else None, row.task, row.rollout, row.message or "")

    def _reason(self, test: Sprt, *, of_model: bool) -> Tripped:
        failures = Counter({side: count for side, count in self._failures.items() if (side is Side.MODEL) == of_model})
        ranked = [side for side, _ in failures.most_common()]
        examples = [example for side in ranked for example in self._examples[side]]
        attempts = test.failures + test.clean
        return Tripped(
            side=ranked[0],
            failures={side.value: failures[side] for side in ranked},
            attempts=attempts,
            rate=wilson(test.failures, attempts),
            examples=tuple(examples[:EXAMPLES]),
        )
