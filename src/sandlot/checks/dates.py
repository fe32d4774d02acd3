"""Checks of dates, moments and durations, read only if they have one meaning.

`04/03/2026` is the fourth of March or the third of April: it is refused, unless the author says which, or only one reading is
a date. So are years of two digits, times without a zone, and `1:30` as a duration.
"""

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sandlot.checks.answers import final_text
from sandlot.checks.found import Said, name_of_text, shown
from sandlot.core.ports.grading import Evidence

_Order = Literal["dmy", "mdy"]
_MAX_CHARS = 100
# fmt: off
_MONTHS = [
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
]
# fmt: on
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" if name != "may" else "may" for name in _MONTHS) + "|sept"
_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?,?\s+)?"
_ISO = re.compile(r"(\d{4})-(\d{2})-(\d{2})|(\d{4})(\d{2})(\d{2})|(\d{4})/(\d{1,2})/(\d{1,2})")
_DAY_FIRST = re.compile(rf"{_WEEKDAY}(\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?({_MONTH})\.?,?\s+(\d{{4}})", re.IGNORECASE)
_MONTH_FIRST = re.compile(rf"{_WEEKDAY}({_MONTH})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+(\d{{4}})", re.IGNORECASE)
_NUMERIC = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})")
_CLOCK = re.compile(
    r"(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,6}))?)?\s*(am|pm|a\.m\.|p\.m\.)?\s*(z|utc|gmt|[+-]\d{2}:?\d{2}|[+-]\d{2})?\s*"
    r"([A-Za-z]+/[A-Za-z_]+)?",
    re.IGNORECASE,
)
_LONG = re.compile(
    r"(\d+(?:\.\d+)?)\s*(weeks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)\b\.?,?\s*(?:and\s+)?", re.IGNORECASE
)
_ISO_DURATION = re.compile(
    r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}


def date_equals(evidence: Evidence, value: str, *, order: _Order | None = None, path: str | None = None) -> Said:
    """The final answer (or file) is the date `value` (`2026-03-04`), in any common form that has one meaning.

    `order` says how `04/03/2026` is read; without it such a date is refused.

    >>> date_equals(answer("Wednesday, March 4th, 2026"), "2026-03-04")
    (True, 'the answer is 2026-03-04')
    >>> date_equals(answer("04/03/2026"), "2026-03-04")
    (False, "the answer is not one date: '04/03/2026' has two readings; write 2026-03-04 or 4 March 2026")
    """
    text = final_text(evidence, path).strip().rstrip(".")
    found = read_date(text, order)
    if isinstance(found, str):
        return False, f"{name_of_text(path)} is not one date: {found}"
    return found == date.fromisoformat(value), f"{name_of_text(path)} is {found.isoformat()}"


def moment_equals(
    evidence: Evidence, value: str, *, zone: str | None = None, tolerance_s: float = 0.0, path: str | None = None
) -> Said:
    """The final answer (or file) is the moment `value` (`2026-03-04T15:30:00+01:00`), in any zone.

    `zone` (`Europe/Berlin`) is the zone of a time that names none; without it such a time is refused.

    >>> moment_equals(answer("4 March 2026, 2:30 pm UTC"), "2026-03-04T15:30:00+01:00")
    (True, 'the answer is 2026-03-04T14:30:00+00:00')
    """
    expected = datetime.fromisoformat(value)
    if expected.tzinfo is None:
        raise ValueError(f"`value` has no zone: {value}")
    found = read_moment(final_text(evidence, path).strip().rstrip("."), zone)
    if isinstance(found, str):
        return False, f"{name_of_text(path)} is not one moment: {found}"
    return abs((found - expected).total_seconds()) <= tolerance_s, f"{name_of_text(path)} is {found.astimezone(UTC).isoformat()}"


def duration_equals(evidence: Evidence, value: str, *, tolerance_s: float = 0.0, path: str | None = None) -> Said:
    """The final answer (or file) is the duration `value`: `90 min`, `1 h 30 min`, `1:30:00`, `PT1H30M`, `1.5 hours`.

    `1:30` alone is refused (hours or minutes?), and so are months and years.

    >>> duration_equals(answer("1 hour and 30 minutes"), "PT90M")
    (True, 'the answer is 5400 seconds')
    """
    expected = read_duration(value)
    if isinstance(expected, str):
        raise ValueError(f"`value` is not a duration: {expected}")  # noqa: TRY004 - a wrong value, not a wrong type
    found = read_duration(final_text(evidence, path).strip().rstrip("."))
    if isinstance(found, str):
        return False, f"{name_of_text(path)} is not one duration: {found}"
    return abs(found - expected) <= Fraction(str(tolerance_s)), f"{name_of_text(path)} is {float(found):.12g} seconds"


def read_date(text: str, order: _Order | None = None) -> date | str:  # noqa: PLR0911 - one return per form
    """The date that the whole text is, or why it is none.

    >>> read_date("4 Mar 2026"), read_date("25/03/2026")
    (datetime.date(2026, 3, 4), datetime.date(2026, 3, 25))
    """
    text = " ".join(text.split())
    if len(text) > _MAX_CHARS:
        return f"it has {len(text):,} characters"
    if match := _ISO.fullmatch(text):
        return _day(*[int(each) for each in match.groups() if each is not None]) or f"{shown(text)} does not exist"
    if match := _DAY_FIRST.fullmatch(text):
        return _day(int(match[3]), _month(match[2]), int(match[1])) or f"{shown(text)} does not exist"
    if match := _MONTH_FIRST.fullmatch(text):
        return _day(int(match[3]), _month(match[1]), int(match[2])) or f"{shown(text)} does not exist"
    if match := _NUMERIC.fullmatch(text):
        first, second, year = int(match[1]), int(match[3]), int(match[4])
        readings = {"dmy": _day(year, second, first), "mdy": _day(year, first, second)}
        possible = {found for name, found in readings.items() if found is not None and order in {None, name}}
        if len(possible) == 1:
            return possible.pop()
        return (
            f"{shown(text)} has two readings; write 2026-03-04 or 4 March 2026" if possible else f"{shown(text)} does not exist"
        )
    return f"{shown(text)} is not a date; write 2026-03-04"


def read_moment(text: str, zone: str | None = None) -> datetime | str:
    """The moment that the whole text is, or why it is none."""
    text = " ".join(text.split())
    if len(text) > _MAX_CHARS:
        return f"it has {len(text):,} characters"
    day, clock = _split_clock(text)
    if clock is None:
        return f"{shown(text)} has no time of day"
    found = read_date(day)
    if isinstance(found, str):
        return found
    seconds = _seconds_of_day(clock)
    if seconds is None:
        return f"{shown(text)} has no such time"
    named = _zone(clock, zone)
    if isinstance(named, str):
        return named
    return datetime(found.year, found.month, found.day, tzinfo=named) + timedelta(seconds=float(seconds))


def read_duration(text: str) -> Fraction | str:
    """Seconds, or why the whole text is no duration."""
    text = " ".join(text.split())
    if len(text) > _MAX_CHARS or not text:
        return f"it has {len(text):,} characters"
    if (match := _ISO_DURATION.fullmatch(text)) and any(match.groups()):
        return sum(
            (Fraction(each) * _SECONDS[unit] for each, unit in zip(match.groups(), "wdhms", strict=True) if each), Fraction(0)
        )
    if re.fullmatch(r"\d+:[0-5]\d:[0-5]\d(?:\.\d+)?", text):
        hours, minutes, seconds = text.split(":")
        return 3600 * Fraction(hours) + 60 * Fraction(minutes) + Fraction(seconds)
    if re.fullmatch(r"\d+:\d+", text):
        return f"{shown(text)} has two readings; write 1:30:00, 1 h 30 min or 1 min 30 s"
    total, place, last = Fraction(0), 0, 10**9
    while place < len(text):
        match = _LONG.match(text, place)
        if match is None or _SECONDS[match[2][0].lower()] >= last:
            return f"{shown(text)} is not a duration; write 1 h 30 min"
        last = _SECONDS[match[2][0].lower()]
        total, place = total + Fraction(match[1]) * last, match.end()
    return total


def _day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _month(name: str) -> int:
    return next(number for number, month in enumerate(_MONTHS, 1) if month.startswith(name[:3].lower()))


def _split_clock(text: str) -> tuple[str, re.Match[str] | None]:
    """The day and the time of a moment; the time is last, after `T`, a comma, `at` or a blank."""
    place = text.find(":")
    start = max(text.rfind(mark, 0, max(place, 0)) for mark in (" ", "T", "t", ","))
    clock = _CLOCK.fullmatch(text[start + 1 :].strip()) if place > 0 and start > 0 else None
    return re.sub(r"(?:,|\s+at)$", "", text[:start].strip().rstrip(",").strip()), clock


def _seconds_of_day(clock: re.Match[str]) -> Fraction | None:
    hour, minute, second = int(clock[1]), int(clock[2]), int(clock[3] or 0)
    half = (clock[5] or "").lower().replace(".", "")
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "pm" else 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    return Fraction(3600 * hour + 60 * minute + second) + Fraction(f"0.{clock[4] or 0}")


def _zone(clock: re.Match[str], zone: str | None) -> tzinfo | str:
    named, offset = clock[7] or (zone if not clock[6] else None), (clock[6] or "").lower()
    if offset in {"z", "utc", "gmt"}:
        return UTC
    if offset:
        hours, minutes = int(offset[1:3]), int(offset[-2:]) if len(offset) > 3 else 0
        if hours > 14 or minutes > 59:
            return f"{shown(offset)} is not a time zone"
        return timezone((-1 if offset[0] == "-" else 1) * timedelta(hours=hours, minutes=minutes))
    if not named:
        return "it names no time zone"
    try:
        return ZoneInfo(named)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f"{shown(named)} is not a time zone"
