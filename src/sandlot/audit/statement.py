"""What a golden answer states, and whether another text states it too.

The rules are careful in one direction: `leaves_out` and `contradiction` speak only where the other text is wrong by what golden
states. Golden may explain itself, while another answer gives the letter or the last number alone: that is not wrong.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from sandlot.core.types import Json

_MARKED = re.compile(
    r"####\s*([^\n]+)|\\boxed\{([^{}]+)\}|<answer>\s*(.*?)\s*</answer>|(?i:\banswer\s*(?:is|:|=))\s*([^\n]+)", re.DOTALL
)
_LETTER = re.compile(r"\W{0,2}(?i:option |choice )?\(?([A-Z])(?:\)|[.:,](?!\w)|\s*$|\s+[-\u2013]\s)")
_NUMBER = re.compile(r"(?:(?<![\w.)])[-+\u2212])?(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:/\d+)?")
_OPTION = re.compile(r"(?m)(?:^|[\s(])\(?([A-Z])[).:]\s")
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be been but by for from had has have he in into is it its not of on or she so that the their them "
        "then there these they this those to was we were which will with you your answer",
    )
)
_FEW_WORDS = 4
_SHOWN = 60


def core_of(golden: str) -> str:
    """The part of a golden answer that decides: what it marks as the answer, the letter of its option, else all of it."""
    marked = [next((text for text in found.groups() if text), "") for found in _MARKED.finditer(golden)]
    text = (marked[-1] if marked else golden).strip()
    letter = _LETTER.match(text)
    return letter[1] if letter else text


def same_core(one: str, other: str) -> bool:
    """True if two golden answers say the same: the same letter, number or words."""
    return _reading(core_of(one)) == _reading(core_of(other))


def leaves_out(answer: str, golden: str, key: Json | None = None) -> str | None:
    """What golden states and the answer does not; None if the answer may state it. `key` is the task's key."""
    core = core_of(golden)
    if not core or _states(answer, core) or any(_states(answer, value) for value in _short_values(key, golden)):
        return None
    numbers = numbers_in(core)
    if len(numbers) > 1 and any(number in numbers_in(answer) for number in numbers) and len(core.split()) > len(numbers):
        return None  # one of several numbers in a sentence may be the answer
    return shorten(core)


def contradiction(answer: str, golden: str) -> str | None:
    """How an answer of golden's form says something else; None if both say the same or one may be part of the other."""
    core, given = core_of(golden), core_of(answer)
    if _reading(core) == _reading(given) or not core.strip() or not given.strip():
        return None
    return f"golden states `{shorten(core)}`, this states `{shorten(given)}`"


def numbers_in(text: str) -> list[Fraction]:
    """Every number of a text, with its sign."""
    return [value for found in _NUMBER.findall(text) if (value := _as_number(found)) is not None]


def option_letters(prompt: str) -> list[str]:
    """The letters of the options that a prompt lists: `A` and the following ones; empty if it lists none."""
    seen = set(_OPTION.findall(prompt))
    letters = [letter for letter in map(chr, range(ord("A"), ord("Z") + 1)) if letter in seen]
    return letters if letters[:2] == ["A", "B"] else []


def _states(answer: str, core: str) -> bool:
    """True if the answer may state the core: a number of the same value, the letter, the words, or half of many words."""
    number = _as_number(core)
    if number is not None:
        return number in numbers_in(answer)
    if len(core) == 1 and core.isupper():
        return answer.strip(" .()").upper() == core or re.search(rf"(?<![A-Za-z]){core}(?![A-Za-z'])", answer) is not None
    said, wanted = _plain(answer), _plain(core)
    if re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", said):
        return True
    words = set(_content(wanted))
    if len(words) <= _FEW_WORDS:
        return False
    missing = words - set(_content(said))
    numbers = numbers_in(core)
    return len(missing) * 2 <= len(words) and (not numbers or any(number in numbers_in(answer) for number in numbers))


def _short_values(key: Json | None, golden: str) -> Iterator[str]:
    """Single values of a task's key that are part of golden's answer: each of them alone may be the answer."""
    values: list[Any] = list(key.values()) if key else []
    for value in values:
        text = str(value).strip()
        single = isinstance(value, str | int | float) and not isinstance(value, bool)
        if single and 0 < len(text) < len(golden.strip()) and _states(golden, text):
            yield text


def _reading(text: str) -> Fraction | str:
    number = _as_number(text)
    return _plain(text) if number is None else number


def _as_number(text: str) -> Fraction | None:
    plain = text.strip().strip("$ .").replace(",", "").replace("\u2212", "-")
    try:
        return Fraction(plain) if re.fullmatch(r"[-+]?\d+(?:\.\d+)?(?:/\d+)?", plain) and len(plain) < _SHOWN else None
    except ZeroDivisionError:
        return None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .,;:!?\"'`*()[]{}<>$\\")


def _content(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text) if word not in _STOP_WORDS]


def shorten(text: str) -> str:
    """One line of at most 60 characters."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
