"""How alike two events are, by the rules of the public server: the same title at the same time is a duplicate."""

from typing import Any

from sandlot.apps.calendar.calendars import end_of, start_of
from sandlot.core.types import Json

_LONG_WORD = 3
_HALF = 0.5


def similarity_of(one: dict[str, Any], other: dict[str, Any]) -> float:
    """From 0.1 for nothing in common to 0.95 for the same title at overlapping times."""
    if start_of(one).all_day != start_of(other).all_day:
        return 0.2
    left, right = one["summary"].lower().strip(), other["summary"].lower().strip()
    exact = bool(left) and left == right
    similar = exact or (bool(left and right) and (left in right or right in left or _share_words(left, right)))
    overlap = start_of(one).moment < end_of(other).moment and start_of(other).moment < end_of(one).moment
    same_day = start_of(one).moment.date() == start_of(other).moment.date()
    rules = (
        (exact and overlap, 0.95),
        (similar and overlap, 0.7),
        (exact and same_day, 0.6),
        (exact, 0.4),
        (similar, 0.3),
    )
    return next((value for holds, value in rules if holds), 0.1)


def _share_words(left: str, right: str) -> bool:
    one, other = ([word for word in text.split() if len(word) > _LONG_WORD] for text in (left, right))
    if not one or not other:
        return False
    return len([word for word in one if word in other]) / min(len(one), len(other)) >= _HALF


def overlap_text(one: dict[str, Any], other: dict[str, Any]) -> Json:
    """How long two events overlap, and what share of the first that is."""
    seconds = (min(end_of(one).moment, end_of(other).moment) - max(start_of(one).moment, start_of(other).moment)).total_seconds()
    whole = (end_of(one).moment - start_of(one).moment).total_seconds() or 1
    return {"duration": _duration(int(seconds // 60)), "percentage": f"{round(100 * seconds / whole)}%"}


def _duration(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    words = [f"{hours} hour{'s' if hours > 1 else ''}"] if hours else []
    words += [f"{rest} minute{'s' if rest != 1 else ''}"] if rest or not hours else []
    return " ".join(words)
