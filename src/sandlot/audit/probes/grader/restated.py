"""What the prompt states, given back as the answer: its first number, its last one, a quoted text, the unit.

A rule that reads one part of the prompt is tried on all tasks. It is no solution where golden says something else; if it still
gets full marks, more often than chance allows, the grader accepts a restatement of the task.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity
from sandlot.audit.probes.grader.asking import (
    GradedAnswer,
    Question,
    SolvedTask,
    answer_finding,
    ask,
    find_solved_tasks,
    keep_reproducible,
    needs_golden,
)
from sandlot.audit.probes.grader.forms import BARE, has_full_marks, own_form, split_answer
from sandlot.audit.reason import beyond_chance
from sandlot.audit.statement import core_of, leaves_out
from sandlot.core.groups import group_by_key

_TASKS, _LEAST, _SHARE = 20, 4, 0.3
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?![\w]|\.\d)")
_QUOTED = re.compile(r"[\"'`\u201c]([^\"'`\u201c\u201d\n]{1,80})[\"'`\u201d]")


def _number_at(place: int) -> Callable[[Sequence[str]], str]:
    return lambda found: found[place]


_RULES: dict[str, tuple[re.Pattern[str], Callable[[Sequence[str]], str]]] = {
    "the first number of the prompt": (_NUMBER, _number_at(0)),
    "the second number of the prompt": (_NUMBER, _number_at(1)),
    "the last number of the prompt": (_NUMBER, _number_at(-1)),
    "the second to last number of the prompt": (_NUMBER, _number_at(-2)),
    "the largest number of the prompt": (_NUMBER, lambda found: max(found, key=_size)),
    "the first quoted text of the prompt": (_QUOTED, _number_at(0)),
    "the last quoted text of the prompt": (_QUOTED, _number_at(-1)),
}


async def _look_at_restatements(case: Case) -> list[Finding]:
    """No part of the prompt is accepted where golden says something else."""
    some = [
        target
        for target in await find_solved_tasks(case, _TASKS, answers=len(_RULES))
        if target.golden.passed and target.reads_answer
    ]
    some = [target for target in some if not case.may_idle(target.task)]
    if len(some) < _LEAST:
        return []
    questions = [Question(target, rule, text, solved=True) for target in some for rule, text in _restatements(target)]
    asked = group_by_key((one.question.kind, one) for one in await ask(case, questions))
    found: list[Finding] = []
    for rule, graded in asked.items():
        hits = await keep_reproducible(case, [one for one in graded if has_full_marks(one) and _is_wrong(one)])
        keys = [core_of(one.question.target.answer) for one in graded]
        options = min(len(set(_NUMBER.findall(one.question.target.prompt))) for one in graded)
        reason = beyond_chance(len(hits), len(graded), options=max(2, options), keys=keys, tests=len(asked))
        if reason is not None and len(hits) >= _SHARE * len(graded):
            title = f"{rule}, given back as the answer, gets full marks on {len(hits)} of {len(graded)} tasks"
            expected = "less than full marks: golden states something else"
            fix = "check that the answer solves the task, not only that its value fits"
            found.append(
                answer_finding(
                    "D02.prompt",
                    title,
                    hits,
                    expected=expected,
                    severity=Severity.HIGH,
                    fix=fix,
                    reason_of=lambda _one, why=reason: why,
                )
            )
    return sorted(found, key=lambda each: -each.count)[:1]


def _restatements(target: SolvedTask) -> Iterator[tuple[str, str]]:
    """The rule and its answer, in the form that golden has."""
    form = own_form(target.answer) if len(split_answer(target.answer)[1]) < len(target.answer) else BARE
    for rule, (shown, pick) in _RULES.items():
        found = shown.findall(target.prompt)
        if len(found) >= 2:
            yield rule, form.holding(pick(found))


def _is_wrong(one: GradedAnswer) -> bool:
    target = one.question.target
    return leaves_out(one.question.answer, target.answer, target.task.key) is not None


def _size(number: str) -> float:
    return float(number.replace(",", ""))


PROBES = (Probe("restated-prompt", Layer.GRADER, ("D02",), _look_at_restatements, needs_golden),)
