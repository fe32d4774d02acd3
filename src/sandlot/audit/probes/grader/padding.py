"""Answers without content that grow in other ways than by length alone: repeated forms, steps, headings, words of the prompt.

`hollow.py` lengthens bare filler. Here the nonsense stands in a form that the grader reads, and is compared with the same
nonsense in the same form, once.
"""

import re
from collections.abc import Iterator

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity
from sandlot.audit.probes.grader.asking import (
    NONSENSE,
    GradedAnswer,
    Question,
    answer_finding,
    ask,
    empty_reason,
    find_solved_tasks,
    keep_reproducible,
    needs_golden,
)
from sandlot.audit.probes.grader.forms import BARE, GoldenForm, find_forms, forms_of
from sandlot.audit.probes.likeness import EPSILON
from sandlot.core.groups import group_by_key

_TASKS, _FORMS = 6, 3
_SMALL, _OFTEN = 0.2, 0.5
_STEPS = "\n".join(f"Step {number}: I think about it carefully and check it again." for number in range(1, 25))
_HEADINGS = "\n\n".join(
    f"## Part {number}\n\n- **First**: it is so.\n- *Then*: it is so.\n\n$$x = {number}$$" for number in range(1, 9)
)


async def _look_at_padding(case: Case) -> list[Finding]:
    """Nothing that is added to nonsense earns more."""
    some = [
        target for target in await find_solved_tasks(case, _TASKS, answers=30) if target.golden.passed and target.reads_answer
    ]
    some = [target for target in some if not case.may_idle(target.task)]
    if not some:
        return []
    read = [form for form in await find_forms(case, some) if form != BARE] or forms_of(some)[1:2]
    forms = [BARE, *read[: _FORMS - 1]]
    once = [Question(target, form.name, form.holding(NONSENSE), solved=False) for target in some for form in forms]
    more = [
        Question(target, f"{form.name}: {how}", text, solved=False)
        for target in some
        for form in forms
        for how, text in _padded(form, target.prompt)
    ]
    graded = await ask(case, [*once, *more])
    least = {(one.question.target.task.id, one.question.kind): one.reward or 0.0 for one in graded[: len(once)]}
    gained: list[GradedAnswer] = []
    for one in graded[len(once) :]:
        task, form = one.question.target.task.id, one.question.kind.partition(": ")[0]
        if (one.reward or 0.0) > max(case.floor, least[task, form], one.question.target.idle.reward or 0.0) + EPSILON:
            gained.append(one)
    by_kind = group_by_key((one.question.kind, one) for one in await keep_reproducible(case, gained))
    often = {kind: each for kind, each in by_kind.items() if len(each) >= max(2, _OFTEN * len(some))}
    if not often:
        return []
    kind, hits = max(often.items(), key=lambda item: (max(one.reward or 0.0 for one in item[1]), len(item[1])))
    most = max(one.reward or 0.0 for one in hits)
    gain = most - min(least.values())
    form, _, how = kind.partition(": ")
    return [
        answer_finding(
            "D06.length",
            f"nonsense earns up to {most:g} if more is added to it: {how}, in the form of {form}",
            hits,
            expected=f"at most {min(least.values()):g}, as without it",
            severity=Severity.HIGH if gain > _SMALL else Severity.LOW,
            fix="count nothing that can be repeated without content",
            reason_of=empty_reason,
        )
    ]


def _padded(form: GoldenForm, prompt: str) -> Iterator[tuple[str, str]]:
    text = form.holding(NONSENSE)
    words = " ".join(dict.fromkeys(re.findall(r"[A-Za-z]{4,}", prompt)))
    yield "the same twenty times", f"{text}\n" * 20
    yield "steps before it", f"{_STEPS}\n{text}"
    yield "headings and formulas before it", f"{_HEADINGS}\n\n{text}"
    yield "thinking before it", f"<think>\n{_STEPS}\n</think>\n{text}"
    yield "words of reflection before it", f"Wait, let me check. However, I verify it. Therefore, finally:\n{text}"
    yield "words of the prompt inside it", form.holding(f"{NONSENSE} {words}")


PROBES = (Probe("padding", Layer.GRADER, ("D06",), _look_at_padding, needs_golden),)
