"""The breaker: stops a run that is broken, and says which side failed.

The rule, for the environment's side (environment, sandbox, grader and harness together):

1. Rollouts are counted in the order in which they were started. A rollout in which any attempt failed counts as one failure,
   however often it was tried. One that is still running counts as clean until it ends.
2. The run stops when at least `FEWEST` (8) of the first rollouts have failed and they are more than 5 % of them; after the first
   `WINDOW` (400), when more than 5 % of any 400 rollouts started one after another have failed (21 or more).
3. The failures must be spread over tasks: over `FEWEST` tasks, or three quarters of the tasks started in that stretch if it has
   few (it counts as having four at the start and two later). So one broken task, or a few, never stop a run of many tasks. A
   run of a single task is judged by its rollouts alone.

Concurrency cannot cause a false stop: more knowledge only ever adds failures to the sequence, and the rule is monotone in them.
Its decision with rollouts in flight, in any order of ending, is the decision for the finished sequence.

By simulation over runs of 20,000 rollouts (`tests/unit/run/test_breaker.py` repeats a smaller one): with a failure rate of 1 %
fewer than 1 run in 1,000 is stopped, with 2 % about 1 in 20. With 8 % half of the runs stop within 125 rollouts and 99 in 100
within 320.
An environment that fails every time stops after 8 rollouts, one that breaks completely in the middle of a run after 21 (in a run
with groups, after failures in 8 tasks).

The model's side is counted by itself with a limit of its own, 12.5 %: endpoints are less reliable than environments.
A rollout that was graded although a part of the environment crashed (`core/crashes.py`) counts too, but only the first with that
crash among the rollouts of a task: an agent that repeats a call, or a single task, must not stop a run. A crash of what lives
inside the sandbox does not count at all: agents can kill their servers in as many tasks as they like.

Rollouts that an earlier start of the run has stored are not counted: a repaired environment can go on.
"""

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from sandlot.core.crashes import may_stop_runs
from sandlot.core.errors import ConfigError
from sandlot.core.stats.intervals import Interval, wilson
from sandlot.core.text import one_line
from sandlot.core.types import Side

_ENVIRONMENT_FAILURE_LIMIT = 0.05
MODEL_FAILURE_SHARE = 0.05
"""Share of rollouts that may fail on the model's side; the run stops at `_LIMIT_RATIO` times as much."""
_LIMIT_RATIO = 2.5
"""The limit divided by the tolerated share. It leaves room, so a run at the tolerated share is rarely stopped."""
FEWEST = 8
"""Failed rollouts, and tasks they are spread over, before a run is stopped."""
WINDOW = 400
"""Number of rollouts, in the order they were started, over which the share of failures is computed."""
_SPREAD = 0.75
"""Share of the tasks that must have failed, in a stretch with few tasks."""
LEAST_FIRST_TASKS, LEAST_TASKS = 4, 2
"""A stretch counts as having at least this many tasks (at the start of a run; later), if the run has that many."""
EXAMPLES = 3
MESSAGE_CHARS = 300


class FailureExample(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout that failed: where to look, and the error."""

    task: str
    rollout: int
    side: Side
    message: str
    graded: bool = False
    """True if it was graded although a part of the environment crashed."""


class Tripped(msgspec.Struct, frozen=True, kw_only=True):
    """Why the run was stopped."""

    side: Side
    """The most frequent side among the failures that stopped it."""
    failures: dict[str, int]
    """Failed rollouts by side, of the sides this limit is about."""
    rollouts: int
    """Rollouts started one after another that the failures are among; those still running are included."""
    rate: Interval
    """The share of these rollouts that failed, with Wilson's interval."""
    examples: tuple[FailureExample, ...]
    graded: int = 0
    """How many of them were graded although a part of the environment crashed."""

    def describe(self) -> str:
        """The reason in one sentence, with one of the errors."""
        sides = ", ".join(f"{count} {side}" for side, count in sorted(self.failures.items(), key=lambda item: -item[1]))
        failed, one = sum(self.failures.values()), self.examples[0]
        crashed = f"failed, or were graded after a crash ({self.graded}), on" if self.graded else "failed on"
        return (
            f"{failed} of {self.rollouts} rollouts {crashed} the {self.side} side ({sides}; "
            f"{self.rate.low:.0%} to {self.rate.high:.0%} at 95 %), such as `{one_line(one.task)}/{one.rollout}`: "
            f"{_beginning(one.message)}"
        )


class Breaker:
    """Call `begin` when a rollout is started and `end` when it has ended; trips at most once and stays tripped."""

    def __init__(self, *, num_tasks: int | None = None, model_failure_share: float = MODEL_FAILURE_SHARE) -> None:
        """`num_tasks`: tasks in the whole run; None if there are many, or it is not known."""
        if not 0 < model_failure_share < 1:
            raise ConfigError(f"model_failure_share is {model_failure_share}; give a number between 0 and 1, such as 0.05")
        model_limit = min(_LIMIT_RATIO * model_failure_share, (1 + model_failure_share) / 2)
        self._tests = {False: _Test(_ENVIRONMENT_FAILURE_LIMIT), True: _Test(model_limit)}  # by whether it is the model's side
        self._num_tasks = math.inf if num_tasks is None else num_tasks
        self._tasks: list[str] = []
        self._crashed: set[tuple[str, str]] = set()
        """Tasks with the crashes that they have been counted for."""
        self._tripped: Tripped | None = None

    @property
    def tripped(self) -> Tripped | None:
        """Why the run should stop; None while there is no reason."""
        return self._tripped

    def begin(self, task: str) -> int:
        """Note that a rollout of this task starts; returns its place in the order of starts, for `end`."""
        self._tasks.append(task)
        return len(self._tasks) - 1

    def end(
        self, place: int, rollout: int, failures: Mapping[Side, str], crashes: Mapping[str, str] = MappingProxyType({})
    ) -> Tripped | None:
        """Note how it ended: the sides on which an attempt failed, each with a message. Returns the reason to stop, if any.

        `crashes` did not decide how it ended; each has a signature and a message. Not needed for a cancelled rollout, which says
        nothing about either side.
        """
        task = self._tasks[place]
        found = [
            FailureExample(task=task, rollout=rollout, side=side, message=message[:MESSAGE_CHARS])
            for side, message in failures.items()
        ]
        for crash, message in crashes.items():
            if (task, crash) not in self._crashed and may_stop_runs(crash):
                self._crashed.add((task, crash))
                said = f"{crash}: {message}"[:MESSAGE_CHARS]
                found.append(FailureExample(task=task, rollout=rollout, side=Side.ENVIRONMENT, message=said, graded=True))
        for example in found:
            test = self._tests[example.side is Side.MODEL]
            if test.add(place, example) and self._tripped is None:
                self._tripped = self._reason(test, place)
        return self._tripped

    def _reason(self, test: "_Test", place: int) -> Tripped | None:
        """The first stretch of rollouts with this one in it that is over the limit; it may end at any later failure."""
        for start, stop in test.stretches(place):
            failed = [test.failed[each] for each in test.between(start, stop)]
            num_rollouts = stop - start
            if len(failed) < FEWEST or len(failed) <= test.limit * num_rollouts:
                continue
            num_tasks = max(len(set(self._tasks[start:stop])), min(self._num_tasks, LEAST_TASKS if start else LEAST_FIRST_TASKS))
            if len({example.task for example in failed}) >= min(FEWEST, math.ceil(_SPREAD * num_tasks)):
                return _tripped(failed, num_rollouts)
        return None


class _Test:
    """The failures of one side, by the place of their rollouts in the order of starts."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.failed: dict[int, FailureExample] = {}
        self._places: list[int] = []

    def add(self, place: int, example: FailureExample) -> bool:
        """Count a rollout as failed; False if it was already."""
        if place in self.failed:
            return False
        self.failed[place] = example
        insort(self._places, place)
        return True

    def between(self, start: int, stop: int) -> list[int]:
        """Places of failures from `start` up to `stop`."""
        return self._places[bisect_left(self._places, start) : bisect_left(self._places, stop)]

    def stretches(self, place: int) -> list[tuple[int, int]]:
        """Every stretch with `place` in it that ends with a failure: `WINDOW` rollouts, or fewer at the start of the run."""
        return [(max(0, last + 1 - WINDOW), last + 1) for last in self.between(place, place + WINDOW)]


def _beginning(message: str) -> str:
    """One line, without a word that was cut in two: redaction would not recognise half a secret."""
    said = one_line(message)
    return f"{said.rpartition(' ')[0]} ..." if len(message) >= MESSAGE_CHARS else said or "no message"


def _tripped(failed: list[FailureExample], num_rollouts: int) -> Tripped:
    sides = Counter(example.side for example in failed)
    ranked = [side for side, _ in sides.most_common()]
    examples = sorted(failed, key=lambda example: ranked.index(example.side))
    return Tripped(
        side=ranked[0],
        failures={side.value: sides[side] for side in ranked},
        rollouts=num_rollouts,
        rate=wilson(len(failed), num_rollouts),
        examples=tuple(examples[:EXAMPLES]),
        graded=sum(example.graded for example in failed),
    )
