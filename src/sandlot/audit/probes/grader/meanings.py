"""Other spellings of a golden answer in its form, and other answers in the same form, by what kind of value it is."""

import re
from collections.abc import Callable, Iterable

from sandlot.audit.probes.grader.calls_in_text import list_in, other_list, same_list
from sandlot.audit.probes.grader.choices import choice_in, other_choices, refusal_with, same_choice
from sandlot.audit.probes.grader.expressions import is_formula, other_expression, same_expression
from sandlot.audit.probes.grader.forms import BARE, is_moves, own_form, split_answer
from sandlot.audit.probes.grader.layouts import other_layout, same_layout
from sandlot.audit.probes.grader.objects import object_in
from sandlot.audit.probes.grader.programs import other_program, program_in, same_program
from sandlot.audit.probes.grader.quantities import other_quantity, same_quantity
from sandlot.audit.probes.grader.spelling import DECIMAL_ZERO, Spelling, near_misses, same_value

_ANY_ORDER = re.compile(
    r"(?i)\b(?:any|no particular|whatever|either) order\b|\border (?:does not|doesn't|is not|isn't) (?:matter|important)"
)
_SENTENCE = re.compile(r"(?i)\b(?:the|a|an|is|was|are|of|in|to|has|by)\b")
"""Words after which the order of the others matters."""
_LAST_COUNTS = re.compile(r"(?i)\b(?:last|final) line\b|\blast (?:answer|one) counts\b")
_VERDICTS = frozenset({"yes", "no", "true", "false"})
_WORDS = re.compile(r"[A-Za-z]+(?: [A-Za-z]+){0,3}")


def same_meaning(golden: str, prompt: str) -> list[Spelling]:
    """The same answer in other spellings, its form kept."""
    form, value = split_answer(golden)
    choice = choice_in(prompt, golden)
    if choice is not None:
        ways = [(kind, form.holding(said), sure) for kind, said, sure in same_choice(choice)]
        named = [Spelling(kind, text, strong=False, doubtful=not sure) for kind, text, sure in ways if text != golden]
        return [*named, *_corrected(golden, prompt)]
    found = same_value(value)
    if form != BARE or _is_syntax(value):  # a space or a full stop inside of the form is another matter
        found = [each for each in found if each.strong or each.kind == DECIMAL_ZERO]
    found += _same_verdict(value.strip())
    programs = [Spelling(kind, form.holding(text), sure, any_format=True) for kind, text, sure in same_program(value)]
    others = (
        *same_quantity(value.strip(), prompt),
        *same_expression(value.strip(), prompt),
        *same_list(value),
        *same_layout(value),
    )
    spelled = [Spelling(each.kind, form.holding(each.text), each.strong, each.any_format) for each in found]
    spelled += [*programs, *_corrected(golden, prompt), *_with_words(golden, value)]
    spelled.append(Spelling("an empty line before it", f"   \n{golden}"))
    return _distinct([*spelled, *_in_form(form.holding, [*others, *_same_listing(value.strip(), prompt)], golden)], golden)


def other_meaning(golden: str, prompt: str) -> list[Spelling]:
    """Wrong answers in the same form."""
    form, value = split_answer(golden)
    choice = choice_in(prompt, golden)
    back = _taken_back(golden, prompt)
    if choice is not None:
        bare = [Spelling("a refusal in no form, with such a word", refusal_with(choice.right), choice.right != "I")]
        return [*_in_form(form.holding, other_choices(choice), golden), *(bare if form != BARE else []), *back]
    if is_moves(value, prompt):
        return back
    if wrong := (*other_list(value), *other_program(value)):
        return _in_form(form.holding, wrong, golden)
    value = value.strip()
    others = (*other_quantity(value, prompt), *other_expression(value, prompt), *other_layout(value))
    found = [Spelling(each.kind, form.holding(each.text), each.strong) for each in near_misses(value)]
    wrong = _distinct([*found, *_in_form(form.holding, [*others, *_longer(value)], golden), *back], golden)
    right = {"".join(each.text.split()) for each in same_meaning(golden, prompt)}
    return [each for each in wrong if "".join(each.text.split()) not in right]


def _same_verdict(value: str) -> list[Spelling]:
    """Yes, no, true and false, in which capitals mean nothing."""
    if value.casefold() not in _VERDICTS:
        return []
    ways = (value.lower(), value.capitalize(), value.upper())
    return [Spelling("yes, no, true or false in other letters", way, any_format=True) for way in ways if way != value][:1]


def _with_words(golden: str, value: str) -> list[Spelling]:
    """The form without its last full stop, and an object after a few words (doubtful for JSON, often asked for alone)."""
    found = [Spelling("no full stop at its end", golden[:-1])] if golden.endswith(".") and not value.endswith(".") else []
    if object_in(golden) is not None:
        found.append(Spelling("a few words before it", f"Here you are: {golden}", doubtful='"' in golden))
    return found


def _corrected(golden: str, prompt: str) -> list[Spelling]:
    """The answer after a wrong one, where the prompt says that the last line counts."""
    other = _another_value(golden, prompt)
    text = f"{other}\nNo, that is wrong.\n{golden}"
    return [Spelling("after a wrong answer, on the last line", text, any_format=True)] if other else []


def _taken_back(golden: str, prompt: str) -> list[Spelling]:
    """The answer taken back, and a wrong one after it, where the prompt says that the last line counts."""
    other = _another_value(golden, prompt)
    return [Spelling("taken back, and another on the last line", f"{golden}\nNo, that is wrong.\n{other}")] if other else []


def _another_value(golden: str, prompt: str) -> str:
    """A wrong letter or number in golden's form, where the prompt says that the last line counts; else empty."""
    form = own_form(golden)
    if form == BARE or not _LAST_COUNTS.search(prompt):
        return ""
    value = split_answer(golden)[1].strip()
    other = {"A": "B"}.get(value, "A") if re.fullmatch(r"[A-J]", value) else "7" if value.isdecimal() and value != "7" else ""
    return form.holding(other) if other else ""


def _is_syntax(value: str) -> bool:
    """True for JSON, programs and formulas, after which a full stop is wrong."""
    return list_in(value) is not None or program_in(value) is not None or is_formula(value.strip())


def _longer(value: str) -> list[tuple[str, str, bool]]:
    """A longer word, and a list with an element too many."""
    parts = [part.strip() for part in re.split(r"[,;]", value.strip("[](){}"))]
    if len(parts) > 1 and all(parts) and all(len(part) < 30 for part in parts) and not value.startswith("{"):
        end = value[-1] if value[-1] in "])}" else ""
        mark = ", " if ", " in value else ";" if ";" in value else ","
        extra = str(int(max(parts, key=len)) * 7 + 1) if all(part.isdecimal() for part in parts) else "zvqx"
        return [("an element too many", f"{value.removesuffix(end)}{mark}{extra}{end}", True)]
    words = value.strip(".").split(" ")
    if len(words) >= 4 and _SENTENCE.search(value) and not re.search(r"[,;:\n]", value) and words != words[::-1]:
        turned = " ".join([words[-1], *words[1:-1], words[0]])
        return [("a sentence in reverse order", " ".join(words[::-1]), True), ("first and last word swapped", turned, True)]
    if _WORDS.fullmatch(value) and len(value) > 2:
        return [("a longer word", f"{value}zvq", True), ("a word before it", f"anti{value}", value.islower())]
    return []


def _same_listing(value: str, prompt: str) -> list[tuple[str, str, bool]]:
    parts = [part.strip() for part in value.split(",")]
    if len(parts) < 2 or not all(parts) or not all(len(part) < 30 for part in parts) or re.search(r"[\[\](){}\\=]", value):
        return []
    turned = ", ".join(parts[::-1])
    return [("elements in another order", turned, True)] if _ANY_ORDER.search(prompt) and turned != value else []


def _in_form(holding: Callable[[str], str], others: Iterable[tuple[str, str, bool]], golden: str) -> list[Spelling]:
    found = [(kind, holding(said), strong) for kind, said, strong in others]
    return [Spelling(kind, text, strong, doubtful=not strong) for kind, text, strong in found if text != golden]


def _distinct(found: Iterable[Spelling], golden: str) -> list[Spelling]:
    """Each text once, and never golden itself."""
    return list({each.text: each for each in reversed(list(found)) if each.text != golden}.values())[::-1]
