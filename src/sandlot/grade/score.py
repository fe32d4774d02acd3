"""Adding up the results of checks to a score: the only place where points become a reward.

    points   = points earned, at most `cap` per group, minus penalties
    possible = positive points, at most `cap` per group
    value    = points / possible, clipped as the rubric says; at most 0 if a gate was not met

The sums are exact (`math.fsum`), so full marks are exactly 1.0 and the order of addition does not matter.
"""

import math
from collections.abc import Mapping

from sandlot.core.errors import GradeError
from sandlot.core.rubric import CheckResult, CheckVerdict, Rubric, RubricScore
from sandlot.grade.rules import MAX_POINTS, PENALTY_PREFIX, possible_points


def score_of(rubric: Rubric, results: Mapping[str, CheckResult], penalties: Mapping[str, float] | None = None) -> RubricScore:
    """The score of a valid rubric, from the result of every check. `penalties` are points lost, by constraint."""
    lost = [_penalty(name, points) for name, points in sorted((penalties or {}).items())]
    earned = {check.id: results[check.id].points for check in rubric.checks}
    grouped = {name for group in rubric.groups for name in group.checks}
    points = math.fsum(
        [
            *(min(group.cap, math.fsum(earned[name] for name in group.checks)) for group in rubric.groups),
            *(value for name, value in earned.items() if name not in grouped),
            *(result.points for result in lost),
        ]
    )
    possible = possible_points(rubric)
    low, high = rubric.clip
    value = min(max(points / possible, low), high)
    gate = next((check.id for check in rubric.checks if check.gate and results[check.id].value < 1.0), None)
    if gate is not None:
        points, value = min(points, 0.0), min(value, 0.0)  # a gate that is not met gives 0, and keeps a negative score
    checks = (*(results[check.id] for check in rubric.checks), *lost)
    return RubricScore(points=points, possible=possible, value=value, checks=checks, gate=gate)


def verdict_of(value: float) -> CheckVerdict:
    """The verdict for a value from 0 to 1."""
    return CheckVerdict.MET if value >= 1.0 else CheckVerdict.NOT_MET if value <= 0.0 else CheckVerdict.PARTLY


def _penalty(name: str, points: float) -> CheckResult:
    if not 0 <= points <= MAX_POINTS:
        raise GradeError(f"constraint `{name}` has a penalty of {points} points; give 0 to {MAX_POINTS:g}")
    return CheckResult(
        id=f"{PENALTY_PREFIX}{name}",
        verdict=CheckVerdict.MET,
        value=1.0,
        points=0.0 - points,
        worth=0.0 - points,
        evidence=f"constraint `{name}` was broken",
        tags=("constraint",),
    )
