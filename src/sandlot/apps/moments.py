"""Dates as Jira and Confluence write them: `2026-03-01`, `"2026/03/01 14:30"`, `-7d`, `startOfMonth(-1)`, `2h 30m`."""

import re
from datetime import UTC, datetime, timedelta

_UNITS = {
    "y": timedelta(days=365),
    "M": timedelta(days=30),
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
}
_WORKED_S = {"w": 5 * 8 * 3600, "d": 8 * 3600, "h": 3600, "m": 60}
_FORMS = "write yyyy-MM-dd, 'yyyy-MM-dd HH:mm', or a time from now such as -7d, 4w, -2h"


def parse_moment(text: str, now: datetime) -> datetime:
    """A date, a date with a time, or a time from now; `ValueError` if it is none."""
    said = text.strip()
    relative = re.fullmatch(r"([+-]?)((?:\d{1,6}[yMwdhm]\s*)+)", said)
    if relative:
        steps = [(int(count), unit) for count, unit in re.findall(r"(\d+)([yMwdhm])", relative[2])]
        distance = sum((_UNITS[unit] * count for count, unit in steps), timedelta())
        try:
            return now - distance if relative[1] == "-" else now + distance
        except OverflowError as error:
            raise ValueError(f"It is too far from now; {_FORMS}.") from error
    match = re.fullmatch(
        r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[ T](\d{1,2}):(\d{2})(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?", said
    )
    if match is None:
        raise ValueError(f"Valid formats: {_FORMS}.")
    parts = [int(each) if each else 0 for each in match.groups()]
    return datetime(parts[0], parts[1], parts[2], parts[3], parts[4], tzinfo=UTC)


def named_moment(function: str, argument: str, now: datetime) -> datetime:
    """The value of a date function, such as `startOfWeek()` or `endOfMonth(1)`; `ValueError` if there is no such function."""
    if function == "now":
        return now
    match = re.fullmatch(r"(start|end)of(day|week|month|year)", function)
    if match is None:
        raise ValueError(
            f"There is no function {function}(); there are now(), startOfDay(), endOfDay(), and the same for Week, Month, Year."
        )
    shift = re.fullmatch(r"([+-]?\d{1,4})([yMwdhm]?)", argument.strip()) if argument.strip() else None
    if argument.strip() and shift is None:
        raise ValueError(f"The argument '{argument[:40]}' is not a step such as -1 or 2.")
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    steps = int(shift[1]) if shift and not shift[2] else 0
    first = _first_of(match[2], day, steps + (match[1] == "end"))
    moment = first - timedelta(seconds=1) if match[1] == "end" else first
    return moment + _UNITS[shift[2]] * int(shift[1]) if shift and shift[2] else moment


def _first_of(unit: str, day: datetime, steps: int) -> datetime:
    match unit:
        case "day":
            return day + timedelta(days=steps)
        case "week":
            return day - timedelta(days=day.weekday()) + timedelta(weeks=steps)
        case "month":
            months = day.year * 12 + day.month - 1 + steps
            return day.replace(year=months // 12, month=months % 12 + 1, day=1)
        case _:
            return day.replace(year=day.year + steps, month=1, day=1)


def parse_worked(text: str) -> int:
    """Seconds of a duration such as `1w 2d 3h 30m`, with Jira's working day of 8 hours; `ValueError` if it is none."""
    parts = re.findall(r"(\d{1,6})\s*([wdhm])", text)
    if not parts or re.sub(r"\d{1,6}\s*[wdhm]|\s", "", text):
        raise ValueError(f"'{text[:40]}' is not a duration; write for example 1w 2d 3h 30m")
    return sum(int(count) * _WORKED_S[unit] for count, unit in parts)


def worked_text(seconds: int) -> str:
    """Seconds as Jira shows them: `1d 2h`."""
    parts: list[str] = []
    for unit, size in _WORKED_S.items():
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts) or "0m"
