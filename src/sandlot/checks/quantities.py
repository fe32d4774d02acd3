"""Numbers with units, compared exactly: `3.2 km` equals `3200 m`, `36 km/h` equals `10 m/s`.

The unit algebra is small and exact: a unit is a rational factor times powers of base units. A unit that has two meanings
(`gal`, `ton`, `oz`, `month` in days) is refused with both. Temperatures keep their offset: `0 C` is `273.15 K`, but `1 K/min`
is a rate. Money has one base unit per currency, so nothing is converted.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from sandlot.checks.answers import final_text
from sandlot.checks.found import Said, name_of_text, shown
from sandlot.checks.numerals import exact, plain_number
from sandlot.core.ports.grading import Evidence

_MAX_CHARS = 200
_MAX_POWER = 12
_PI = Fraction("3.14159265358979323846264338327950288419716939937510")
# fmt: off
_PREFIXES = {
    "quetta": 30, "ronna": 27, "yotta": 24, "zetta": 21, "exa": 18, "peta": 15, "tera": 12, "giga": 9, "mega": 6, "kilo": 3,
    "hecto": 2, "deca": 1, "deci": -1, "centi": -2, "milli": -3, "micro": -6, "nano": -9, "pico": -12, "femto": -15,
    "atto": -18, "zepto": -21, "yocto": -24,
}
_LETTERS = {
    "Y": 24, "Z": 21, "E": 18, "P": 15, "T": 12, "G": 9, "M": 6, "k": 3, "h": 2, "da": 1, "d": -1, "c": -2, "m": -3, "u": -6,
    "\u00b5": -6, "\u03bc": -6, "n": -9, "p": -12, "f": -15, "a": -18, "z": -21, "y": -24,
}
_SI = {
    "m": "m", "g": "1/1000 kg", "s": "s", "A": "A", "K": "K", "mol": "mol", "cd": "cd", "Hz": "s^-1", "N": "kg m s^-2",
    "Pa": "kg m^-1 s^-2", "J": "kg m^2 s^-2", "W": "kg m^2 s^-3", "C": "A s", "V": "kg m^2 s^-3 A^-1", "F": "kg^-1 m^-2 s^4 A^2",
    "ohm": "kg m^2 s^-3 A^-2", "\u03a9": "kg m^2 s^-3 A^-2", "S": "kg^-1 m^-2 s^3 A^2", "Wb": "kg m^2 s^-2 A^-1",
    "T": "kg s^-2 A^-1", "H": "kg m^2 s^-2 A^-2", "lm": "cd", "lx": "cd m^-2", "Bq": "s^-1", "Gy": "m^2 s^-2", "Sv": "m^2 s^-2",
    "kat": "mol s^-1", "L": "1/1000 m^3", "l": "1/1000 m^3", "eV": "1.602176634e-19 kg m^2 s^-2", "bar": "100000 kg m^-1 s^-2",
    "t": "1000 kg", "cal": "4.184 kg m^2 s^-2", "Wh": "3600 kg m^2 s^-2", "bit": "bit", "B": "8 bit", "M": "1000 mol m^-3",
    "pc": "3.0856775814913673e16 m", "rad": "", "sr": "",
}
_NAMES = {
    "meter": "m", "metre": "m", "gram": "g", "gramme": "g", "second": "s", "sec": "s", "ampere": "A", "amp": "A", "kelvin": "K",
    "mole": "mol", "candela": "cd", "hertz": "Hz", "newton": "N", "pascal": "Pa", "joule": "J", "watt": "W", "coulomb": "C",
    "volt": "V", "farad": "F", "siemens": "S", "weber": "Wb", "tesla": "T", "henry": "H", "lumen": "lm", "lux": "lx",
    "becquerel": "Bq", "gray": "Gy", "sievert": "Sv", "liter": "L", "litre": "L", "electronvolt": "eV", "tonne": "t",
    "calorie": "cal", "byte": "B", "radian": "rad", "molar": "M", "parsec": "pc",
}
_OTHERS = {
    "min": "60 s", "minute": "60 s", "h": "3600 s", "hr": "3600 s", "hour": "3600 s", "d": "86400 s", "day": "86400 s",
    "week": "604800 s", "wk": "604800 s", "month": "month", "year": "12 month", "yr": "12 month",
    "in": "0.0254 m", "inch": "0.0254 m", "ft": "0.3048 m", "foot": "0.3048 m", "feet": "0.3048 m", "yd": "0.9144 m",
    "yard": "0.9144 m", "mi": "1609.344 m", "mile": "1609.344 m", "nmi": "1852 m", "au": "149597870700 m",
    "ly": "9460730472580800 m",
    "\u00c5": "1e-10 m", "angstrom": "1e-10 m", "lb": "0.45359237 kg", "lbs": "0.45359237 kg", "pound": "0.45359237 kg",
    "u": "1.66053906660e-27 kg", "Da": "1.66053906660e-27 kg", "ha": "10000 m^2", "hectare": "10000 m^2",
    "acre": "4046.8564224 m^2",
    "mph": "0.44704 m s^-1", "knot": "1852/3600 m s^-1", "kn": "1852/3600 m s^-1", "kph": "1000/3600 m s^-1", "rpm": "1/60 s^-1",
    "atm": "101325 kg m^-1 s^-2", "mmHg": "133.322387415 kg m^-1 s^-2", "psi": "6894.757293168361 kg m^-1 s^-2",
    "lbf": "4.4482216152605 kg m s^-2", "hp": "745.69987158227022 kg m^2 s^-3", "cc": "0.000001 m^3",
    "deg": f"{_PI.numerator}/{_PI.denominator * 180} ", "degree": f"{_PI.numerator}/{_PI.denominator * 180} ",
    "\u00b0": f"{_PI.numerator}/{_PI.denominator * 180} ", "%": "1/100 ", "percent": "1/100 ", "ppm": "1/1000000 ",
    "ppb": "1/1000000000 ", "bps": "bit s^-1", "KiB": "8192 bit", "MiB": "8388608 bit", "GiB": "8589934592 bit",
    "TiB": "8796093022208 bit", "dozen": "12 ",
    "eur": "EUR", "usd": "USD", "gbp": "GBP", "jpy": "JPY", "chf": "CHF", "EUR": "EUR", "USD": "USD", "GBP": "GBP",
    "JPY": "JPY", "CHF": "CHF",
    "\u20ac": "EUR", "\u00a3": "GBP", "euro": "EUR",
}
_OFFSETS = {
    "\u00b0C": ("K", Fraction(1), Fraction("273.15")), "degC": ("K", Fraction(1), Fraction("273.15")),
    "celsius": ("K", Fraction(1), Fraction("273.15")), "\u2103": ("K", Fraction(1), Fraction("273.15")),
    "\u00b0F": ("K", Fraction(5, 9), Fraction("459.67") * 5 / 9), "degF": ("K", Fraction(5, 9), Fraction("459.67") * 5 / 9),
    "fahrenheit": ("K", Fraction(5, 9), Fraction("459.67") * 5 / 9), "\u2109": ("K", Fraction(5, 9), Fraction("459.67") * 5 / 9),
}
_TWO_MEANINGS = {
    "gal": "US or imperial gallon", "gallon": "US or imperial gallon", "pt": "pint or point", "pint": "US or imperial pint",
    "ton": "metric, short or long ton; write t", "tons": "metric, short or long ton; write t",
    "oz": "ounce of mass or fluid ounce",
    "ounce": "ounce of mass or fluid ounce", "cup": "several cups", "Cal": "cal or kcal", "barrel": "several barrels",
    "billion": "short or long scale", "$": "several dollars; write USD", "dollar": "several dollars; write USD",
    "K\u0062": "kilobit or kibibit", "KB": "1000 or 1024 bytes; write kB or KiB",
}
# fmt: on
_TERM = re.compile(r"([^\s\d^*/().,+-]+)(?:\s*(?:\^|\*\*)\s*\{?\(?([+-]?\d{1,2})\)?\}?|([+-]?\d{1,2}))?")
_LATEX = re.compile(r"\\(?:text|mathrm|rm|operatorname|unit)\s*\{([^{}]*)\}")
_RAISED = str.maketrans("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b\u2212", "0123456789--")
_NUMBER = re.compile(
    r"[+\-\u2212]?\s?(?:\d[\d,. \u00a0\u202f]*\d|\d|\.\d+)"
    r"(?:[eE][+-]?\d{1,3}|\s?(?:[x\u00d7*]|\\times|\\cdot)\s?10\s?\^\s?\{?[+-]?\d{1,3}\}?)?"
)


@dataclass(frozen=True, slots=True)
class Unit:
    """A rational factor times powers of base units, and an offset for temperatures."""

    factor: Fraction = Fraction(1)
    powers: Mapping[str, int] = field(default_factory=dict[str, int])
    offset: Fraction = Fraction(0)

    def times(self, other: "Unit", power: int) -> "Unit":
        """The product with another unit to a power. An offset is lost: `K` and `°C` are the same in a product."""
        powers = dict(self.powers)
        for base, count in other.powers.items():
            powers[base] = powers.get(base, 0) + count * power
        return Unit(self.factor * other.factor**power, {base: count for base, count in powers.items() if count})


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in base units, with the digits as they were written."""

    value: Fraction
    unit: Unit
    written: str

    @property
    def figures(self) -> int:
        """How many significant figures were written: zeros at the end count after a decimal point only."""
        digits = re.sub(r"(?:[eE]|\s?(?:[x\u00d7*]|\\times)).*", "", self.written).replace(",", "").replace(" ", "")
        plain = digits.lstrip("+-\u2212").lstrip("0.") if "." in digits else digits.lstrip("+-\u22120").rstrip("0")
        return len(plain.replace(".", ""))


def quantity_equals(
    evidence: Evidence,
    value: str,
    *,
    relative: float = 0.0,
    absolute: str | float = 0.0,
    significant: int | None = None,
    figures: int | None = None,
    path: str | None = None,
) -> Said:
    """The final answer (or file) is the quantity `value`, in any unit of the same kind.

    - `relative`, `absolute`: the allowed difference, as a share of `value` and as a quantity (`"5 m"`); either is enough.
    - `significant`: right to this many figures of `value`.
    - `figures`: the answer is written with exactly this many significant figures.

    >>> quantity_equals(answer("3200 m"), "3.2 km")
    (True, 'the answer is 3200 m')
    >>> quantity_equals(answer("3.2"), "3.2 km")
    (False, 'the answer has no unit; a length is asked for')
    """
    met, reason = same_quantity(
        final_text(evidence, path), value, relative=relative, absolute=absolute, significant=significant, figures=figures
    )
    return met, reason if path is None else reason.replace("the answer", f"`{path}`", 1)


def quantity_between(evidence: Evidence, low: str, high: str, *, path: str | None = None) -> Said:
    """The final answer (or file) is one quantity from `low` to `high`. A wide interval can be met by guessing.

    >>> quantity_between(answer("9.8 m/s^2"), "9.7 m/s^2", "9.9 m/s^2")
    (True, 'the answer is 9.8 m/s^2')
    """
    ends = [read_quantity(low), read_quantity(high)]
    found = read_quantity(final_text(evidence, path), like=ends[0] if isinstance(ends[0], Quantity) else None)
    if isinstance(ends[0], str) or isinstance(ends[1], str):
        raise ValueError(f"`low` or `high` is not a quantity: {ends}")  # noqa: TRY004 - a wrong value, not a wrong type
    if isinstance(found, str):
        return False, f"{name_of_text(path)} is not one quantity: {found}"
    if dict(found.unit.powers) != dict(ends[0].unit.powers):
        return False, f"{name_of_text(path)} is of another kind: {shown(final_text(evidence, path).strip())}"
    return ends[0].value <= found.value <= ends[1].value, f"{name_of_text(path)} is {final_text(evidence, path).strip()[:80]}"


def same_quantity(
    text: str,
    expected: str,
    *,
    relative: float = 0.0,
    absolute: str | float = 0.0,
    significant: int | None = None,
    figures: int | None = None,
) -> Said:
    """Whether a text is the expected quantity, and why. `quantity_equals` explains the options."""
    wanted = read_quantity(expected)
    if isinstance(wanted, str):
        raise ValueError(f"`{expected}` is not a quantity: {wanted}")  # noqa: TRY004 - a wrong value, not a wrong type
    found = read_quantity(text, like=wanted)
    if isinstance(found, str):
        return False, f"the answer is not one quantity: {found}"
    if dict(found.unit.powers) != dict(wanted.unit.powers):
        kind = _KINDS.get(tuple(sorted(wanted.unit.powers.items())), f"a quantity in the kind of `{expected}`")
        said = "has no unit" if not found.unit.powers and found.unit.factor == 1 else "is of another kind"
        return False, f"the answer {said}; {kind} is asked for"
    if figures is not None and found.figures != figures:
        return False, f"the answer has {found.figures} significant figures, not {figures}"
    allowed = max(abs(wanted.value) * exact(relative), _absolute(absolute, wanted))
    if significant is not None:
        allowed = max(allowed, _half_step(wanted.value - wanted.unit.offset, significant))
    return abs(found.value - wanted.value) <= allowed, f"the answer is {' '.join(text.split())[:80]}"


def read_quantity(text: str, *, like: Quantity | None = None) -> Quantity | str:
    """The quantity that the whole text is, or why it is none. `like` decides whether `C` is a temperature.

    >>> read_quantity("36 km/h").value, read_quantity("10 m s^-1").value
    (Fraction(10, 1), Fraction(10, 1))
    """
    text = _plain(text)
    if len(text) > _MAX_CHARS:
        return f"it has {len(text):,} characters"
    money = re.match(r"([\u20ac\u00a3])\s*", text)
    text = f"{text[money.end() :]} {money[1]}" if money else text
    match = _NUMBER.match(text)
    if match is None:
        return f"{shown(text)} does not begin with a number"
    number = plain_number(match.group())
    if number is None:
        return f"{shown(match.group())} is not one number"
    unit = read_unit(text[match.end() :].strip(), temperature=like is not None and dict(like.unit.powers) == {"K": 1})
    if isinstance(unit, str):
        return unit
    return Quantity(number * unit.factor + unit.offset, unit, match.group().strip())


def read_unit(text: str, *, temperature: bool = False) -> Unit | str:  # noqa: PLR0911 - each says why it is no unit
    """The unit that the whole text names (`m/s^2`, `kg m s^-2`, `°C`), or why it names none."""
    text = _plain(text).translate(_RAISED).replace("\u00b7", "*").replace("\u22c5", "*").replace("\\cdot", "*").strip()
    if not text:
        return Unit()
    text = re.sub(r"\s+per\s+", "/", text)
    if text.count("/") > 1:
        return f"{shown(text)} has two fraction bars"
    alone = _named(text, temperature=temperature)
    if isinstance(alone, Unit):
        return alone
    above, _, below = text.partition("/")
    unit = Unit()
    for part, sign in ((above, 1), (below.strip().removeprefix("(").removesuffix(")"), -1)):
        rest = part.strip()
        while rest:
            match = _TERM.match(rest)
            if match is None or (rest.startswith("1") and sign == 1):
                return f"{shown(text)} is not a unit"
            found = _named(match[1], temperature=temperature)
            if isinstance(found, str):
                return found
            power = int(match[2] or match[3] or 1) * sign
            if abs(power) > _MAX_POWER:
                return f"{shown(text)} has too high a power"
            unit = unit.times(found, power)
            rest = rest[match.end() :].lstrip(" *")
    return unit


def _named(name: str, *, temperature: bool) -> Unit | str:
    """One unit by its symbol or name, with a prefix."""
    if name in _TWO_MEANINGS or name.rstrip("s") in _TWO_MEANINGS:
        return f"`{name}` has two meanings: {_TWO_MEANINGS.get(name) or _TWO_MEANINGS[name.rstrip('s')]}"
    degree = name.replace("\u00b0 ", "\u00b0").replace("degrees ", "deg").replace("degree ", "deg").replace("^\\circ", "\u00b0")
    if temperature and degree in {"C", "F"}:
        degree = f"\u00b0{degree}"
    for each in (degree, degree.casefold()):
        if each in _OFFSETS:
            base, factor, offset = _OFFSETS[each]
            return Unit(factor, {base: 1}, offset)
    if name in _OTHERS:
        return _built(_OTHERS[name])
    if name in _SI:
        return _built(_SI[name])
    for letters, power in _LETTERS.items():
        base = name[len(letters) :]
        if name.startswith(letters) and base in _SI and base not in {"t", "M", "rad"} and (power > 2 or base not in {"B", "bit"}):
            found = _built(_SI[base])
            return Unit(found.factor * Fraction(10) ** power, found.powers)
    return _word(name.casefold()) or f"`{name[:40]}` is not a known unit"


def _word(name: str) -> Unit | None:
    """A unit by its English name, singular or plural, with a prefix in words."""
    for single in (name, name.removesuffix("s"), name.removesuffix("es")):
        if single in _OTHERS and len(single) > 2:
            return _built(_OTHERS[single])
        if single in _NAMES:
            return _built(_SI[_NAMES[single]])
        for prefix, power in _PREFIXES.items():
            if single.startswith(prefix) and single[len(prefix) :] in _NAMES:
                found = _built(_SI[_NAMES[single[len(prefix) :]]])
                return Unit(found.factor * Fraction(10) ** power, found.powers)
    return None


def _built(text: str) -> Unit:
    """A unit from a definition of this file: an optional factor, then base units with powers."""
    factor, powers = Fraction(1), dict[str, int]()
    for word in text.split():
        if word[0].isdigit():
            factor = Fraction(word) if "/" in word else exact(word)
        else:
            base, _, power = word.partition("^")
            powers[base] = powers.get(base, 0) + int(power or 1)
    return Unit(factor, powers)


def _plain(text: str) -> str:
    text = (
        _LATEX.sub(r" \1 ", text[: _MAX_CHARS * 4]).replace("\\,", " ").replace("\\;", " ").replace("~", " ").replace("\\ ", " ")
    )
    text = text.replace("^{\\circ}", "\u00b0").replace("^\\circ", "\u00b0").replace("\\circ", "\u00b0").replace("\\%", "%")
    text = text.replace("\\mu", "\u00b5").replace("\\Omega", "\u03a9").strip().strip("$").strip()
    return " ".join(text.removesuffix(".").split()).replace("\u00b0 ", "\u00b0")


def _absolute(absolute: str | float, wanted: Quantity) -> Fraction:
    """The allowed difference in base units; a plain number is in the unit of the expected value."""
    if not isinstance(absolute, str):
        return exact(absolute) * wanted.unit.factor
    found = read_quantity(absolute)
    if isinstance(found, str) or dict(found.unit.powers) != dict(wanted.unit.powers):
        raise ValueError(f"`absolute` is {absolute!r}, which is not of the kind of the expected quantity")
    return abs(found.value - found.unit.offset)


def _half_step(value: Fraction, figures: int) -> Fraction:
    """Half of the last of so many significant figures."""
    if value == 0:
        return Fraction(0)
    power = 0
    while abs(value) >= Fraction(10) ** (power + 1):
        power += 1
    while abs(value) < Fraction(10) ** power:
        power -= 1
    return Fraction(10) ** (power - figures + 1) / 2


_KINDS: dict[tuple[tuple[str, int], ...], str] = {
    (): "a plain number",
    (("m", 1),): "a length",
    (("kg", 1),): "a mass",
    (("s", 1),): "a time",
    (("K", 1),): "a temperature",
    (("m", 1), ("s", -1)): "a speed",
    (("m", 2),): "an area",
    (("m", 3),): "a volume",
}
