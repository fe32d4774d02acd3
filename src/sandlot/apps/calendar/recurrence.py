"""Events that repeat: the starts that an RRULE gives, within a span of time.

Read are FREQ (DAILY, WEEKLY, MONTHLY, YEARLY), INTERVAL, COUNT, UNTIL, BYDAY (with a number for months), BYMONTHDAY and EXDATE.
Repetition is by the clock on the wall: nine o'clock stays nine o'clock when summer time begins.
"""

import calendar
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from sandlot.apps.calendar.times import EventTime, read_moment, zone_of
from sandlot.apps.clock import time_text

_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_BY_DAY = re.compile(r"([+-]?\d)?(MO|TU|WE|TH|FR|SA|SU)\Z")
_MAX_STEPS = 4000
"""Days, weeks, months or years that are looked at: more than ten years of days."""


@dataclass(frozen=True, slots=True)
class RepeatRule:
    """A parsed RRULE."""

    freq: str
    interval: int = 1
    count: int | None = None
    until: str | None = None
    by_day: tuple[tuple[int, int], ...] = ()
    """Number in the month (0 for each) and weekday."""
    by_month_day: tuple[int, ...] = ()


def read_rule(line: str) -> RepeatRule | None:
    """The rule of `RRULE:FREQ=WEEKLY;COUNT=5`; None if it cannot be read."""
    name, _, text = line.partition(":")
    if name.upper() != "RRULE":
        return None
    parts = {key.upper(): value.upper() for key, _, value in (part.partition("=") for part in text.split(";"))}
    days = [_BY_DAY.match(day) for day in parts.get("BYDAY", "").split(",") if day]
    try:
        month_days = tuple(int(day) for day in parts.get("BYMONTHDAY", "").split(",") if day)
        interval = int(parts.get("INTERVAL", "1"))
        count = int(parts["COUNT"]) if "COUNT" in parts else None
    except ValueError:
        return None
    known = parts.get("FREQ") in {"DAILY", "WEEKLY", "MONTHLY", "YEARLY"}
    if not known or not all(days) or interval < 1 or (count is not None and count < 1):
        return None
    by_day = tuple((int(match[1] or 0), _DAYS.index(match[2])) for match in days if match)
    return RepeatRule(parts["FREQ"], interval, count, parts.get("UNTIL"), by_day, month_days)


def starts_of(first: EventTime, lines: Sequence[str], begin: datetime, end: datetime) -> Iterator[EventTime]:
    """The starts of an event that repeats, from `begin` to before `end`. Its first start is one of them."""
    rule = next((found for line in lines if (found := read_rule(line))), None)
    skipped = {part for line in lines if line.upper().startswith("EXDATE") for part in line.partition(":")[2].split(",")}
    if rule is None:
        if begin <= first.moment < end:
            yield first
        return
    for number, start in enumerate(_all_starts(first, rule)):
        if (rule.count is not None and number >= rule.count) or start.moment >= end or _is_past(start, rule.until):
            return
        if start.moment >= begin and stamp_of(start) not in skipped:
            yield start


def stamp_of(start: EventTime) -> str:
    """`20260105T090000Z`, or `20260105`: how an instance is named."""
    return start.text.replace("-", "").replace(":", "")


def _is_past(start: EventTime, until: str | None) -> bool:
    if until is None:
        return False
    return stamp_of(start)[: len(until)] > until if len(until) == len("20260105") else stamp_of(start) > until


def _all_starts(first: EventTime, rule: RepeatRule) -> Iterator[EventTime]:
    zone = zone_of(first.zone) or UTC
    local = first.moment.astimezone(zone)
    for step in range(_MAX_STEPS):
        for day in _days_of(local.date(), rule, step * rule.interval):
            if day < local.date():
                continue
            if first.all_day:
                yield EventTime(day.isoformat(), first.zone)
            else:
                naive = datetime.combine(day, local.time().replace(tzinfo=None))
                yield EventTime(time_text(read_moment(naive.isoformat(), first.zone)), first.zone)


def _days_of(first: date, rule: RepeatRule, ahead: int) -> list[date]:
    """The days that a rule picks in one day, week, month or year, which is `ahead` after the first."""
    try:
        match rule.freq:
            case "DAILY":
                day = first + timedelta(days=ahead)
                return [day] if not rule.by_day or any(day.weekday() == weekday for _, weekday in rule.by_day) else []
            case "WEEKLY":
                monday = first - timedelta(days=first.weekday()) + timedelta(weeks=ahead)
                weekdays = sorted(weekday for _, weekday in rule.by_day) or [first.weekday()]
                return [monday + timedelta(days=weekday) for weekday in weekdays]
            case "MONTHLY":
                return _days_of_month(
                    first.year + (first.month - 1 + ahead) // 12, (first.month - 1 + ahead) % 12 + 1, first.day, rule
                )
            case _:
                return [first.replace(year=first.year + ahead)]
    except (ValueError, OverflowError):  # 29 February, or after the year 9999
        return []


def _days_of_month(year: int, month: int, day: int, rule: RepeatRule) -> list[date]:
    length = calendar.monthrange(year, month)[1]
    if rule.by_day:
        found: list[date] = []
        for number, weekday in rule.by_day:
            days = [date(year, month, each) for each in range(1, length + 1) if date(year, month, each).weekday() == weekday]
            chosen = days if number == 0 else days[number - 1 : number] if number > 0 else days[number:][:1]
            found += chosen
        return sorted(found)
    wanted = rule.by_month_day or (day,)
    numbers = sorted(each if each > 0 else length + 1 + each for each in wanted)
    return [date(year, month, each) for each in numbers if 1 <= each <= length]
