"""Other spellings of a golden answer, and wrong answers that look like it.

`same_value` gives texts that mean the same as the golden answer; `near_misses` gives texts that mean something else. Both are
empty for prose, because no rule can say what means the same.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from sandlot.audit.probes.grader.dates import near_dates
from sandlot.audit.probes.grader.objects import near_object, object_in, same_object

_NUMBER = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>\d{1,12})(?P<part>\.\d{1,9})?(?:(?P<space>\s?)(?P<unit>%|[A-Za-zµ°€$£²³/]{1,12}))?"
)
_RATIO = re.compile(r"(-?\d{1,6})/(\d{1,6})")
# fmt: off
_UNITS = {
    "km": "cm", "m": "km", "cm": "km", "mm": "m", "kg": "g", "g": "kg", "lb": "kg", "s": "h", "h": "s", "min": "s", "l": "ml",
    "ml": "l", "C": "F", "F": "C", "K": "C", "miles": "km", "EUR": "USD", "USD": "EUR",
}
# fmt: on
"""Units, each with another unit for the same quantity."""
DECIMAL_ZERO, OTHER_SIGN = "a decimal zero", "the other sign"
IN_REVERSE = "in reverse order"
_SMALL = 1000
"""Below this, off by one is wrong; above, it may be within a tolerance."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """Another answer, and how it differs from the golden one."""

    kind: str
    text: str
    strong: bool = True
    """True if it certainly means the same; for a near miss, if it is certainly wrong."""
    any_format: bool = False
    """True if it fits even a strictly described format."""
    doubtful: bool = False
    """True if a grader may rightly refuse it, so that it is at most a lead."""


def same_value(golden: str) -> list[Spelling]:
    """The same value in other spellings."""
    text = golden.strip()
    if (fields := object_in(text)) is not None:
        return [Spelling(kind, other, any_format=True) for kind, other in same_object(fields, text)]
    found = [
        Spelling("space around it", f"  {text}\n", strong=False),
        Spelling("a full stop after it", f"{text}.", strong=False),
    ]
    number = _NUMBER.fullmatch(text)
    if number:
        return found + _numbers(number)
    if ratio := _RATIO.fullmatch(text):
        return found + _ratios(Fraction(int(ratio[1]), int(ratio[2]))) if int(ratio[2]) else found
    if re.fullmatch(r"[A-Za-z]+(?: [A-Za-z]+){0,3}", text) and len(text) > 1:
        cases = {"upper case": text.upper(), "lower case": text.lower(), "a capital at its beginning": text[0].upper() + text[1:]}
        return [*found, *(Spelling(kind, other, strong=False) for kind, other in cases.items() if other != text)]
    if len(_listed(text)) >= 2:
        joint = "," if ", " in text else ", "
        other = text.replace(", ", ",") if joint == "," else text.replace(",", ", ")
        return [*found, Spelling("space between elements", other, strong=False)]
    return found if 0 < len(text) < 40 and "\n" not in text else []


def _numbers(number: re.Match[str]) -> list[Spelling]:
    sign, whole, part = number["sign"], number["whole"], number["part"] or ""
    unit = f"{number['space'] or ''}{number['unit'] or ''}"
    found = [Spelling("a trailing zero" if part else DECIMAL_ZERO, f"{sign}{whole}{part or '.'}0{unit}", strong=bool(part))]
    if len(whole) > 3:
        found.append(Spelling("a thousands separator", f"{sign}{int(whole):,}{part}{unit}"))
    if part.endswith("0"):
        found.append(Spelling("no trailing zero", f"{sign}{whole}{part.rstrip('0').rstrip('.')}{unit}"))
    if part and not unit:
        found += [other for other in _ratios(Fraction(f"{sign}{whole}{part}")) if other.kind == "a fraction"]
    if number["unit"] and number["unit"] != "%":
        found.append(Spelling("no space before the unit", f"{sign}{whole}{part}{number['unit']}"))
    return found


def _ratios(value: Fraction) -> list[Spelling]:
    denominator = value.denominator
    while denominator % 2 == 0:
        denominator //= 2
    while denominator % 5 == 0:
        denominator //= 5
    decimal = [Spelling("a decimal number", f"{float(value):.12g}")] if denominator == 1 else []
    ratio = [Spelling("a fraction", f"{value.numerator}/{value.denominator}")] if 1 < value.denominator < 10_000 else []
    return decimal + ratio


def near_misses(golden: str) -> list[Spelling]:
    """Wrong answers that look like the golden one."""
    text = golden.strip()
    fields = object_in(text)
    if structured := near_object(fields) if fields is not None else near_dates(text):
        return [Spelling(kind, other) for kind, other in structured]
    number = _NUMBER.fullmatch(text)
    if number:
        return _near_numbers(number)
    if ratio := _RATIO.fullmatch(text):
        return _near_ratios(int(ratio[1]), int(ratio[2]))
    if 1 < len(text) < 40 and re.fullmatch(r"[A-Za-z]+(?: [A-Za-z]+){0,3}", text):
        return _near_words(text)
    return _near_lists(text)


def _near_ratios(top: int, bottom: int) -> list[Spelling]:
    if not top:
        return []
    found = [Spelling(OTHER_SIGN, f"{-top}/{bottom}"), Spelling("off by one", f"{top + 1}/{bottom}")]
    if abs(top) == bottom:
        return found
    return [Spelling("numerator and denominator swapped", f"{'-' if top < 0 else ''}{bottom}/{abs(top)}"), *found]


def _near_lists(text: str) -> list[Spelling]:
    if len(parts := _listed(text)) >= 3:
        joint = next(mark for mark in (", ", ",", "; ", ";") if mark in text)
        before, after = (text[0], text[-1]) if text[0] in "[({" else ("", "")
        short = [Spelling("without its last element", before + joint.join(parts[:-1]) + after)]
        return [*short, Spelling(IN_REVERSE, before + joint.join(parts[::-1]) + after, strong=False)]
    words = text.split(" ")
    if len(words) >= 3 and words != words[::-1] and not re.search(r"[,;.:\n]", text):
        return [Spelling(IN_REVERSE, " ".join(words[::-1]), strong=False)]
    return []


def _near_words(text: str) -> list[Spelling]:
    found = [Spelling("spelled backwards", text[::-1], strong=False)] if text[::-1].casefold() != text.casefold() else []
    if len(text) > 3:
        found += [
            Spelling("only its beginning", text[: max(1, len(text) // 3)]),
            Spelling("only its first letter", text[0]),
            Spelling("another last letter", text[:-1] + ("k" if text[-1].lower() != "k" else "w")),
            Spelling("`not` before it", f"not {text}"),
        ]
    return [*found, *_near_lists(text)]


def _near_numbers(number: re.Match[str]) -> list[Spelling]:
    sign, whole, part = number["sign"], number["whole"], number["part"] or ""
    unit, value = f"{number['space'] or ''}{number['unit'] or ''}", float(f"{number['whole']}{part}")
    found: list[Spelling] = []
    if value:
        found.append(Spelling(OTHER_SIGN, f"{'' if sign == '-' else '-'}{whole}{part}{unit}"))
        found.append(Spelling("ten times as much", f"{sign}{value * 10:.12g}{unit}"))
        found.append(Spelling("20 % more", f"{sign}{value * 1.2:.12g}{unit}"))
    if part.strip(".0"):
        found.append(Spelling("no decimal point", f"{sign}{whole}{part[1:]}{unit}"))
    if value < _SMALL:
        found.append(Spelling("off by one", f"{sign}{int(whole) + 1}{part}{unit}"))
    if len(whole) > 2:
        found.append(Spelling("one digit missing", f"{sign}{whole[:-1]}{part}{unit}"))
    if number["unit"] in _UNITS:
        found.append(Spelling("another unit", f"{sign}{whole}{part}{number['space'] or ''}{_UNITS[number['unit']]}"))
    if value:
        found.append(Spelling("`not` before it", f"not {sign}{whole}{part}{unit}", strong=False))
        found.append(Spelling("1 % more", f"{sign}{value * 1.01:.12g}{unit}", strong=False))
    return found


def _listed(text: str) -> list[str]:
    """The elements of a written list."""
    parts = [part.strip() for part in re.split(r"[,;]", text.strip("[](){}"))]
    return parts if len(parts) > 1 and all(parts) and all(len(part) < 30 for part in parts) else []
