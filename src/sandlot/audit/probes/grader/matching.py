"""How answers are compared: the same value in another format gets the same score, and a wrong value does not.

Formats count against a grader only where the prompt allows them. If the prompt fixes the format ("the number alone", an example
in backticks), another format is the agent's mistake. If the prompt names two formats, both are right.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity
from sandlot.audit.probes.grader.asking import (
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
from sandlot.audit.probes.grader.expressions import OTHER_BRACKET
from sandlot.audit.probes.grader.forms import value_of
from sandlot.audit.probes.grader.meanings import other_meaning, same_meaning
from sandlot.audit.probes.grader.quantities import NO_POINT, POINT_AND_STOP
from sandlot.audit.probes.grader.spelling import IN_REVERSE, OTHER_SIGN, Spelling
from sandlot.audit.probes.likeness import EPSILON
from sandlot.audit.reason import Reason, ReasonKind, difference
from sandlot.audit.statement import leaves_out, shorten
from sandlot.core.groups import group_by_key
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
"""Words of prompts that accept an approximate number."""
_ORDERED = re.compile(
    r"(?i)\b(?:sort\w*|ascending|descending|alphabetical\w*|rank|chronological\w*|arrange|(?:in|the|this|right|correct) order)\b"
)
"""Words of prompts that ask for an order."""
_ANY_ORDER = re.compile(r"(?i)\b(?:any|no particular|whatever|either) order\b|\border (?:does not|doesn't) matter")
_FORMS = {"a fraction": re.compile(r"(?i)\bfractions?\b"), "a decimal number": re.compile(r"(?i)\bdecimal")}
"""Formats that a prompt may name."""
_SPACES = frozenset(
    {
        *("space around it", "an empty line before it", "space between elements", "space after commas", "no space after commas"),
        *("space inside brackets", "two spaces between cells", "space at the ends of lines", "other space in a formula"),
    }
)
"""Kinds that no prompt speaks of unless it means them: even a strict format does not forbid them."""
_LETTERS = frozenset({"upper case", "lower case", "a capital at its beginning"})
_CASE_MATTERS = re.compile(r"(?i)\b(?:case|capital\w*|exact\w*|verbatim|upper\w*|lower\w*|letter by letter)\b")
_GATE = 0.05
_OTHER = "another task's answer"


async def _look_at_spellings(case: Case) -> list[Finding]:
    """The same value in another format gets the same score."""
    some = [target for target in await find_solved_tasks(case, 24, answers=8) if target.golden.passed]
    same = [(target, other) for target in some for other in same_meaning(target.answer, _instructions(case, target))]
    questions = [
        Question(target, other.kind, other.text, solved=True)
        for target, other in same
        if other.kind not in _FORMS or _offers_every_form(_instructions(case, target))
    ]
    grave = {other.kind for _, other in same if other.strong}
    any_format = {other.kind for _, other in same if other.any_format}
    doubtful = {other.kind for _, other in same if other.doubtful}
    kinds = await _ask_by_kind(case, some, questions)
    refused = [
        each for kind, answers in kinds.items() if (each := _refused(case, kind, answers, any_format, doubtful)) is not None
    ]
    return [_spelling_finding(each, grave) for each in _by_cause(refused)]


@dataclass(frozen=True, slots=True)
class _Misgraded:
    """One kind of answer that gets a wrong score: another format that loses points, or a near miss that gets full marks."""

    kind: str
    answers: list[GradedAnswer]
    share: str
    sure: bool
    minor: bool
    """True if the prompt asks for a strict format that says nothing about this: the answer is right, and easily avoided."""
    special: bool
    """True for a format that the prompt offers, and for another task's answer: these have a finding of their own."""


def _by_cause(misgraded: Sequence[_Misgraded]) -> list[list[_Misgraded]]:
    """Those that share a finding; sure ones and special ones first."""
    groups = ((True, True), (True, False), (False, True), (False, False))
    sorts = [[each for each in misgraded if (each.sure, each.special) == group] for group in groups]
    return [each for each in sorts if each]


def _refused(
    case: Case, kind: str, each: list[GradedAnswer], any_format: Collection[str], doubtful: Collection[str]
) -> _Misgraded | None:
    lost = [one for one in each if one.reward is not None and not _full(one)]
    if not lost:
        return None
    rate = wilson(len(lost), len(each))
    offered = kind in _FORMS
    prompts = [_instructions(case, one.question.target) for one in lost]
    loose = kind in any_format or not any(map(_STRICT.search, prompts))
    unsaid = kind in _SPACES or (kind in _LETTERS and not any(map(_CASE_MATTERS.search, prompts)))
    sure = (offered or loose or unsaid) and kind not in doubtful and rate.low > _GATE and len(lost) >= 2
    minor = not (offered or loose)
    return _Misgraded(kind, lost, f"{len(lost)} of {len(each)}", sure, minor=minor, special=offered)


def _spelling_finding(refused: list[_Misgraded], grave: Collection[str]) -> Finding:
    """One finding for all refused formats, because the cause is one: the grader compares texts."""
    first = refused[0]
    kinds = ", ".join(f"{each.kind} ({each.share} tasks)" for each in refused)
    title = f"correct answers in another format score less: {kinds}"
    if first.special:
        title = f"the prompt allows this format, but the grader gives it a lower score: {kinds}"
    serious = [each for each in refused if first.sure and (each.special or (each.kind in grave and not each.minor))]
    graded = [one for each in serious or refused for one in each.answers]
    return answer_finding(
        "D15.form" if first.special else "D22.spelling",
        title,
        graded,
        expected="the score of the golden answer, because both mean the same",
        severity=Severity.HIGH if serious else Severity.LOW,
        sure=first.sure,
        fix="compare values, not texts; or say in the prompt which format is required",
    )


async def _look_at_near_misses(case: Case) -> list[Finding]:
    """Wrong answers that look like the golden one do not get full marks."""
    some = [target for target in await find_solved_tasks(case, 24, answers=8) if target.golden.passed]
    questions = [
        Question(target, other.kind, other.text, solved=True)
        for target in some
        for other in other_meaning(target.answer, _instructions(case, target))
    ]
    strong = {
        (target.task.id, other.text): _is_strong(case, target, other)
        for target in some
        for other in other_meaning(target.answer, _instructions(case, target))
    }
    questions += [
        Question(target, _OTHER, other, solved=True)
        for place, target in enumerate(some)
        for other in _others(target, some, place)
    ]
    kinds = await _ask_by_kind(case, some, questions)
    certain = [
        (kind, sure, [one for one in answers if strong.get((one.question.target.task.id, one.question.answer), True) is sure])
        for kind, answers in kinds.items()
        for sure in (True, False)
    ]
    accepted: list[_Misgraded] = []
    for kind, sure, answers in certain:
        asked = [
            one for one in answers if kind != _OTHER or normalized(one.question.answer) != normalized(one.question.target.answer)
        ]
        passed = await keep_reproducible(case, [one for one in asked if _full(one)])
        if passed:
            accepted.append(_accepted(kind, passed, asked, certainly_wrong=sure))
    return [_near_miss_finding(each, _harmless_kinds(some)) for each in _by_cause(accepted)]


_ABOUT_SIGNS, _ABOUT_POINTS = frozenset({OTHER_SIGN}), frozenset({POINT_AND_STOP, NO_POINT})


def _harmless_kinds(some: Sequence[SolvedTask]) -> frozenset[str]:
    """Near misses that have all of golden's digits and differ in a mark that no key has: who writes them has done the work."""
    keys = [value_of(target) for target in some]
    signed = any(re.match(r"\s*[-+\u2212]", key) for key in keys)
    pointed = any(re.search(r"\d\.\d", key) for key in keys)
    harmless = set[str]()
    if not signed:
        harmless |= _ABOUT_SIGNS
    if not pointed:
        harmless |= _ABOUT_POINTS
    return frozenset(harmless)


def _is_strong(case: Case, target: SolvedTask, other: Spelling) -> bool:
    """True if the other answer is certainly wrong for this prompt."""
    instructions = _instructions(case, target)
    if other.kind == IN_REVERSE:
        given = all(part in target.prompt for part in re.split(r"[,;\s]+", target.answer.strip("[](){} ")))
        return given and bool(_ORDERED.search(instructions)) and not _ANY_ORDER.search(instructions)
    return other.strong and not (other.kind == "20 % more" and _ROUGH.search(instructions))


def _accepted(kind: str, passed: list[GradedAnswer], asked: list[GradedAnswer], *, certainly_wrong: bool) -> _Misgraded:
    num, rate = len(asked), wilson(len(passed), len(asked))
    tasks, tried = (len({one.question.target.task.id for one in each}) for each in (passed, asked))
    often = kind == _OTHER or len(passed) / num >= 0.5
    sure = certainly_wrong and often and rate.low > _GATE and tasks >= min(3, tried)
    share = f"{len(passed)} of {num}, {rate.low:.0%}-{rate.high:.0%}"
    return _Misgraded(kind, passed, share, sure, minor=False, special=kind == _OTHER)


def _near_miss_finding(accepted: list[_Misgraded], harmless: Collection[str]) -> Finding:
    """One finding for all accepted near misses, because the cause is one: how answers are compared."""
    first = accepted[0]
    kinds = ", ".join(f"{each.kind} ({each.share})" for each in accepted)
    return answer_finding(
        "D22.collision" if first.special else "D22.near",
        f"a wrong answer gets full marks: {kinds}",
        [one for each in accepted for one in each.answers],
        expected="less than the score of the golden answer, because it means something else",
        severity=Severity.HIGH if first.sure and any(each.kind not in harmless for each in accepted) else Severity.LOW,
        sure=first.sure,
        reason_of=_near_reason,
    )


def _near_reason(one: GradedAnswer) -> Reason | None:
    """Why a near miss is wrong: it says something else than golden."""
    target, answer = one.question.target, one.question.answer
    if one.question.kind == _OTHER and leaves_out(answer, target.answer, target.task.key) is None:
        return None
    if one.question.kind == OTHER_BRACKET:
        why = f"golden states `{shorten(target.answer)}`, this states `{shorten(answer)}`: another end of the interval"
        return Reason(kind=ReasonKind.CONTRADICTS, why=why)
    return difference(answer, target.answer)


async def _ask_by_kind(case: Case, some: Sequence[SolvedTask], questions: Sequence[Question]) -> dict[str, list[GradedAnswer]]:
    """The graded answers to tasks whose answer matters: those where nonsense does not get full marks."""
    control = [Question(target, "control", NONSENSE, solved=True) for target in some]
    graded = await ask(case, [*control, *questions])
    read = {one.question.target.task.id for one in graded[: len(control)] if not _full(one)}
    tried = [one for one in graded[len(control) :] if not one.trial.untried]
    return group_by_key((one.question.kind, one) for one in tried if one.question.target.task.id in read)


def _full(one: GradedAnswer) -> bool:
    return one.reward is not None and one.reward >= one.question.target.best - EPSILON


def _others(target: SolvedTask, some: Sequence[SolvedTask], place: int) -> list[str]:
    """Up to three different golden answers of other tasks, similar ones first."""
    following = [*some[place + 1 :], *some[:place]]
    others = [other.answer for other in following if leaves_out(other.answer, target.answer, target.task.key)]
    return sorted(dict.fromkeys(others), key=lambda other: not _alike(normalized(target.answer), normalized(other)))[:3]


def _alike(one: str, other: str) -> bool:
    """True if one contains the other, or both have the same characters."""
    return one in other or other in one or set(one) == set(other)


def _instructions(case: Case, target: SolvedTask) -> str:
    return f"{case.description.system}\n{target.prompt}"


def _offers_every_form(prompt: str) -> bool:
    """True if the prompt names both formats, so that either is right."""
    return all(form.search(prompt) for form in _FORMS.values())


PROBES = (
    Probe("spellings", Layer.GRADER, ("D22", "D15"), _look_at_spellings, needs_golden),
    Probe("near-misses", Layer.GRADER, ("D22",), _look_at_near_misses, needs_golden),
)
