"""Answers that show it when a grader runs them: as Python, through a package that does so, or in a shell.

Each answer names a word that occurs nowhere else. The process of the grader notes an import of a module of that name, Python code
that uses it as a name, and a file of that name. Text that is parsed, compared or printed does none of this.
"""

import json
import re
from collections.abc import Iterator, Sequence

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.probes.grader.asking import GradedAnswer, Question, SolvedTask, ask, find_targets
from sandlot.audit.probes.grader.forms import FORMS, own_form, split_answer
from sandlot.audit.probes.grader.objects import map_values, object_in
from sandlot.audit.probes.grader.programs import program_in
from sandlot.audit.subject import Conditions

_TASKS = 2
_NUM = 200
"""About how many answers are graded for each task."""
_WORD = "zq7canary"
_TEXTS = (
    f'__import__("{_WORD}")',
    _WORD,
    f"import {_WORD}",
    f"$(touch /tmp/{_WORD})",  # of the sandbox
    f"; touch /tmp/{_WORD} #",
    f"!!python/object/apply:builtins.__import__ [{_WORD}]",
)
_CODE = re.compile(r"(?m)^\s*(?:return|import|from|print\(|for .* in .*:|class \w+)|```(?:python|py)\b|\blambda\b")
_AROUND = ("[{}]", "({}, 1)", "{{'a': {}}}", "x = {}", "1 + {}", "{} == 1", '"{}"', '{{"answer": "{}"}}', "{}\n")


async def _look_at_evaluation(case: Case) -> list[Finding]:
    """An answer is data: nothing runs it."""
    some = await find_targets(case, _TASKS, answers=_NUM)
    asked = [Question(target, "run", text, solved=True) for target in some for text in dict.fromkeys(_answers(target, some))]
    graded = await ask(case, asked, Conditions(watched=_WORD))
    ran = [one for one in graded if one.trial.did]
    return [_finding(ran)] if ran else []


def _answers(target: SolvedTask, some: Sequence[SolvedTask]) -> Iterator[str]:
    form, value = split_answer(target.answer)
    shown = sorted({own_form(each.answer) for each in some}, key=lambda each: (each.before, each.after))
    for text in _TEXTS:
        yield text
        yield form.holding(text)
        for each in (*shown, *FORMS):
            yield each.holding(text)
    for around in _AROUND:
        for text in _TEXTS[:2]:
            yield around.format(text)
            yield from (each.holding(around.format(text)) for each in (*shown, FORMS[1], FORMS[3]))
    yield f"{target.answer} + {_TEXTS[0]}"
    yield f"{value} = {_TEXTS[0]}"
    if (fields := object_in(value)) is not None:
        yield from (json.dumps(map_values(fields, lambda _value, text=text: text)) for text in _TEXTS[:2])


def _finding(ran: Sequence[GradedAnswer]) -> Finding:
    whole = [one for one in ran if "imported" in " ".join(one.trial.did) or "shell" in " ".join(one.trial.did)]
    shown = min(whole or ran, key=lambda one: (len(one.question.answer), one.question.target.task.id))
    task = shown.question.target.task.id
    asked_for_program = any(_is_program(one.question.target.answer) for one in ran)
    return make_finding(
        "D02.evaluated",
        "the grader runs the agent's answer as code, in its own process" + ("" if whole else ", with some names withheld"),
        Witness(
            inputs=shown.inputs, expected="the answer is parsed as data", observed=f"the grader {'; '.join(shown.trial.did)}"
        ),
        severity=Severity.HIGH,
        sure=not asked_for_program,
        task=task,
        count=len({one.question.target.task.id for one in ran}),
        fix="parse the answer as data (`int`, `float`, `json`, `ast.literal_eval`); run programs in a process of their own",
    )


def _is_program(golden: str) -> bool:
    """True if golden is code, which a grader must run somewhere."""
    return program_in(split_answer(golden)[1]) is not None or _CODE.search(golden) is not None


PROBES = (Probe("evaluated-answers", Layer.GRADER, ("D02",), _look_at_evaluation, without_golden=True),)
