"""Multiple choice: the options of a prompt, how an option is named, and rules that choose one without reading the question."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
    normalized,
)
from sandlot.audit.probes.grader.forms import has_full_marks, split_answer
from sandlot.core.stats.intervals import beta_cdf

_OPTION = re.compile(r"(?m)^[ \t]*[-*]?[ \t]*\(?(?P<letter>[A-J])[).:][ \t]+(?P<text>\S.*?)[ \t]*$")
_INLINE = re.compile(r"\(?\b(?P<letter>[A-J])[).:]\s*(?P<text>[^()\n]+?)(?=[\s,;]*(?:\(?\b[A-J][).:]\s|$|\n))")
_SEVERAL = re.compile(
    r"(?i)\b(?:all that apply|one or more|select all|multiple (?:answers|options)|more than one|which of them are)\b"
)
_WORDS = {
    word[0]: word
    for word in ("Afternoon", "Break", "Chat", "Day", "Evening", "Friday", "Game", "Holiday", "Intermission", "Journey")
}
_LETTER = re.compile(r"\(?([A-Ja-j])\)?[.:]?")


@dataclass(frozen=True, slots=True)
class ListedOption:
    """One task of multiple choice."""

    options: dict[str, str]
    """Text by letter."""
    right: str
    """The letter of the golden answer."""
    named: str
    """How golden names it: `letter`, `text` or `both`."""


def choice_in(prompt: str, golden: str) -> ListedOption | None:
    """The options of a prompt of which the golden answer is one; None if it asks for anything else, or for several."""
    if _SEVERAL.search(prompt):
        return None
    options = _options_in(prompt)
    value = split_answer(golden)[1].strip()
    letter = _LETTER.fullmatch(value)
    if letter and letter[1].upper() in options:
        return ListedOption(options, letter[1].upper(), "letter")
    right = [mark for mark, text in options.items() if normalized(text) == normalized(value)]
    if len(right) == 1:
        return ListedOption(options, right[0], "text")
    both = [
        mark for mark, text in options.items() if normalized(re.sub(rf"^\(?{mark}\)?[.:]?\s+", "", value)) == normalized(text)
    ]
    return ListedOption(options, both[0], "both") if len(both) == 1 else None


def _options_in(prompt: str) -> dict[str, str]:
    for shown in (_OPTION, _INLINE):
        found = {each["letter"]: each["text"].strip(" ,;") for each in shown.finditer(prompt)}
        letters = sorted(found)
        if len(letters) >= 2 and letters == [chr(ord("A") + place) for place in range(len(letters))]:
            return found
    return {}


def same_choice(choice: ListedOption) -> list[tuple[str, str, bool]]:
    """Other ways to name the same option."""
    mark, text = choice.right, choice.options[choice.right]
    letters = [
        (f"({mark})", "the letter in brackets"),
        (f"{mark}.", "the letter and a full stop"),
        (mark.lower(), "a small letter"),
    ]
    ways = [(kind, said, choice.named == "letter") for said, kind in letters]
    return [*ways, ("the letter and its text", f"{mark}. {text}", True), ("the text of the option", text, False)]


def other_choices(choice: ListedOption) -> list[tuple[str, str, bool]]:
    """Wrong answers, and whether each is certainly wrong: another option, all options, a sentence that begins with the letter."""
    others = [mark for mark in choice.options if mark != choice.right]
    other, mark = others[0], choice.right
    found = [("another option", other, True), ("the text of another option", choice.options[other], True)]
    found += [("another option, the right one denied", f"{other}, not {mark}", False)]
    found += [("every option", " ".join(choice.options), True), ("every option with its text", _all_of(choice), True)]
    found += [("a refusal with a word that begins with the letter", refusal_with(mark), mark != "I")]
    if mark in {"A", "I"}:
        found.append(
            ("a sentence that begins with the letter", "I cannot tell" if mark == "I" else "A choice is impossible.", False)
        )
    return found


def refusal_with(letter: str) -> str:
    """A refusal whose last word begins with a letter."""
    return f"I cannot tell. Have a good {_WORDS[letter]}"


def _all_of(choice: ListedOption) -> str:
    return "\n".join(f"{mark}. {text}" for mark, text in choice.options.items())


# -- rules ---------------------------------------------------------------------------------------------------------------------

_LEAST, _MOST = 12, 40
_LUCK = 0.001
_SHARE = 0.5
_RULES: dict[str, Callable[[dict[str, str]], str]] = {
    "the longest option": lambda options: max(options, key=lambda mark: (len(options[mark]), mark)),
    "the shortest option": lambda options: min(options, key=lambda mark: (len(options[mark]), mark)),
    "the last option": max,
    "the second to last option": lambda options: sorted(options)[-2],
}


async def _look_at_rules(case: Case) -> list[Finding]:
    """No rule about length or place finds the right option."""
    if case.description.declared.guessable:
        return []
    asked = [
        (target, choice)
        for target in await find_solved_tasks(case, _MOST, answers=len(_RULES))
        if (choice := choice_in(target.prompt, target.answer))
    ]
    if len(asked) < _LEAST:
        return []
    chance = sum(1 / len(choice.options) for _, choice in asked) / len(asked)
    found: list[Finding] = []
    for name, rule in _RULES.items():
        named = [(target, _named_like(target, choice, rule(choice.options))) for target, choice in asked]
        questions = [Question(target, name, answer, solved=False) for target, answer in named]
        right = await keep_reproducible(case, [one for one in await ask(case, questions) if has_full_marks(one)])
        if len(right) >= _SHARE * len(asked) and beta_cdf(chance, len(right), len(asked) - len(right) + 1) <= _LUCK:
            found.append(_rule_finding(name, right, len(asked), chance))
    return found[:1]


def _named_like(target: SolvedTask, choice: ListedOption, letter: str) -> str:
    """An option, named as golden names its own."""
    form, value = split_answer(target.answer)
    text = choice.options[letter]
    if choice.named == "letter":
        return form.holding(value.replace(choice.right, letter).replace(choice.right.lower(), letter.lower()))
    return form.holding(text if choice.named == "text" else f"{letter}. {text}")


def _rule_finding(name: str, right: Sequence[GradedAnswer], num: int, chance: float) -> Finding:
    return answer_finding(
        "D14.rule",
        f"{name} is right for {len(right)} of {num} tasks; chance would give {chance:.0%}",
        right,
        expected=f"a share near {chance:.0%}",
        severity=Severity.HIGH,
        fix="shuffle the options, and write wrong options that are as long as the right one",
    )


PROBES = (Probe("option-rules", Layer.GRADER, ("D14",), _look_at_rules, needs_golden),)
