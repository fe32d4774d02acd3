"""World time. The environment owns it: it moves by stated amounts, and nothing here reads the real clock."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sandlot.core.errors import AuthorError

_FIRST = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
"""When a world starts, if the environment does not say: a Monday morning."""


def parse_time(text: str) -> datetime:
    """A time in ISO 8601 as UTC; without an offset it is UTC. `ValueError` if it is not a time."""
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def time_text(time: datetime) -> str:
    """A time as the apps store it: `2026-01-05T09:00:00Z`. Sorted as text, such times are in order."""
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


@dataclass(slots=True)
class WorldClock:
    """The time in one world."""

    now: datetime = _FIRST

    @property
    def text(self) -> str:
        """The time as the apps store it."""
        return time_text(self.now)

    def set(self, time: datetime | str) -> None:
        """Start the world at another time. For a setup; later, time passes with `LiveApps.pass_time`, which runs the events."""
        self.now = parse_time(time) if isinstance(time, str) else time.astimezone(UTC)

    def after(self, seconds: float) -> datetime:
        """The time this many seconds from now; `AuthorError` for a negative number."""
        if not 0 <= seconds < float("inf"):
            raise AuthorError(f"time cannot pass by {seconds} seconds; give a number from 0")
        return self.now + timedelta(seconds=seconds)
