"""Search over answers: golden's made as small as the score allows, and one built from the prompt's words as the score rewards.

What is left of golden's answer is what the grader really asks for. If that leaves out what golden states, any answer with it
scores. An answer built word by word, guided by partial credit, knows only the prompt; full marks for one that does not state
what golden states are a defect, and a large part of the points is a lead.
"""

import re
from collections.abc import Sequence

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
)
from sandlot.audit.probes.likeness import EPSILON
from sandlot.audit.probes.search.climbing import smallest
from sandlot.audit.probes.search.depth import depth_of
from sandlot.audit.reason import Reason, ReasonKind, omission
from sandlot.audit.statement import core_of, numbers_in, shorten

_TASKS, _CLIMBED = 6, 3
_ROUNDS = 8
_PART = re.compile(r"\s*\S+")
_LONGEST, _MOST_PARTS = 4000, 160
_FEW_CHARS = 16
_FEW_WORDS = 12
"""With more words golden explains itself, and an answer without some of them may be right."""
_WORDS = 40
_LENGTH = 5
_MUCH = 0.5


async def _look_at_answers(case: Case) -> list[Finding]:
    """No small part of golden's answer, and no answer of the prompt's words, scores like golden's."""
    found = await find_solved_tasks(case, depth_of(case).tasks(_TASKS), answers=_MOST_PARTS)
    targets = [each for each in found if each.golden.passed and each.reads_answer and _is_short_enough(each.answer)]
    small = [one for target in targets if (one := await _shrunk(case, target)) is not None]
    built = [one for target in targets[:_CLIMBED] if (one := await _built(case, target)) is not None]
    kept = await keep_reproducible(case, small)
    return [*_shrunk_findings(kept, len(targets)), *_built_findings(await keep_reproducible(case, built), len(targets))]


def _is_short_enough(answer: str) -> bool:
    return bool(answer.strip()) and len(answer) <= _LONGEST and "def " not in answer


# -- smaller -------------------------------------------------------------------------------------------------------------------


async def _shrunk(case: Case, target: SolvedTask) -> GradedAnswer | None:
    """The smallest part of golden's answer with its score; None if that states what golden states."""
    if _holds((await ask(case, [Question(target, "shrunk", NONSENSE, solved=True)]))[0]):
        return None  # any words will do: the answer is not what is graded
    parts = _PART.findall(target.answer)
    if len(parts) > _MOST_PARTS:
        parts = target.answer.splitlines(keepends=True)
    least = await _smallest_text(case, target, parts)
    if len(least) <= _FEW_CHARS:
        least = await _smallest_text(case, target, list(least))
    (graded,) = await ask(case, [Question(target, "shrunk", least, solved=True)])
    return graded if least != target.answer and _holds(graded) and _reason(graded) is not None else None


async def _smallest_text(case: Case, target: SolvedTask, parts: Sequence[str]) -> str:
    async def holds(sets: Sequence[Sequence[str]]) -> list[bool]:
        return [_holds(one) for one in await ask(case, [Question(target, "shrunk", "".join(each), solved=True) for each in sets])]

    return "".join(await smallest(parts, holds, rounds=_ROUNDS))


def _holds(one: GradedAnswer) -> bool:
    return one.reward is not None and one.reward >= one.question.target.best - EPSILON


def _reason(one: GradedAnswer) -> Reason | None:
    """Why an answer is wrong: another number, or less than half of what golden states; None where golden's words are many."""
    said, target = core_of(one.question.answer), one.question.target
    core = core_of(target.answer)
    if _as_float(said) is not None and _as_float(said) == _as_float(core):
        return None
    given, wanted = numbers_in(said), numbers_in(core)
    if len(given) == 1 and len(wanted) == 1 and given != wanted and len(said.split()) == 1:
        why = f"golden states `{shorten(core)}`, this states `{shorten(said)}`"
        return Reason(kind=ReasonKind.CONTRADICTS, why=why)
    if len(core.split()) > _FEW_WORDS or 2 * len(_letters(one.question.answer)) > len(_letters(core)):
        return None  # most of it is there: another spelling may be right
    return omission(one.question.answer, target.answer, target.task.key)


def _as_float(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _letters(text: str) -> str:
    return "".join(each for each in text if each.isalnum())


def _shrunk_findings(found: Sequence[GradedAnswer], num_tasks: int) -> list[Finding]:
    if not found:
        return []
    num = len({one.question.target.task.id for one in found})
    shortest = min(found, key=lambda one: len(one.question.answer)).question
    title = f"of golden's answer `{shorten(shortest.target.answer)}` the part `{shorten(shortest.answer)}` is enough"
    return [
        answer_finding(
            "D22.near-part",
            f"{title}, on {num} of {num_tasks} tasks",
            found,
            expected="less than golden's score: what golden states is not there",
            severity=Severity.HIGH,
            sure=num > 1 or num_tasks == 1,
            fix="compare the whole value, not a part of it, and refuse an answer that holds less",
            reason_of=_reason,
        )
    ]


# -- built from the prompt -----------------------------------------------------------------------------------------------------


async def _built(case: Case, target: SolvedTask) -> GradedAnswer | None:
    """The best answer of a few words of the prompt; None if it earns little, or states what golden states."""
    words = list(dict.fromkeys(re.findall(r"[\w.$%-]*\w", target.prompt)))
    words = words[: _WORDS // 2] + words[max(_WORDS // 2, len(words) - _WORDS // 2) :]
    best = (await ask(case, [Question(target, "built", NONSENSE, solved=False)]))[0]
    floor, text = max(case.floor, best.reward or 0.0, target.idle.reward or 0.0), ""
    for _ in range(_LENGTH):
        longer = [f"{text} {word}".strip() for word in words]
        graded = await ask(case, [Question(target, "built", answer, solved=False) for answer in longer])
        step = max(graded, key=lambda one: one.reward or 0.0, default=best)
        if (step.reward or 0.0) <= (best.reward or 0.0) + EPSILON:
            break
        best, text = step, step.question.answer
    wrong = omission(text, target.answer, target.task.key) is not None
    return best if text and wrong and (best.reward or 0.0) >= floor + _MUCH * (target.best - floor) else None


def _built_findings(found: Sequence[GradedAnswer], num_tasks: int) -> list[Finding]:
    if not found:
        return []
    full = [one for one in found if _holds(one)]
    shown = full or list(found)
    most = max(one.reward or 0.0 for one in shown)
    where = f"on {len(shown)} of {min(_CLIMBED, num_tasks)} tasks"
    finding = answer_finding(
        "D02.built",
        f"a few words of the prompt, chosen by their partial credit, earn {most:g} ({where})",
        shown,
        expected="little: what golden states is not in it",
        severity=Severity.HIGH if full else Severity.LOW,
        sure=bool(full),
        fix="give partial credit for parts of the right value, not for words in common with it",
        reason_of=lambda one: omission(one.question.answer, one.question.target.answer, one.question.target.task.key),
        of=min(_CLIMBED, num_tasks),
    )
    return [finding]


PROBES = (Probe("search-answers", Layer.GRADER, ("D02", "D22"), _look_at_answers, needs_golden),)
