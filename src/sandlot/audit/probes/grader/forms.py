r"""The form around an answer: `\boxed{...}`, `<answer>...</answer>`, `#### ...`, a code fence, or nothing.

Golden answers show the form that a grader reads. Taken apart into form and value, any other value can be put into the same form:
a wrong one, several at once, or nothing. Which other forms a grader reads as well is measured with the golden value.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sandlot.audit.case import Case
from sandlot.audit.probes.grader.asking import NONSENSE, GradedAnswer, Question, SolvedTask, ask
from sandlot.audit.probes.likeness import EPSILON

_LONGEST = 200
"""Longer values are prose or code."""
_MEASURED = 3
"""Tasks on which each form is tried."""


@dataclass(frozen=True, slots=True)
class GoldenForm:
    """What stands before and after a value."""

    name: str
    before: str = ""
    after: str = ""

    def holding(self, value: str) -> str:
        """A value in the form."""
        return f"{self.before}{value}{self.after}"


BARE = GoldenForm("nothing")
FORMS = (
    BARE,
    GoldenForm("a box", "\\boxed{", "}"),
    GoldenForm("a box in a formula", "$\\boxed{", "}$"),
    GoldenForm("answer tags", "<answer>", "</answer>"),
    GoldenForm("answer tags after thinking", "<think>\nI think.\n</think>\n<answer>", "</answer>"),
    GoldenForm("hash marks", "#### "),
    GoldenForm("a sentence", "The answer is ", "."),
    GoldenForm("a final line", "Final Answer: "),
    GoldenForm("an answer line", "Answer: "),
    GoldenForm("stars", "**", "**"),
    GoldenForm("double brackets", "[[", "]]"),
    GoldenForm("round brackets", "(", ")"),
    GoldenForm("a formula", "$", "$"),
    GoldenForm("a fence", "```\n", "\n```"),
    GoldenForm("a JSON fence", "```json\n", "\n```"),
    GoldenForm("a Python fence", "```python\n", "\n```"),
)
"""Forms that are usual in prompts and graders."""


def _pattern(opens: str, value: str, closes: str, before: str = ".*", after: str = ".*") -> re.Pattern[str]:
    parts = {"before": before, "open": opens, "value": value, "close": closes, "after": after}
    return re.compile("(?is)" + "".join(f"(?P<{name}>{part})" for name, part in parts.items()))


_TAG = r"<(?P<tag>answer|final_answer|final|result|output|solution|ans)>\s*"
_SENTENCE = r"\b(?:the )?(?:final )?answer(?: is)?:?\s*\**\s*"
_SHOWN = (
    ("answer tags", _pattern(_TAG, r".*?", r"\s*</(?P=tag)>")),
    ("a box", _pattern(r"\\boxed\s*\{", r"(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*", r"\}")),
    ("a fence", _pattern(r"```[\w+-]*\n", r".*?", r"\n?```", after=r"\s*")),
    ("hash marks", _pattern(r"####\s*", r"[^\n]+", "", after=r"\s*")),
    ("a sentence", _pattern(_SENTENCE, r"[^\n]*?[^\n.]", r"\.?", before=".*?", after=r"\**\s*")),
    ("a formula", _pattern(r"\$", r"[^$]+", r"\$", before="", after="")),
    ("double brackets", _pattern(r"\[\[", r"[^\[\],]+", r"\]\]", before="", after="")),
)


def split_answer(answer: str) -> tuple[GoldenForm, str]:
    """The form of an answer and the value in it; `BARE` and the whole answer if it shows none."""
    for name, shown in _SHOWN:
        found = shown.fullmatch(answer)
        if found and found["value"].strip():
            inner, value = split_answer(found["value"])
            before, after = found["before"] + found["open"] + inner.before, inner.after + found["close"] + found["after"]
            return GoldenForm(name, before, after), value
    return BARE, answer


def own_form(answer: str) -> GoldenForm:
    """The form of an answer without the text around it, such as the reasoning before it."""
    for name, shown in _SHOWN:
        found = shown.fullmatch(answer)
        if found and found["value"].strip():
            inner = own_form(found["value"])
            return GoldenForm(f"{name} of the golden answer", found["open"] + inner.before, inner.after + found["close"])
    return BARE


def value_of(target: SolvedTask) -> str:
    """The golden value, without its form."""
    return split_answer(target.answer)[1].strip()


_QUOTED_WORD = re.compile(r"[`'\"\u2018\u201c](\w[\w-]+)[`'\"\u2019\u201d]")
_MOVES = re.compile(r"(?i)\b(?:moves?|steps?|actions?|directions?|slide|walk|go)\b")


def is_moves(value: str, prompt: str) -> bool:
    """True for a sequence of moves that the prompt names in quotes: what stands before or after the right ones may do no harm."""
    words = re.findall(r"[\w-]+", value)
    known = {word.casefold() for word in _QUOTED_WORD.findall(prompt)}
    return bool(words) and len(known) > 1 and known.issuperset(map(str.casefold, words)) and _MOVES.search(prompt) is not None


def is_short(value: str) -> bool:
    """True for a value of one line that is not prose."""
    return 0 < len(value) <= _LONGEST and "\n" not in value and len(value.split()) <= 12


def forms_of(targets: Sequence[SolvedTask]) -> list[GoldenForm]:
    """The forms that golden answers show, then the usual ones."""
    own = [form for target in targets if (form := own_form(target.answer)) != BARE]
    return list({(form.before, form.after): form for form in (*own[:2], *FORMS)}.values())


async def find_forms(case: Case, targets: Sequence[SolvedTask]) -> list[GoldenForm]:
    """The forms in which the golden value gets full marks and nonsense does not; those that golden answers show come first."""
    some = [target for target in targets if is_short(value_of(target))][:_MEASURED]
    forms = forms_of(some) if some else []
    golden = [Question(target, form.name, form.holding(value_of(target)), solved=True) for form in forms for target in some]
    nonsense = [Question(target, form.name, form.holding(NONSENSE), solved=True) for form in forms for target in some]
    graded = await ask(case, [*golden, *nonsense])
    refused = {one.question.kind for one in graded[: len(golden)] if not has_full_marks(one)}
    careless = {one.question.kind for one in graded[len(golden) :] if has_full_marks(one)}
    return [form for form in forms if form.name not in refused | careless]


def has_full_marks(one: GradedAnswer) -> bool:
    """True if an answer gets what the golden one gets."""
    return one.reward is not None and one.reward >= one.question.target.best - EPSILON
