"""How answers are compared: the same value spelled otherwise is as good, and what is only near is not.

Spellings count against a grader only where the prompt allows them. A prompt that fixes the form ("the number alone", an example
in backticks) makes other forms the agent's mistake; a prompt that names two forms makes either as good as the other.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity
from sandlot.audit.probes.grader.asking import (
    EPSILON,
    NONSENSE,
    GradedAnswer,
    Question,
    SolvedTask,
    answer_finding,
    ask,
    find_solved_tasks,
    keep_reproducible,
    needs_golden,
    normalized,
)
from sandlot.audit.probes.grader.spelling import IN_REVERSE, Spelling, near_misses, same_value
from sandlot.core.stats.intervals import wilson

_STRICT = re.compile(
    r"(?i)\b(?:alone|only|exactly|exact|nothing else|format|formatted|in the form|precisely|verbatim|strictly|without|do not|"
    r"don't|no (?:other|extra|additional)|such as|for example|e\.g|example|must be|should be|"
    r"as an? (?:integer|number|string|list|decimal)|"
    r"rounded|decimal places|as follows|separated|tags?|json|return)\b|[`<>]|\\boxed"
)
_ROUGH = re.compile(
    r"(?i)\b(?:about|approx\w*|around|rough\w*|estimat\w*|guess\w*|within|toleranc\w*|nearest|plus or minus|order of)\b|±"
)
"""Prompts that do not want an exact number."""
_ORDERED = re.compile(
    r"(?i)\b(?:sort\w*|ascending|descending|alphabetical\w*|rank|chronological\w*|arrange|(?:in|the|this|right|correct) order)\b"
)
"""Prompts that want things one after the other."""
_ANY_ORDER = re.compile(r"(?i)\b(?:any|no particular|whatever|either) order\b|\border (?:does not|doesn't) matter")
_FORMS = {"a fraction": re.compile(r"(?i)\bfractions?\b"), "a decimal number": re.compile(r"(?i)\bdecimal")}
"""Spellings that a prompt may offer by name."""
_GATE = 0.05
_OTHER = "another task's answer"


async def _look_at_spellings(case: Case) -> list[Finding]:
    """The same value in another spelling gets the same score."""
    some = [field for field in await find_solved_tasks(case, 24) if field.golden.passed]
    questions = [
        Question(field, other.kind, other.text, solved=True)
        for field in some
        for other in same_value(field.answer)
        if other.text != field.answer
        and (other.kind not in _FORMS or _offers_every_form(f"{case.description.system}\n{field.prompt}"))
    ]
    grave = {other.kind for field in some for other in same_value(field.answer) if other.strong}
    whatever = {other.kind for field in some for other in same_value(field.answer) if other.whatever}
    told, read = await _ask_with_control(case, some, questions)
    kinds: dict[str, list[GradedAnswer]] = defaultdict(list)
    for one in told:
        if one.question.field.task.id in read:
            kinds[one.question.kind].append(one)
    refused = [each for kind, each_told in kinds.items() if (each := _refused(case, kind, each_told, whatever)) is not None]
    groups = ((True, True), (True, False), (False, True), (False, False))
    sorts = [[each for each in refused if (each.sure, each.offered) == group] for group in groups]
    return [_spelling_finding(each, grave) for each in sorts if each]


@dataclass(frozen=True, slots=True)
class _Refused:
    """One other spelling that loses."""

    kind: str
    told: list[GradedAnswer]
    share: str
    sure: bool
    offered: bool


def _refused(case: Case, kind: str, each: list[GradedAnswer], whatever: Collection[str]) -> _Refused | None:
    lost = [one for one in each if one.reward is not None and not _full(one)]
    if not lost:
        return None
    rate = wilson(len(lost), len(each))
    offered = kind in _FORMS
    loose = kind in whatever or all(not _STRICT.search(_instructions_of(case, one)) for one in lost)
    sure = (offered or loose) and rate.low > _GATE and len(lost) >= 2
    return _Refused(kind, lost, f"{len(lost)} of {len(each)}", sure, offered)


def _spelling_finding(refused: list[_Refused], grave: Collection[str]) -> Finding:
    """One finding for all spellings a grader refuses: the cause is one, it compares texts."""
    first = refused[0]
    kinds = ", ".join(f"{each.kind} ({each.share} tasks)" for each in refused)
    title = f"correct answers in another format lose points: with {kinds}"
    if first.offered:
        title = f"the prompt allows another format, but the grader gives it a lower score: {kinds}"
    serious = first.sure and any(each.kind in grave or each.offered for each in refused)
    told = [one for each in refused if not serious or each.kind in grave or each.offered for one in each.told]
    return answer_finding(
        "D15.form" if first.offered else "D22.spelling",
        title,
        "spellings",
        told,
        expected="the score of the golden answer: both mean the same",
        severity=Severity.HIGH if serious else Severity.LOW,
        sure=first.sure,
        fix="compare values, not texts; or say in the prompt which form counts",
    )


async def _look_at_near_misses(case: Case) -> list[Finding]:
    """What is near the golden answer, and wrong, does not get full marks."""
    some = [field for field in await find_solved_tasks(case, 24) if field.golden.passed]
    questions = [Question(field, other.kind, other.text, solved=True) for field in some for other in near_misses(field.answer)]
    strong = {
        (field.task.id, other.text): _is_strong(case, field, other) for field in some for other in near_misses(field.answer)
    }
    questions += [
        Question(field, _OTHER, other, solved=True) for place, field in enumerate(some) for other in _others(field, some, place)
    ]
    told, read = await _ask_with_control(case, some, questions)
    kinds: dict[str, list[GradedAnswer]] = defaultdict(list)
    for one in told:
        if one.question.field.task.id in read and normalized(one.question.answer) != normalized(one.question.field.answer):
            kinds[one.question.kind].append(one)
    accepted = [
        each
        for kind, asked in kinds.items()
        if (
            each := _accepted(
                kind, await keep_reproducible(case, [one for one in asked if _full(one)]), len(asked), len(some), strong
            )
        )
    ]
    groups = ((True, True), (True, False), (False, True), (False, False))
    sorts = [[each for each in accepted if (each.sure, each.kind == _OTHER) == group] for group in groups]
    return [_near_miss_finding(each) for each in sorts if each]


def _is_strong(case: Case, field: SolvedTask, other: Spelling) -> bool:
    """True if the other one is wrong beyond doubt, by what it is and by what was asked."""
    told = _instructions(case, field)
    if other.kind == IN_REVERSE:
        given = all(part in field.prompt for part in re.split(r"[,;\s]+", field.answer.strip("[](){} ")))
        return given and bool(_ORDERED.search(told)) and not _ANY_ORDER.search(told)
    return other.strong and not (other.kind == "a fifth more" and _ROUGH.search(told))


@dataclass(frozen=True, slots=True)
class _Accepted:
    """One kind of wrong answer that passes."""

    kind: str
    told: list[GradedAnswer]
    share: str
    sure: bool


def _accepted(
    kind: str, passed: list[GradedAnswer], num: int, everyone: int, strong: dict[tuple[str, str], bool]
) -> _Accepted | None:
    if not passed:
        return None
    rate = wilson(len(passed), num)
    tasks = len({one.question.field.task.id for one in passed})
    clear = all(strong.get((one.question.field.task.id, one.question.answer), True) for one in passed)
    often = kind == _OTHER or len(passed) / num >= 0.5
    sure = clear and often and rate.low > _GATE and tasks >= min(3, everyone)
    return _Accepted(kind, passed, f"{len(passed)} of {num}, {rate.low:.0%}-{rate.high:.0%}", sure)


def _near_miss_finding(accepted: list[_Accepted]) -> Finding:
    """One finding for all near misses that pass: the cause is one, how answers are compared."""
    first = accepted[0]
    kinds = ", ".join(f"{each.kind} ({each.share})" for each in accepted)
    return answer_finding(
        "D22.collision" if first.kind == _OTHER else "D22.near",
        f"a wrong answer passes: {kinds}",
        "near-misses",
        [one for each in accepted for one in each.told],
        expected="less than the score of the golden answer: it means something else",
        severity=Severity.HIGH if first.sure else Severity.LOW,
        sure=first.sure,
    )


async def _ask_with_control(
    case: Case, some: Sequence[SolvedTask], questions: Sequence[Question]
) -> tuple[list[GradedAnswer], set[str]]:
    """The answers, and the tasks whose answer is read at all: where nonsense is as good as golden, it is not."""
    control = [Question(field, "control", NONSENSE, solved=True) for field in some]
    told = await ask(case, [*control, *questions])
    read = {one.question.field.task.id for one in told[: len(control)] if not _full(one)}
    return told[len(control) :], read


def _full(one: GradedAnswer) -> bool:
    return one.reward is not None and one.reward >= one.question.field.best - EPSILON


def _others(field: SolvedTask, some: Sequence[SolvedTask], place: int) -> list[str]:
    """Golden answers of other tasks, where they say something else: those that are easily taken for it, then the next ones."""
    following = [*some[place + 1 :], *some[:place]]
    others = [other.answer for other in following if normalized(other.answer) != normalized(field.answer)]
    return sorted(dict.fromkeys(others), key=lambda other: not _alike(normalized(field.answer), normalized(other)))[:3]


def _alike(one: str, other: str) -> bool:
    """True if one begins with, holds or is made of the same signs as the other."""
    return one in other or other in one or set(one) == set(other)


def _instructions_of(case: Case, one: GradedAnswer) -> str:
    return _instructions(case, one.question.field)


def _instructions(case: Case, field: SolvedTask) -> str:
    return f"{case.description.system}\n{field.prompt}"


def _offers_every_form(prompt: str) -> bool:
    """True if the prompt names every form: then any of them is right."""
    return all(form.search(prompt) for form in _FORMS.values())


PROBES = (
    Probe("spellings", Layer.GRADER, ("D22", "D15"), _look_at_spellings, needs_golden),
    Probe("near-misses", Layer.GRADER, ("D22",), _look_at_near_misses, needs_golden),
)
