r"""Answers inside the form that the grader reads: nothing, everything at once, verdicts, and two answers of which one is wrong.

`hollow.py` tries bare answers. A grader that first looks for `\boxed{}` or `<answer>` refuses them for want of the form, and
would accept the same emptiness inside it. Wrong are: a text that is the same for tasks with different keys, beyond what
chance allows; and the golden value together with one that the grader itself refuses, whichever stands first.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
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
from sandlot.audit.probes.grader.forms import BARE, GoldenForm, find_forms, forms_of, has_full_marks, is_short, value_of
from sandlot.audit.probes.likeness import EPSILON
from sandlot.audit.reason import Reason, ReasonKind, beyond_chance, omission
from sandlot.audit.statement import core_of, shorten
from sandlot.core.groups import group_by_key

_TASKS, _READ_FORMS = 12, 4
_FILLERS = (
    *("", " ", ".", "?", "None", "null", "N/A", "[]", "{}", "()", "nan", "inf", "-inf", ".*", "*", "True", "true", "correct"),
    *(
        "0",
        "1",
        "x",
        "object",
        "PASSED",
        '{"correct": true}',
        "reward: 1.0",
        "your answer here",
        "answer",
        "A B C D",
        "A, B, C, D",
    ),
)
_HALF = 0.5
_SOME, _OFTEN = 0.2, 0.1


async def _look_inside(case: Case) -> list[Finding]:
    """Nothing, everything and verdicts inside the form stay at the floor."""
    some = await _tasks_with_short_answers(case, len(_FILLERS) * _READ_FORMS)
    if not some:
        return []
    read = await find_forms(case, some)
    fillers = [*_FILLERS, *_listings(some)]
    texts = {form.holding(filler): form for form in (BARE, *read[:_READ_FORMS]) for filler in fillers}
    bare = {form.holding(NONSENSE): form for form in forms_of(some) if form != BARE}
    graded = await ask(case, [Question(target, "inside", text, solved=False) for text in {**texts, **bare} for target in some])
    found: list[ConstantHits] = []
    for each in group_by_key((one.question.answer, one) for one in graded).values():
        hits = constant_hits(case, each, tests=len(texts))
        kept = await keep_reproducible(case, hits.graded) if hits else []
        if hits and kept:
            found.append(ConstantHits(kept, hits.reason))
    return [_inside_finding(case, found, len(some))] if found else []


@dataclass(frozen=True, slots=True)
class ConstantHits:
    """Where one text, given to every task, earns at least half of full marks."""

    graded: list[GradedAnswer]
    reason: Reason


def constant_hits(case: Case, graded: Sequence[GradedAnswer], *, tests: int) -> ConstantHits | None:
    """The hits of one text on tasks with different keys; None if it may be right for them, or by chance."""
    hits = [one for one in graded if _earns(case, one)]
    keys = [core_of(one.question.target.answer) for one in graded]
    right = {core_of(one.question.target.answer) for one in hits}
    if len(right) < 2:
        return None
    text = graded[0].question.answer
    targets = [one.question.target for one in hits]
    omitted = [omission(text, target.answer, target.task.key) for target in targets]
    if all(omitted):
        return ConstantHits(hits, omitted[0]) if omitted[0] else None
    stated = {key for key in keys if omission(text, key) is None}
    if len(hits) < _SOME * len(graded):
        return None
    reason = beyond_chance(len(hits), len(graded), options=max(2, len(stated)), keys=keys, tests=tests)
    return ConstantHits(hits, reason) if reason else None


def _earns(case: Case, one: GradedAnswer) -> bool:
    idle = 0.0 if case.description.kind == "grader" else one.question.target.idle.reward or 0.0  # there, it is an empty answer
    floor = max(case.floor, idle)
    return one.reward is not None and one.reward - floor >= _HALF * (one.question.target.best - floor) > EPSILON


def _described(hits: ConstantHits) -> str:
    return f"`{shorten(hits.graded[0].question.answer)}`"


def _listings(some: Sequence[SolvedTask]) -> list[str]:
    """All golden values at once, in several ways."""
    values = list(dict.fromkeys(value_of(target) for target in some))
    return [joint.join(values) for joint in (", ", " or ", "/", " ", "\n")] if len(values) > 1 else []


def _inside_finding(case: Case, found: Sequence[ConstantHits], num: int) -> Finding:
    best = max(found, key=lambda hits: len(hits.graded))
    tasks = {one.question.target.task.id for one in best.graded}
    most = max(one.reward or 0.0 for one in best.graded)
    return answer_finding(
        "D02.form",
        f"the same text earns up to {most:g} on {len(tasks)} of {num} tasks with different answers: {_described(best)}"
        + (f" (and {len(found) - 1} other texts)" if len(found) > 1 else ""),
        best.graded,
        expected=f"a reward of at most {case.floor:g}",
        severity=Severity.HIGH if len(tasks) >= _OFTEN * num else Severity.LOW,
        fix="compare the value inside the form with the key, and refuse an empty value and several values",
        reason_of=lambda _one: best.reason,
    )


# -- two answers ---------------------------------------------------------------------------------------------------------------

_JOINTS = (", ", " or ", " and ", "/", "\n", " ")


async def _look_at_pairs(case: Case) -> list[Finding]:
    """The golden value and a refused one together do not get full marks in either order."""
    some = await _tasks_with_short_answers(case, 10 * len(_JOINTS))
    pairs = [(target, wrong) for place, target in enumerate(some) for wrong in _wrong_values(target, some, place)]
    forms = [form for form in await find_forms(case, some) if form != BARE][: _READ_FORMS - 1]
    alone = await ask(case, [Question(target, "wrong", wrong, solved=True) for target, wrong in pairs])
    refused = [pair for pair, one in zip(pairs, alone, strict=True) if one.reward is not None and not has_full_marks(one)]
    wrongs = {target.task.id: wrong for target, wrong in refused}
    questions = [
        Question(target, kind, pattern(*both), solved=True)
        for target, wrong in refused
        for kind, pattern in _both_ways(forms)
        for both in ((value_of(target), wrong), (wrong, value_of(target)))
    ]
    graded = await ask(case, questions)
    accepted: dict[str, list[GradedAnswer]] = defaultdict(list)
    asked: Counter[str] = Counter()
    for one, other in zip(graded[::2], graded[1::2], strict=True):
        asked[one.question.kind] += 1
        if has_full_marks(one) and has_full_marks(other):
            accepted[one.question.kind].append(min(one, other, key=lambda each: each.question.answer))
    often = {kind: each for kind, each in accepted.items() if len(each) >= max(2, _HALF * asked[kind])}
    held = {kind: await keep_reproducible(case, each) for kind, each in often.items()}
    if not any(held.values()):
        return []
    kinds = ", ".join(f"{kind} ({len(each)} of {asked[kind]})" for kind, each in held.items() if each)
    return [
        answer_finding(
            "D02.hedge",
            f"a wrong answer beside the right one gets full marks, whichever comes first: {kinds}",
            [one for each in held.values() for one in each],
            expected="less than full marks: one of the two values is wrong, and the grader refuses it alone",
            severity=Severity.HIGH,
            fix="read one answer, the last or the only one, and refuse several",
            reason_of=lambda one: _also_states(one, wrongs[one.question.target.task.id]),
        )
    ]


def _also_states(one: GradedAnswer, wrong: str) -> Reason:
    why = (
        f"golden states `{shorten(value_of(one.question.target))}`; this also states `{shorten(wrong)}`, which the grader refuses"
    )
    return Reason(kind=ReasonKind.CONTRADICTS, why=why)


def _both_ways(forms: Sequence[GoldenForm]) -> Iterator[tuple[str, Callable[[str, str], str]]]:
    """Ways to write two values: in one form, and in a form each."""
    for joint in _JOINTS:
        yield f"joined by {joint!r}", lambda one, other, joint=joint: f"{one}{joint}{other}"
    for form in forms:
        for joint in _JOINTS[:4]:
            yield f"joined by {joint!r} in {form.name}", lambda a, b, joint=joint, form=form: form.holding(f"{a}{joint}{b}")
        yield f"{form.name} twice", lambda a, b, form=form: f"{form.holding(a)}\n{form.holding(b)}"


def _wrong_values(target: SolvedTask, some: Sequence[SolvedTask], place: int) -> list[str]:
    """Up to one value of another task, which neither holds this one's nor is held by it."""
    mine = normalized(value_of(target))
    following = [*some[place + 1 :], *some[:place]]
    others = [value_of(other) for other in following]
    return [other for other in others if normalized(other) not in mine and mine not in normalized(other)][:1]


async def _tasks_with_short_answers(case: Case, answers: int) -> list[SolvedTask]:
    everyone = [
        target for target in await find_solved_tasks(case, 4 * _TASKS, answers) if target.golden.passed and target.reads_answer
    ]
    return [target for target in everyone if is_short(value_of(target)) and not case.may_idle(target.task)][:_TASKS]


PROBES = (
    Probe("inside-the-form", Layer.GRADER, ("D02",), _look_inside, needs_golden),
    Probe("two-answers", Layer.GRADER, ("D02",), _look_at_pairs, needs_golden),
)
