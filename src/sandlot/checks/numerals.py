"""Numbers as people write them, read exactly: `1,204.50`, `1.204,50`, `2e5`, `three hundred and five`.

A number is read only if it has one meaning. `1,204` is grouped in threes, so it is 1204; `1,20` cannot be, so its comma is a
decimal comma. `1.204` is a decimal number unless the caller says that the decimal mark is a comma.
"""

import re
from fractions import Fraction

from sandlot.checks.answers import final_text
from sandlot.checks.found import Said, name_of_text, shown
from sandlot.core.ports.grading import Evidence

_MAX_CHARS = 400
_MAX_POWER = 400
_SPACES = "\u00a0\u202f\u2009'\u2019"
"""Characters between groups of digits, besides a blank."""
_SIGNS = str.maketrans({"\u2212": "-", "\u2013": "-", "\uff0b": "+", **dict.fromkeys(_SPACES, " ")})
_SCIENTIFIC = re.compile(r"(?:[eE]|\s*(?:[x\u00d7\u00b7*]|\\times|\\cdot)\s*10\s*(?:\^|\*\*)\s*)\s*\{?\(?([+-]?\d{1,3})\)?\}?")
_RAISED = str.maketrans("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b", "0123456789-")
_POINT = re.compile(r"\d+(?:\.\d*)?|\.\d+")
_COMMA = re.compile(r"\d+(?:,\d+)?|,\d+")
_GROUPED_POINT = re.compile(r"\d{1,3}(?:([, ])\d{3})(?:\1\d{3})*(?:\.\d+)?")
_GROUPED_COMMA = re.compile(r"\d{1,3}(?:([. ])\d{3})(?:\1\d{3})*(?:,\d+)?")
_MONEY = re.compile(r"[$\u20ac\u00a3\u00a5]")

# fmt: off
_ONES = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18,
    "nineteen": 19,
}
_TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}
# fmt: on
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}


def number_equals(
    evidence: Evidence, value: float, *, tolerance: float = 0.0, decimal_comma: bool = False, path: str | None = None
) -> Said:
    """The final answer (or file) is one number, in digits or English words, and it is `value` up to `tolerance`.

    `decimal_comma` reads `1.204` as 1204. Text around the number is not read: use `answer_number` for that.

    >>> number_equals(answer("one thousand two hundred and four"), 1204)
    (True, 'the answer is 1204')
    >>> number_equals(answer("12 or 13"), 12)
    (False, "the answer is not one number: '12 or 13'")
    """
    text = final_text(evidence, path).strip().rstrip(".") or " "
    number = plain_number(text, decimal_comma=decimal_comma)
    number = number_in_words(text) if number is None else number
    if number is None:
        return False, f"{name_of_text(path)} is not one number: {shown(text)}"
    return abs(number - exact(value)) <= exact(tolerance), f"{name_of_text(path)} is {show_number(number)}"


def plain_number(text: str, *, decimal_comma: bool = False) -> Fraction | None:
    """The number that the whole text writes in digits, exactly; None if it is no number or has two readings.

    >>> plain_number("$1,204.50"), plain_number("1.204,50"), plain_number("2.5e-3"), plain_number("1,2,3")
    (Fraction(2409, 2), Fraction(2409, 2), Fraction(1, 400), None)
    """
    text = text.strip().translate(_SIGNS)
    if not text or len(text) > _MAX_CHARS or (not text.isascii() and not _MONEY.search(text) and "\u00d7" not in text):
        return None
    sign = -1 if text.startswith("-") else 1
    text = text.lstrip("+-") if text[:2] not in {"--", "++", "+-", "-+"} else ""
    text = _MONEY.sub("", text, count=1).strip()
    power = _SCIENTIFIC.search(text)
    if power is not None:
        if text[power.end() :].strip() or abs(int(power[1])) > _MAX_POWER:
            return None
        text = text[: power.start()]
    digits = _mantissa(text.strip(), decimal_comma=decimal_comma)
    if digits is None:
        return None
    return sign * Fraction(digits) * Fraction(10) ** (int(power[1]) if power else 0)


def _mantissa(text: str, *, decimal_comma: bool) -> str | None:
    """The digits with a decimal point and no groups; None if they are not a number."""
    if decimal_comma:
        if _COMMA.fullmatch(text):
            return text.replace(",", ".")
        return re.sub("[. ]", "", text).replace(",", ".") if _GROUPED_COMMA.fullmatch(text) else None
    if _POINT.fullmatch(text):
        return text
    if _GROUPED_POINT.fullmatch(text):
        return re.sub("[, ]", "", text)
    if _COMMA.fullmatch(text) or (_GROUPED_COMMA.fullmatch(text) and "," in text):  # no English reading: a decimal comma
        return re.sub("[. ]", "", text).replace(",", ".")
    return None


def number_in_words(text: str) -> Fraction | None:
    """The number that the whole text writes in English words; None if it is not one.

    >>> number_in_words("minus two million three hundred thousand and five"), number_in_words("two one")
    (Fraction(-2300005, 1), None)
    """
    words = re.findall(r"[a-z]+", text[:_MAX_CHARS].casefold())
    if len(text) > _MAX_CHARS or re.search(r"[^a-z\s,-]", text.casefold()) or not words:
        return None
    sign = -1 if words[0] in {"minus", "negative"} else 1
    words = [word for word in words[1 if words[0] in {"minus", "negative"} else 0 :] if word != "and"]
    total, group, last, scale = 0, 0, 10**15, 10**15
    for word in words:
        if word in _ONES or word in _TENS:
            value = _ONES.get(word, _TENS.get(word, 0))
            fits = (last == 10**15 and group == 0) or (last in _TENS.values() and value < 10 and value > 0) or last == 100
            if not fits:
                return None
            group, last = group + value, value
        elif word == "hundred":
            if not 0 < group < 10:
                return None
            group, last = group * 100, 100
        elif word in _SCALES and group and _SCALES[word] < scale:
            total, group, last, scale = total + group * _SCALES[word], 0, 10**15, _SCALES[word]
        else:
            return None
    return Fraction(sign * (total + group)) if words else None


def exact(value: float | str | Fraction) -> Fraction:
    """An author's number, exactly as written: 0.1 is one tenth. `ValueError` if it is not finite."""
    return value if isinstance(value, Fraction) else Fraction(str(value))


def show_number(number: Fraction) -> str:
    """A number as reasons show it."""
    if number.denominator == 1 and abs(number) < 10**15:
        return str(number.numerator)
    try:
        return f"{float(number):.12g}"
    except OverflowError:
        return "a very large number"
