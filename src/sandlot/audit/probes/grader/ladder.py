"""Better work gets a better reward: what rounding, clipping and saturation take away.

A ladder leaves out siblings of what the golden solution did. If each may be missing alone and all together may not, the reward
is full before the work is. If points differ and the reward does not, it was clipped. A reward of 0 or 1 and nothing between is a
rule an author may want, and no flaw.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from sandlot.audit.case import Case, Probe, regrade_with_answer
from sandlot.audit.finding import Confidence, Finding, Layer, Severity, Witness
from sandlot.audit.probes.grader.asking import EPSILON, NONSENSE, SolvedTask, find_solved_tasks, needs_golden
from sandlot.audit.probes.grader.rungs import Ladder, Rung, ladders
from sandlot.audit.subject import Trial

_SIBLINGS = 3
"""Alike parts that may each be missing, before it is no coincidence."""


@dataclass(frozen=True, slots=True)
class _LadderResult:
    """A ladder, and what came of its rungs."""

    ladder: Ladder
    singles: list[tuple[Rung, Trial]]
    """One part left out each."""
    steps: list[tuple[Rung, Trial]]
    """More and more left out; the last has nothing left."""


async def _look_at_ladders(case: Case) -> list[Finding]:
    """Climb every ladder of some tasks."""
    some = [field for field in await find_solved_tasks(case, 6) if field.golden.passed]
    climbing = [ladder for field in some for ladder in ladders(field)[:2]]
    rng = Random(case.seed)  # noqa: S311 - seeded, not secret
    plans = [(ladder, *_rungs(ladder, rng)) for ladder in climbing]
    trials = iter(await case.take([rung.request for _, singles, steps in plans for rung in (*singles, *steps)]))
    climbed = [
        _LadderResult(ladder, [(rung, next(trials)) for rung in singles], [(rung, next(trials)) for rung in steps])
        for ladder, singles, steps in plans
    ]
    rules = (_saturated, _clipped, _inverted)
    return [_ladder_finding(rule, hits) for rule in rules if (hits := [each for each in climbed if rule(each)])]


def _rungs(ladder: Ladder, rng: Random) -> tuple[list[Rung], list[Rung]]:
    order = rng.sample(range(len(ladder.names)), len(ladder.names))
    singles = [ladder.without({place}) for place in order]
    return singles, [ladder.without(order[:count]) for count in range(2, len(order) + 1)]


def _full(trial: Trial, field: SolvedTask) -> bool:
    return trial.reward is not None and trial.reward >= field.best - EPSILON


def _saturated(climbed: _LadderResult) -> tuple[Rung, Trial] | None:
    """A rung with full marks, though the parts left out matter: together they are missed."""
    field = climbed.ladder.field
    spare = [rung for rung, trial in climbed.singles if _full(trial, field)]
    if len(spare) < _SIBLINGS or _full(climbed.steps[-1][1], field):
        return None
    # Parts nobody looks at may be left out all at once; these may not.
    loose = frozenset(place for rung in spare for place in rung.without)
    deep = [(rung, trial) for rung, trial in (*climbed.singles, *climbed.steps) if rung.without <= loose]
    missed = [rung for rung, trial in deep if trial.reward is not None and not _full(trial, field)]
    full = [(rung, trial) for rung, trial in deep if _full(trial, field)]
    return max(full, key=lambda pair: len(pair[0].without)) if missed and full else None


def _clipped(climbed: _LadderResult) -> tuple[Rung, Trial] | None:
    """A rung whose points differ from its neighbours', and whose reward does not."""
    scores = [trial.score for _, trial in (climbed.singles[0], *climbed.steps) if trial.score is not None]
    points, values = {round(score.points, 9) for score in scores}, {round(score.value, 9) for score in scores}
    if len(points) < _SIBLINGS or len(values) > len(points) / 2:
        return None
    cut = [(rung, trial) for rung, trial in climbed.steps if trial.score is not None and _is_clipped(trial)]
    return cut[0] if len(cut) >= _SIBLINGS else None


def _is_clipped(trial: Trial) -> bool:
    score = trial.score
    return score is not None and score.gate is None and abs(score.points / max(score.possible, EPSILON) - score.value) > 1e-6


def _inverted(climbed: _LadderResult) -> tuple[Rung, Trial] | None:
    """A rung that leaves out more and earns more."""
    before = None
    for rung, trial in (climbed.singles[0], *climbed.steps):
        if trial.reward is None:
            continue
        if before is not None and trial.reward > before + 0.01:
            return rung, trial
        before = trial.reward
    return None


_Rule = Callable[[_LadderResult], tuple[Rung, Trial] | None]
_TITLES: dict[_Rule, tuple[str, str, str]] = {
    _saturated: (
        "D06.saturated",
        "full marks before the work is done: parts that matter together may be missing",
        "less than full marks",
    ),
    _clipped: (
        "D06.clipped",
        "work of different quality gets the same reward: the points differ, and are clipped",
        "a reward of its own",
    ),
    _inverted: ("D06.inverted", "doing more of the golden work earns less", "no more than work that lacks less"),
}


def _ladder_finding(kind: _Rule, hits: list[_LadderResult]) -> Finding:
    code, title, expected = _TITLES[kind]
    climbed = hits[0]
    shown = kind(climbed)
    assert shown is not None
    rung, trial = shown
    sure = kind is not _inverted
    return Finding(
        code=code,
        title=title,
        layer=Layer.GRADER,
        probe="ladder",
        severity=Severity.HIGH if sure else Severity.LOW,
        standing=Confidence.CONFIRMED if sure else Confidence.LEAD,
        task=climbed.ladder.field.task.id,
        count=len({each.ladder.field.task.id for each in hits}),
        witness=Witness(
            inputs={"task": climbed.ladder.field.task.id, "graded": f"the golden work, {rung.told}"},
            expected=expected,
            observed=trial.fate,
        ),
    )


# -- range ---------------------------------------------------------------------------------------------------------------------


async def _look_at_range(case: Case) -> list[Finding]:
    """Rewards are finite and within the range that was said."""
    some = await find_solved_tasks(case, 8)
    asked = await case.take(
        [regrade_with_answer(field.golden, answer) for field in some for answer in (field.answer, NONSENSE, "", "0")]
    )
    outside = [
        trial
        for trial in (*(await case.golden()).values(), *(await case.idle()).values(), *asked)
        if trial.score is not None
        and not trial.score.checks
        and not -1e-6 <= trial.score.points / trial.score.possible <= 1 + 1e-6
    ]
    if not outside:
        return []
    worst = max(outside, key=lambda trial: abs(trial.score.points) if trial.score else 0.0)
    assert worst.trace is not None
    return [
        Finding(
            code="D06.range",
            title=f"the grader returns rewards outside of its range ({worst.score})",
            layer=Layer.GRADER,
            probe="reward-range",
            severity=Severity.HIGH,
            standing=Confidence.CONFIRMED,
            task=worst.trace.task,
            count=len({trial.trace.task for trial in outside if trial.trace}),
            witness=Witness(
                inputs={"task": worst.trace.task, "answer": worst.trace.answer[:2000]},
                expected="a number within the declared range (0 to 1 unless `range` says otherwise)",
                observed=worst.fate,
            ),
            fix="return rewards within the range, or declare it: `range = [low, high]`",
        )
    ]


def _graders_only(case: Case) -> str | None:
    return None if case.description.kind == "grader" else "a rubric's score is in its range by construction"


PROBES = (
    Probe("ladder", Layer.GRADER, ("D06",), _look_at_ladders, needs_golden),
    Probe("reward-range", Layer.GRADER, ("D06",), _look_at_range, _graders_only),
)
