"""The result of a calibration: the placement of every task, the error rates, and the cost of training on the tasks.

It holds only for the model, sampling, harness and fingerprints that it was measured with.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean

import msgspec

from sandlot.calibrate.tasks.placement import Placement, TaskLabel, placements
from sandlot.calibrate.tasks.prior import PRIOR, family_of_all
from sandlot.calibrate.tasks.rates import GRID, Fixed, Rates, error_of_fixed, fixed_with_same_error, rates_at, rates_over
from sandlot.calibrate.tasks.rule import Belief, Rule
from sandlot.calibrate.tasks.state import CalibrationState
from sandlot.core.ports.model import Sampling
from sandlot.core.stats.intervals import Interval, wilson
from sandlot.core.trace_row import TraceRow
from sandlot.run.curriculum import FORMAT as CURRICULUM_FORMAT
from sandlot.run.curriculum import Curriculum, CurriculumTask
from sandlot.run.manifest import Fingerprints, Manifest
from sandlot.wiring.config import AgentConfig

_FORMAT = 1
FILE = "calibration.json"
CURRICULUM_FILE = "curriculum.json"
BINS = 10


class FamilyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A family of tasks and the distribution of their pass rates."""

    tasks: int
    mean: float
    std: float
    a: float
    b: float
    """Beta(a, b), fitted to all its tasks. Each task is placed with a more cautious prior from the others."""


class Errors(msgspec.Struct, frozen=True, kw_only=True):
    """Exact error rates of the rule, and what it saves."""

    grid: tuple[Rates, ...]
    """For tasks of a known true pass rate, averaged over the families' priors."""
    expected: Rates
    """For tasks drawn from the families that were found."""
    fixed: Fixed | None
    """The fixed number of rollouts per task with the same error rate; None if it would be too large to search."""


class GroupCost(msgspec.Struct, frozen=True, kw_only=True):
    """Mean cost of one group of rollouts of the curriculum's tasks, or of all tasks if it has none."""

    prompt_tokens: float
    completion_tokens: float
    usd: float
    seconds: float
    """Seconds of rollouts, one after the other: divide by the number that run at once."""


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of the calibration itself."""

    rollouts: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    usd: float
    seconds: float


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """`calibration.json` of a run directory."""

    format: int
    run: str
    verdict: str
    """`complete`, `incomplete`, or `stopped` if the run was judged bad."""
    stopped: str | None
    """Why it ended early; None if it did not."""
    environment: str
    model: str
    sampling: Sampling
    agent: AgentConfig
    fingerprints: Fingerprints
    created: float
    rule: Rule
    budget: int | None
    group: int
    placements: tuple[Placement, ...]
    families: dict[str, FamilyRecord]
    errors: Errors
    informative: float
    """Expected share of groups of `group` rollouts with both passes and failures, over all tasks."""
    informative_curriculum: float | None
    """The same over the curriculum's tasks; None if it has none."""
    spent: Spent
    group_cost: GroupCost | None
    """None if no rollout was taken."""

    def labelled(self, label: TaskLabel) -> list[Placement]:
        """The tasks with one label."""
        return [each for each in self.placements if each.label is label]

    @property
    def shares(self) -> dict[TaskLabel, Interval]:
        """Share of tasks with each label, with Wilson's interval: the tasks are a sample of possible tasks."""
        counts = Counter(each.label for each in self.placements)
        return {label: wilson(counts[label], len(self.placements)) for label in TaskLabel}

    @property
    def histogram(self) -> tuple[int, ...]:
        """Number of tasks by expected true pass rate, in equal bins from 0 to 1, without those never scored."""
        scored = [each for each in self.placements if each.scored]
        bins = Counter(min(BINS - 1, int(each.true_rate * BINS)) for each in scored)
        return tuple(bins[number] for number in range(BINS))

    @property
    def curriculum(self) -> Curriculum:
        """The tasks to train on: those in the band first, then those most likely in it."""
        chosen = sorted((each for each in self.placements if each.teaches), key=lambda each: each.label is not TaskLabel.IN_BAND)
        return Curriculum(
            format=CURRICULUM_FORMAT,
            environment=self.environment,
            fingerprint=self.fingerprints.environment,
            setting=self.fingerprints.setting,
            model=self.model,
            sampling=self.sampling,
            band=(self.rule.low, self.rule.high),
            created=self.created,
            tasks=tuple(
                CurriculumTask(task=each.task, rate=round(each.true_rate, 4), sure=each.label is TaskLabel.IN_BAND)
                for each in chosen
            ),
        )


def summarise(
    standing: CalibrationState,
    rows: Sequence[TraceRow],
    manifest: Manifest,
    *,
    verdict: str,
    stopped: str | None,
    budget: int | None,
    group: int,
) -> Calibration:
    """The result for the rollouts so far."""
    found = placements(standing, group=group)
    families = families_of(standing)
    teaching = {each.task for each in found if each.teaches}
    return Calibration(
        format=_FORMAT,
        run=manifest.run,
        verdict=verdict,
        stopped=stopped,
        environment=manifest.environment,
        model=manifest.config.model.spec,
        sampling=manifest.config.model.sampling,
        agent=manifest.config.agent,
        fingerprints=manifest.fingerprints,
        created=manifest.created,
        rule=standing.rule,
        budget=budget,
        group=group,
        placements=found,
        families={
            name: FamilyRecord(
                tasks=each.tasks, mean=each.truth.mean, std=each.truth.variance**0.5, a=each.truth.a, b=each.truth.b
            )
            for name, each in families.items()
        },
        errors=errors_of(standing.rule, families.values()),
        informative=fmean(each.informative for each in found),
        informative_curriculum=fmean(each.informative for each in found if each.teaches) if teaching else None,
        spent=_spent(rows),
        group_cost=_group_cost([row for row in rows if row.task in teaching] or rows, group),
    )


@dataclass(frozen=True, slots=True)
class Known:
    """A family: the prior its tasks are placed with, its fitted distribution, and the number of tasks."""

    prior: Belief
    truth: Belief
    tasks: int


def errors_of(rule: Rule, families: Collection[Known]) -> Errors:
    """Error rates of the rule for tasks of these families."""
    whole = sum(each.tasks for each in families)
    expected = _mean([(rates_over(rule, each.prior, each.truth), each.tasks) for each in families])

    def error_at(scored: int) -> float:
        return sum(error_of_fixed(rule, each.prior, each.truth, scored) * each.tasks for each in families) / whole

    return Errors(
        grid=tuple(_mean([(rates_at(rule, each.prior, rate), each.tasks) for each in families]) for rate in GRID),
        expected=expected,
        fixed=fixed_with_same_error(error_at, error=expected.error, least=rule.start),
    )


def _mean(weighed: Sequence[tuple[Rates, int]]) -> Rates:
    whole = sum(number for _, number in weighed)
    names = ("below", "inside", "above", "borderline", "wrong", "error", "rollouts")
    means = {name: sum(getattr(rates, name) * number for rates, number in weighed) / whole for name in names}
    return Rates(rate=weighed[0][0].rate, **means)


def families_of(standing: CalibrationState) -> dict[str, Known]:
    """Each family, fitted to its tasks."""
    counts = standing.counts
    found: dict[str, Known] = {}
    for name in dict.fromkeys(standing.families.values()):
        seen = {task: (counts[task].passed, counts[task].scored) for task, family in standing.families.items() if family == name}
        found[name] = Known(family_of_all(seen, PRIOR), family_of_all(seen), len(seen))
    return found


def _spent(rows: Sequence[TraceRow]) -> Spent:
    return Spent(
        rollouts=len(rows),
        failed=sum(row.score is None for row in rows),
        prompt_tokens=sum(row.prompt_tokens for row in rows),
        completion_tokens=sum(row.completion_tokens for row in rows),
        usd=sum(row.usd for row in rows),
        seconds=sum(row.seconds for row in rows),
    )


def _group_cost(rows: Sequence[TraceRow], group: int) -> GroupCost | None:
    if not rows:
        return None
    spent = _spent(rows)
    each = group / spent.rollouts
    return GroupCost(
        prompt_tokens=spent.prompt_tokens * each,
        completion_tokens=spent.completion_tokens * each,
        usd=spent.usd * each,
        seconds=spent.seconds * each,
    )
