"""Inspect's scores as ours: every scorer is a check, and so is every key of a scorer that gives several values.

`C` is 1, `P` a half, `I` and `N` are 0, as in Inspect. A value that is no number, or is missing, leaves the rollout without a
score: Inspect would count some of them as 0. Inspect has no reward; ours is the mean of the checks.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

from sandlot.core.errors import ConfigError, GradeError
from sandlot.core.rubric import CheckResult, CheckVerdict, RubricScore
from sandlot.core.text import one_line
from sandlot.interop.gyms.source import ScoreRange
from sandlot.interop.inspect_ai.records import LogScore

_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_MOST_CHECKS = 1_000
_EVIDENCE_CHARS = 2_000
_ID_CHARS = 100


def rubric_score(scores: Mapping[str, LogScore], scale: ScoreRange | None) -> RubricScore:
    """The score of a sample; `GradeError` if a scorer gave no usable value.

    Without a `scale`, values are shares of full marks; `ConfigError` for one that is not between 0 and 1.
    """
    checks: list[CheckResult] = []
    for name, score in scores.items():
        for check, value in _values(name, score.value):
            if len(checks) >= _MOST_CHECKS:
                raise GradeError(f"there are more than {_MOST_CHECKS:,} values in its scores", kind="bad_value")
            checks.append(_check(check, _share(check, value, scale), score))
    if not checks:
        raise GradeError("it has no scores", kind="no_score")
    points = math.fsum(check.points for check in checks)
    return RubricScore(points=points, possible=float(len(checks)), value=points / len(checks), checks=tuple(checks))


def _values(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, each in cast("dict[str, Any]", value).items():
            yield f"{name}.{key}", each
    elif isinstance(value, list):
        for number, each in enumerate(cast("list[Any]", value)):
            yield f"{name}.{number}", each
    else:
        yield name, value


def _share(check: str, value: Any, scale: ScoreRange | None) -> float:
    shown = f"scorer `{one_line(check, _ID_CHARS)}`"
    if value is None:
        raise GradeError(f"{shown} gave no number", kind="no_score")
    number = score_number(value)
    if number is None:
        raise GradeError(f"{shown} gave {one_line(repr(value), _ID_CHARS)}, which is no number", kind="bad_value")
    if scale is not None:
        return scale.share(number)
    if not 0.0 <= number <= 1.0:
        # The values between 0 and 1 of this scorer are on its scale too: none of them could be taken as a share.
        raise ConfigError(
            f"{shown} gave {number:g}, which is no share of full marks: say what is worth nothing and what is full marks, "
            "`FILE?score=LOW..HIGH`, or take another scorer, `FILE?scorer=NAME`"
        )
    return number


def score_number(value: Any) -> float | None:
    """A value of a scorer as a number, as Inspect reads it; None if it is no number."""
    if isinstance(value, str):
        if value in _WORDS or value.lower() in _WORDS:
            return _WORDS.get(value, _WORDS.get(value.lower()))
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, bool | int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _check(name: str, share: float, score: LogScore) -> CheckResult:
    verdict = CheckVerdict.MET if share >= 1.0 else CheckVerdict.PARTLY if share > 0.0 else CheckVerdict.NOT_MET
    said = [f"answer: {score.answer}"] if score.answer else []
    said += [score.explanation] if score.explanation and score.explanation != score.answer else []
    evidence = "\n".join(said)[:_EVIDENCE_CHARS]
    return CheckResult(id=one_line(name, _ID_CHARS), verdict=verdict, value=share, points=share, worth=1.0, evidence=evidence)
