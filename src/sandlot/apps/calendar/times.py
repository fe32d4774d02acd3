"""Times of events: as agents write them, as they are stored (UTC), and as they are shown (with the offset of a zone)."""

import json
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, cast
from zoneinfo import ZoneInfo

from sandlot.apps.clock import parse_time, time_text
from sandlot.core.types import Json

_TIMED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?\Z")
_DAY = re.compile(r"\d{4}-\d\d-\d\d\Z")
_FAR_YEAR = 9000
"""Spans of years are added to times, and Python's calendar ends with 9999."""
_ZONE_CHARS = 64
"""The longest IANA name has 32."""


@dataclass(frozen=True, slots=True)
class EventTime:
    """When an event begins or ends: a moment, or a day for events of whole days."""

    text: str
    """As stored: `2026-01-05T09:00:00Z`, or `2026-01-05`."""
    zone: str

    @property
    def all_day(self) -> bool:
        """True for a day."""
        return "T" not in self.text

    @property
    def moment(self) -> datetime:
        """The moment; of a day, its beginning in the zone."""
        if not self.all_day:
            return parse_time(self.text)
        return datetime.combine(date.fromisoformat(self.text), datetime.min.time(), zone_of(self.zone) or UTC).astimezone(UTC)

    def shown(self) -> Json:
        """As Google's API shows it."""
        return {"date": self.text} if self.all_day else {"dateTime": shown_moment(self.moment, self.zone), "timeZone": self.zone}

    def day_name(self) -> str:
        """`Monday`."""
        local = date.fromisoformat(self.text) if self.all_day else self.moment.astimezone(zone_of(self.zone) or UTC)
        return f"{local:%A}"

    def moved(self, by: timedelta) -> "EventTime":
        """The time so much later."""
        if self.all_day:
            return EventTime((date.fromisoformat(self.text) + by).isoformat(), self.zone)
        return EventTime(time_text(self.moment + by), self.zone)


def zone_of(name: str) -> ZoneInfo | None:
    """A time zone by its IANA name; None if there is none. Agents write it, so long names are not looked up."""
    return _known_zone(name) if len(name) <= _ZONE_CHARS else None


@lru_cache(maxsize=1000)
def _known_zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, ModuleNotFoundError, LookupError, RecursionError):
        return None


def shown_moment(moment: datetime, zone: str) -> str:
    """`2026-01-05T10:00:00+01:00`; `Z` for UTC."""
    return moment.astimezone(zone_of(zone) or UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def is_time(text: str) -> bool:
    """True for a date and time in ISO 8601, with seconds."""
    return bool(_TIMED.match(text)) and _valid(text)


def is_event_time(text: str) -> bool:
    """True for a date and time, a date, or a JSON object with one of them and maybe a time zone."""
    if text.startswith("{"):
        return _from_json(text) is not None
    return is_time(text) or (bool(_DAY.match(text)) and _valid(text))


def _valid(text: str) -> bool:
    try:
        return 1 < datetime.fromisoformat(text).year < _FAR_YEAR
    except ValueError:
        return False


def _from_json(text: str) -> tuple[str, str | None] | None:
    try:
        given: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict):
        return None
    fields = cast("Json", given)
    moment, zone = fields.get("dateTime") or fields.get("date"), fields.get("timeZone")
    fits = isinstance(moment, str) and (is_time(moment) or bool(_DAY.match(moment) and _valid(moment)))
    return (cast("str", moment), zone) if fits and (zone is None or (isinstance(zone, str) and zone_of(zone))) else None


def read_moment(text: str, zone: str) -> datetime:
    """A date and time as UTC; without an offset it is in the zone."""
    time = datetime.fromisoformat(text)
    return (time.replace(tzinfo=zone_of(zone) or UTC) if time.tzinfo is None else time).astimezone(UTC)


def read_event_time(text: str, zone: str) -> EventTime:
    """A time as an agent wrote it, that `is_event_time` accepts."""
    if text.startswith("{"):
        found = _from_json(text)
        assert found is not None
        text, zone = found[0], found[1] or zone
    return EventTime(text, zone) if _DAY.match(text) else EventTime(time_text(read_moment(text, zone)), zone)
