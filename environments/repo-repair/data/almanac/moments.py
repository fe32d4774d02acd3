"""Moments: with a zone, always; compared and kept in UTC."""

from datetime import UTC, datetime, timedelta, timezone


def moment(text, offset_minutes=0):
    """A moment like `2026-03-01T12:00` in UTC; without a zone of its own it is at the given offset."""
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=timezone(timedelta(minutes=offset_minutes)))
    return parsed.astimezone(UTC)


def same_day(one, other, offset_minutes=0):
    """True if two moments fall on one day for somebody at the offset."""
    zone = timezone(timedelta(minutes=offset_minutes))
    return moment(one).astimezone(zone).date() == moment(other).astimezone(zone).date()


def minutes(start, end):
    """Whole minutes from one moment to another; negative backwards."""
    return int((moment(end) - moment(start)).total_seconds() // 60)


def overlap(one, other):
    """True if two spans (start, end) share any time; touching is not sharing."""
    (first, last), (begin, finish) = (tuple(map(moment, span)) for span in (one, other))
    return first < finish and begin < last


def merged(spans):
    """Spans joined where they overlap or touch, in order, as pairs of texts in UTC."""
    result = []
    for start, end in sorted((moment(start), moment(end)) for start, end in spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return [(start.isoformat(), end.isoformat()) for start, end in result]
