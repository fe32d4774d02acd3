"""The records of rubrics and scores.

A rubric is JSON: a list of checks with points. A Python check names a function; a judge check has a prompt for the grader model.
The denominator of a score is the sum of the positive points and does not depend on the answer. If a check fails to run, the
rollout has no score.
"""

from enum import StrEnum
from typing import Any

import msgspec


class CheckBase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """The fields that all checks have."""

    id: str
    points: float = 1.0
    """Points earned if met; negative points are a penalty."""
    tags: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    """Checks that must be fully met; if one is not, this check is suppressed: it does not run and earns 0."""
    gate: bool = False
    """If not met, the whole score is 0."""
    seat: str = ""
    """Where several agents act: the seat whose score it counts for; empty for every seat's."""


class PythonCheck(CheckBase, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="python"):
    """A check by a Python function, `module:function`, called with the evidence, the task and `args`.

    ```python
    from sandlot import PythonCheck, Rubric

    written = PythonCheck(id="written", ref="sandlot:file_exists", args={"path": "/out/report.md"}, points=2)
    assert Rubric(checks=(written,)).checks[0].points == 2
    ```
    """

    ref: str
    args: dict[str, Any] = {}
    isolate: bool = False
    """Run in a child process that is killed at the deadline."""


class JudgeExample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An example for the judge: a view and its right verdict."""

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
    """The possible verdicts, worst to best. The value of a verdict is its rank."""
    view: tuple[str, ...] = ("answer",)
    """What the judge sees: `answer`, `state`, `transcript` or the path of a file; images: `image:PATH` for a file that is one,
    `last_image` for the last one that the agent saw."""
    votes: int = 1
    """How often the judge is asked; the lower median of the verdicts counts."""
    examples: tuple[JudgeExample, ...] = ()


LAST_IMAGE = "last_image"
IMAGE_VIEW = "image:"


def is_image_view(name: str) -> bool:
    """True if a part of a judge's view is an image: `image:/out/chart.png` or `last_image`."""
    return name == LAST_IMAGE or name.startswith(IMAGE_VIEW)


Check = PythonCheck | JudgeCheck


class CheckGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Checks whose points together count at most `cap`."""

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
    """The value of the score is clipped to this range; the points are not."""

    @property
    def needs_sight(self) -> bool:
        """True if any judge check shows images."""
        return any(is_image_view(name) for check in self.checks if isinstance(check, JudgeCheck) for name in check.view)

    @property
    def needs_judge(self) -> bool:
        """True if any check needs a grader model."""
        return any(isinstance(check, JudgeCheck) for check in self.checks)


class CheckVerdict(StrEnum):
    """The result of one check. There is none for an error, since an error leaves no score."""

    MET = "met"
    PARTLY = "partly"
    NOT_MET = "not_met"
    SUPPRESSED = "suppressed"  # did not run, because a required check was not met


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """One check's points and the evidence for them."""

    id: str
    verdict: CheckVerdict
    value: float
    """The share of the points that was earned, 0 to 1."""
    points: float
    """Points earned: `value` times what the check is worth."""
    worth: float
    evidence: str = ""
    tags: tuple[str, ...] = ()
    judge: "JudgeRecord | None" = None


class JudgeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How a judge was asked."""

    model: str
    prompt_digest: str
    verdicts: tuple[str, ...]
    """One per vote."""
    cached: bool = False


class RubricScore(msgspec.Struct, frozen=True, kw_only=True):
    """Points earned of points possible, such as `120/183`, with the result of every check."""

    points: float
    possible: float
    value: float
    """`points / possible`, clipped as the rubric says: the reward."""
    checks: tuple[CheckResult, ...] = ()
    gate: str | None = None
    """The gate that set the score to 0, if any."""

    @property
    def passed(self) -> bool:
        """True for full marks."""
        return self.value >= 1.0

    def by_tag(self) -> dict[str, tuple[float, float]]:
        """Points earned and possible, by tag."""
        sums: dict[str, tuple[float, float]] = {}
        for check in self.checks:
            for tag in check.tags:
                earned, possible = sums.get(tag, (0.0, 0.0))
                sums[tag] = (earned + check.points, possible + max(check.worth, 0.0))
        return sums

    def __str__(self) -> str:
        return f"{self.points:g}/{self.possible:g}"
