r"""Numbers with units, percentages and LaTeX: the same quantity written otherwise, and other quantities that look like it."""

import re
from fractions import Fraction

_NUMBER = r"[+-]?\d{1,12}(?:\.\d{1,9})?"
_WITH_UNIT = re.compile(rf"({_NUMBER})\s?(%|[A-Za-zµ°]+(?:/[A-Za-z]+)?)")
_LATEX_RATIO = re.compile(r"(-?)\\[dt]?frac\s*\{(-?\d{1,9})\}\s*\{(\d{1,9})\}")
POINT_AND_STOP, NO_POINT = "a decimal point in it, and a full stop", "no decimal point, and a full stop"
# fmt: off
_FACTORS = {
    "km": ("m", 1000), "m": ("cm", 100), "cm": ("mm", 10), "kg": ("g", 1000), "g": ("mg", 1000), "l": ("ml", 1000),
    "L": ("mL", 1000), "h": ("min", 60), "min": ("s", 60), "hours": ("minutes", 60), "minutes": ("seconds", 60),
    "days": ("hours", 24),
}
_NAMES = {
    "km": "kilometers", "m": "meters", "cm": "centimeters", "kg": "kilograms", "g": "grams", "l": "liters", "s": "seconds",
    "h": "hours", "min": "minutes", "%": "percent",
}
# fmt: on
_PERCENT = re.compile(r"(?i)%|\bper ?cent|\\%")


def same_quantity(value: str, prompt: str) -> list[tuple[str, str, bool]]:
    """The kind and text of each other spelling, and whether it certainly means the same."""
    found: list[tuple[str, str, bool]] = []
    if unit := _WITH_UNIT.fullmatch(value):
        number, name = unit[1], unit[2]
        between = "" if " " in value else " "
        if between == "" or name != "%":
            found.append(("other space before the unit", f"{number}{between}{name}", True))
        if name in _NAMES:
            found.append(("the unit's whole name", f"{number} {_NAMES[name]}", False))
        if name in _FACTORS:
            other, factor = _FACTORS[name]
            asked = re.search(rf"(?<![A-Za-z])(?:{name}|{_NAMES.get(name, name)})(?![A-Za-z])", prompt) is not None
            found.append(("the same quantity in another unit", f"{_plain(Fraction(number) * factor)} {other}", not asked))
    elif re.fullmatch(_NUMBER, value):
        found += _same_number(value, prompt)
    if ratio := _LATEX_RATIO.fullmatch(value):
        sign, top, bottom = ratio[1], ratio[2], ratio[3]
        found += [("a plain fraction", f"{sign}{top}/{bottom}", True), ("`\\dfrac`", f"{sign}\\dfrac{{{top}}}{{{bottom}}}", True)]
        found.append(("spaces in LaTeX", f"{sign}\\frac {{{top}}} {{{bottom}}}", True))
    return found


def _same_number(value: str, prompt: str) -> list[tuple[str, str, bool]]:
    found = [("dollar signs around it", f"${value}$", False)] if "\\" in prompt or prompt.count("$") > 1 else []
    if value.startswith("-"):
        found.append(("a minus sign of typography", f"\u2212{value[1:]}", False))
    if _PERCENT.search(prompt):
        found.append(("a percent sign after it", f"{value}%", False))
    if "$" in prompt and "\\" not in prompt and not value.startswith("-"):
        found.append(("a currency sign before it", f"${value}", False))
    whole = Fraction(value)
    if abs(whole) >= 100_000 and whole.denominator == 1:
        found.append(("scientific notation", _scientific(int(whole)), False))
    return found


def other_quantity(value: str, prompt: str) -> list[tuple[str, str, bool]]:
    """The kind and text of each wrong answer, and whether it is certainly wrong."""
    if re.fullmatch(_NUMBER, value):
        return _other_number(value, prompt)
    if (unit := _WITH_UNIT.fullmatch(value)) and Fraction(unit[1]):
        found = [("another number with the same unit", f"{_plain(Fraction(unit[1]) * 3 + 7)}{value[len(unit[1]) :]}", True)]
        return [*found, ("a hundredth", f"{_plain(Fraction(unit[1]) / 100)}{value[len(unit[1]) :]}", True)]
    if ratio := _LATEX_RATIO.fullmatch(value):
        sign, top, bottom = ratio[1], int(ratio[2]), int(ratio[3])
        found = [("the other sign", f"{'' if sign else '-'}\\frac{{{top}}}{{{bottom}}}", top != 0)]
        found += [("another denominator", f"{sign}\\frac{{{top}}}{{{bottom + 1}}}", top != 0)]
        found += [("another numerator", f"{sign}\\frac{{{top + 1}}}{{{bottom}}}", True)]
        return [*found, ("the numerator alone", f"{sign}{top}", bottom != 1 and top != 0)]
    return []


def _other_number(value: str, prompt: str) -> list[tuple[str, str, bool]]:
    number = Fraction(value)
    if not number:
        return [("not zero", "1", True), ("not zero, but small", "0.4", True)]
    exact = not re.search(r"(?i)\b(?:about|approx\w*|around|rough\w*|estimat\w*|nearest|round\w*|decimal)\b", prompt)
    found = [
        ("a digit before it", f"-7{value[1:]}" if value.startswith("-") else f"7{value}", True),
        ("a digit after it", f"{value}7" if "." not in value else f"{value.partition('.')[0]}7.{value.partition('.')[2]}", True),
        ("divided by more than itself", f"{value}/{_plain(abs(number) * 3 + 1)}", False),  # readers of one number stop early
        ("to the power of two", f"{value}^2", False),
        ("a million times as much", f"{value} million", False),
        ("plus another number", f"{value} + {_plain(abs(number) + 3)}", False),
        ("half a unit more", _plain(number + Fraction(1, 2)), exact and number.denominator == 1 and abs(number) < 1000),
    ]
    if not _PERCENT.search(prompt):
        found.append(("a percent sign after it", f"{value}%", False))
    digits = value.lstrip("+-")
    if digits.isdecimal() and len(digits) >= 2 and not digits.endswith("0"):
        pointed = f"{value[: -len(digits) + 1]}.{digits[1:]}"
        found += [("a decimal point in it", pointed, True), (POINT_AND_STOP, f"{pointed}.", True)]
    elif "." in digits:
        found.append((NO_POINT, f"{value.replace('.', '')}.", bool(digits.replace(".", "").strip("0"))))
    return found


def _plain(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.12g}"


def _scientific(value: int) -> str:
    digits = str(abs(value))
    rest = digits[1:].rstrip("0")
    return f"{'-' if value < 0 else ''}{digits[0]}{'.' + rest if rest else ''}e{len(digits) - 1}"
