"""Better work gets a better reward, unless rounding, clipping or saturation hides the difference.

A ladder leaves out more and more of several similar parts of the golden work. If each part may be missing alone but not all
together, full marks come before the work is done. If the points differ and the reward does not, it was clipped. A reward of only
0 or 1 may be intended and is not a flaw.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from sandlot.audit.case import Case, Probe, regrade_with_answer
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.probes.grader.asking import NONSENSE, SolvedTask, find_solved_tasks, find_targets, needs_golden
from sandlot.audit.probes.grader.fuzz import ODD_ANSWERS, random_answer
from sandlot.audit.probes.grader.rungs import Ladder, Rung, ladders
from sandlot.audit.probes.likeness import EPSILON
from sandlot.audit.reason import Reason, ReasonKind
from sandlot.audit.subject import Trial

_SIBLINGS = 3
"""Fewest parts that may each be missing; fewer may be chance."""


@dataclass(frozen=True, slots=True)
class _LadderResult:
    """A ladder with the trials of its rungs."""

    ladder: Ladder
    singles: list[tuple[Rung, Trial]]
    """One part left out."""
    steps: list[tuple[Rung, Trial]]
    """More and more parts left out; in the last, all of them."""


async def _look_at_ladders(case: Case) -> list[Finding]:
    """More of the work gets a higher reward."""
    some = [target for target in await find_solved_tasks(case, 6) if target.golden.passed]
    climbing = [ladder for target in some for ladder in ladders(target)[:2]]
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


def _full(trial: Trial, target: SolvedTask) -> bool:
    return trial.reward is not None and trial.reward >= target.best - EPSILON


def _saturated(climbed: _LadderResult) -> tuple[Rung, Trial] | None:
    """A rung with full marks although its missing parts matter: without all of them, marks are lost."""
    target = climbed.ladder.target
    spare = [rung for rung, trial in climbed.singles if _full(trial, target)]
    if len(spare) < _SIBLINGS or _full(climbed.steps[-1][1], target):
        return None
    # Parts that no check reads may all be missing at once; these may not.
    loose = frozenset(place for rung in spare for place in rung.without)
    deep = [(rung, trial) for rung, trial in (*climbed.singles, *climbed.steps) if rung.without <= loose]
    missed = [rung for rung, trial in deep if trial.reward is not None and not _full(trial, target)]
    full = [(rung, trial) for rung, trial in deep if _full(trial, target)]
    return max(full, key=lambda pair: len(pair[0].without)) if missed and full else None


def _clipped(climbed: _LadderResult) -> tuple[Rung, Trial] | None:
    """A rung whose points differ from its neighbours' while its reward does not."""
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
    """A rung with less of the work and a higher reward."""
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
        "work with parts missing gets full marks",
        "less than full marks",
    ),
    _clipped: (
        "D06.clipped",
        "work of different quality gets the same reward: the points differ and are clipped",
        "a different reward for different points",
    ),
    _inverted: ("D06.inverted", "more of the golden work earns less", "no more than for work with fewer parts missing"),
}


def _ladder_finding(kind: _Rule, hits: list[_LadderResult]) -> Finding:
    code, title, expected = _TITLES[kind]
    climbed = hits[0]
    shown = kind(climbed)
    assert shown is not None
    rung, trial = shown
    target = climbed.ladder.target
    witness = Witness(
        inputs={"task": target.task.id, "graded": f"the golden work, {rung.description}"}, expected=expected, observed=trial.fate
    )
    count = len({each.ladder.target.task.id for each in hits})
    sure = kind is not _inverted
    severity = Severity.HIGH if sure else Severity.LOW
    reason = _missing_parts(climbed, rung) if kind is _saturated else None
    return make_finding(code, title, witness, severity=severity, sure=sure, task=target.task.id, count=count, reason=reason)


def _missing_parts(climbed: _LadderResult, rung: Rung) -> Reason:
    why = f"it is the golden work, {rung.description}; without all of these parts marks are lost ({climbed.steps[-1][1].fate})"
    return Reason(kind=ReasonKind.LEAVES_OUT, why=why)


# -- range ---------------------------------------------------------------------------------------------------------------------


async def _look_at_range(case: Case) -> list[Finding]:
    """Rewards are within the declared range."""
    some = await find_targets(case, 8, answers=30)
    asked = await case.take(
        [regrade_with_answer(target.golden, answer) for target in some for answer in _extreme_answers(case, target)]
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
    title = f"the grader returns {worst.unclipped:g} where its range ends at {0 if worst.unclipped < 0 else 1}"
    witness = Witness(
        inputs={"task": worst.trace.task, "answer": worst.trace.answer[:2000]},
        expected="a number within the declared range (0 to 1, or `range` if declared)",
        observed=worst.fate,
    )
    count = len({trial.trace.task for trial in outside if trial.trace})
    fix = "return rewards within the range, or declare it: `range = [low, high]`"
    return [make_finding("D06.range", title, witness, task=worst.trace.task, count=count, fix=fix)]


def _extreme_answers(case: Case, target: SolvedTask) -> list[str]:
    """Right, wrong, empty, odd, repeated and very long answers."""
    rng = Random(f"{case.seed} {target.task.id}")  # noqa: S311 - seeded, not secret
    right = target.answer
    long = [
        f"{right} " * 200,
        f"{right}\n" * 20,
        f"{NONSENSE} " * 500,
        "<answer>" * 300,
        "\\boxed{1} " * 300,
        f"{target.prompt} {right}",
    ]
    numbers = ["0", "1", "-1", "1000000", "-1000000", "1e12", "0.0001", "999999999999"]
    return [right, NONSENSE, "", *numbers, *long, *(random_answer(rng, [right]) for _ in range(8)), *rng.sample(ODD_ANSWERS, 12)]


def _graders_only(case: Case) -> str | None:
    return None if case.description.kind == "grader" else "rubric scores are always within range"


PROBES = (
    Probe("ladder", Layer.GRADER, ("D06",), _look_at_ladders, needs_golden),
    Probe("reward-range", Layer.GRADER, ("D06",), _look_at_range, _graders_only, without_golden=True),
)
