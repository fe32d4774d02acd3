"""Days: counting, moving, working."""

import calendar
from datetime import date, timedelta


def day(text):
    """The day written as `2026-03-01`."""
    return date.fromisoformat(text)


def count(first, last):
    """Days from one to the other, both included."""
    return (day(last) - day(first)).days + 1


def add_months(text, months):
    """The same day so many months later; the last day of a month that is too short for it."""
    start = day(text)
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return date(year, month + 1, min(start.day, last)).isoformat()


def workdays(first, last, holidays=()):
    """Days from Monday to Friday in a span, both ends included, that are no holidays."""
    days = [day(first) + timedelta(days=number) for number in range(count(first, last))]
    return [each.isoformat() for each in days if each.weekday() < 5 and each.isoformat() not in holidays]


def age(born, today):
    """Whole years; one more on the birthday itself."""
    then, now = day(born), day(today)
    return now.year - then.year - ((now.month, now.day) < (then.month, then.day))
