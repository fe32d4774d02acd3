"""Wrong dates and times that look like the golden one."""

import datetime as dt
import re

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"(\d{1,2}):(\d{2})")


def near_dates(text: str) -> list[tuple[str, str]]:
    """The kind and text of each wrong date or time; empty if the text is neither."""
    if _DATE.fullmatch(text):
        try:
            return _near_date(dt.date.fromisoformat(text))
        except (ValueError, OverflowError):
            return []
    if (time := _TIME.fullmatch(text)) and int(time[1]) < 24 and int(time[2]) < 60:
        hour, minute, width = int(time[1]), int(time[2]), len(time[1])
        found = [
            ("an hour later", f"{(hour + 1) % 24:0{width}}:{minute:02}"),
            ("a minute later", f"{hour:0{width}}:{minute + 1 if minute < 59 else minute - 1:02}"),
        ]
        return [*found, ("twelve hours later", f"{(hour + 12) % 24:0{width}}:{minute:02}")]
    return []


def _near_date(day: dt.date) -> list[tuple[str, str]]:
    first = day.replace(day=min(day.day, 28))  # every month of every year has it
    found = [
        ("a day later", day + dt.timedelta(days=1)),
        ("a month later", first.replace(month=day.month % 12 + 1)),
        ("another year", first.replace(year=day.year + 1)),
    ]
    if day.day <= 12 and day.day != day.month:
        found.append(("day and month swapped", day.replace(day=day.month, month=day.day)))
    return [(kind, other.isoformat()) for kind, other in found]
