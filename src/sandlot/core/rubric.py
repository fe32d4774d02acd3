"""Rubrics and scores: what is asked, and what came out, as plain records.

A rubric is JSON: a list of checks with points. A deterministic check names a Python function; a judge check carries a prompt
for the grader model. The denominator is the sum of positive points and never depends on the answer. Every check yields points
and the evidence for them, or an error; an error anywhere leaves the rollout without a score.
"""

from enum import StrEnum
from typing import Any

import msgspec


class CheckBase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """What both kinds of check share."""

    id: str
    points: float = 1.0
    """Earned when met; negative for what should not be there."""
    tags: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    """Checks that must have been fully met; otherwise this one is suppressed, worth 0 and not asked."""
    gate: bool = False
    """If not met, the whole score is 0, and says so."""


class PythonCheck(CheckBase, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="python"):
    """A reference to a function, `module:function`, called with the evidence, the task and `args`."""

    ref: str
    args: dict[str, Any] = {}
    isolate: bool = False
    """Run in a child process that can be killed at its deadline."""


class JudgeExample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A view and the verdict a good judge gives for it."""

    view: str
    verdict: str


class JudgeCheck(CheckBase, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="judge"):
    """A check that a grader model decides: a question about named parts of the evidence.

    ```python
    from sandlot import JudgeCheck

    polite = JudgeCheck(id="polite", prompt="The reply is polite.", choices=("no", "partly", "yes"), points=2)
    assert polite.view == ("answer",)
    ```
    """

    prompt: str
    choices: tuple[str, ...] = ("no", "yes")
    """Worst to best; the value of a verdict is its rank."""
    view: tuple[str, ...] = ("answer",)
    """What the judge sees: `answer`, `state`, `transcript` or the path of a file."""
    votes: int = 1
    """How often the judge is asked; the lower median of the verdicts counts."""
    examples: tuple[JudgeExample, ...] = ()


Check = PythonCheck | JudgeCheck


class CheckGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Checks whose points together count for no more than `cap`."""

    id: str
    cap: float
    checks: tuple[str, ...]


class Rubric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A list of checks with points, as in a file `rubrics/NAME.json`.

    ```python
    from sandlot import JudgeCheck, Rubric

    rubric = Rubric(checks=(JudgeCheck(id="polite", prompt="The reply is polite."),))
    assert rubric.needs_judge
    ```
    """

    checks: tuple[Check, ...]
    format: int = 1
    groups: tuple[CheckGroup, ...] = ()
    clip: tuple[float, float] = (0.0, 1.0)
    """The score's value is clipped to this; the points are shown as earned."""

    @property
    def needs_judge(self) -> bool:
        """True if any check is put to a grader model."""
        return any(isinstance(check, JudgeCheck) for check in self.checks)


class CheckVerdict(StrEnum):
    """How one check came out. There is no word for an error: an error leaves no score at all."""

    MET = "met"
    PARTLY = "partly"
    NOT_MET = "not_met"
    SUPPRESSED = "suppressed"  # a required check was not met, so this one was not asked


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """One check's points and the evidence for them."""

    id: str
    verdict: CheckVerdict
    value: float
    """0 to 1: the share of its points that was earned."""
    points: float
    """Points earned: `value` times what the check is worth."""
    worth: float
    evidence: str = ""
    tags: tuple[str, ...] = ()
    judge: "JudgeRecord | None" = None


class JudgeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How a judge came to a verdict: enough to ask again."""

    model: str
    prompt_digest: str
    verdicts: tuple[str, ...]
    """One per vote."""
    cached: bool = False


class RubricScore(msgspec.Struct, frozen=True, kw_only=True):
    """`120/183`: points earned of points possible, with every check that led there."""

    points: float
    possible: float
    value: float
    """Points over possible, clipped as the rubric says: the reward."""
    checks: tuple[CheckResult, ...] = ()
    gate: str | None = None
    """The gate that was not met, if one zeroed the score."""

    @property
    def passed(self) -> bool:
        """Full marks."""
        return self.value >= 1.0

    def by_tag(self) -> dict[str, tuple[float, float]]:
        """Points earned and possible for each tag."""
        sums: dict[str, tuple[float, float]] = {}
        for check in self.checks:
            for tag in check.tags:
                earned, possible = sums.get(tag, (0.0, 0.0))
                sums[tag] = (earned + check.points, possible + max(check.worth, 0.0))
        return sums

    def __str__(self) -> str:
        return f"{self.points:g}/{self.possible:g}"
