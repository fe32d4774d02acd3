"""Where failures of one kind concentrate: a tag that their tasks have more often than passing tasks.

Each task counts once, however many rollouts it has: rollouts of one task are not independent.
"""

from collections.abc import Mapping

import msgspec

from sandlot.core.stats.tests import fisher, holm

_ALPHA = 0.05


class Concentration(msgspec.Struct, frozen=True, kw_only=True):
    """A tag that is more frequent among the tasks of a cluster."""

    tag: str
    these_with: int
    these: int
    passing_with: int
    passing: int
    p_value: float


def concentration(these: Mapping[str, frozenset[str]], passing: Mapping[str, frozenset[str]]) -> Concentration | None:
    """The tag with the largest significant difference in share; both arguments are tags by task."""
    tags = sorted({tag for each in these.values() for tag in each})
    if not tags or not passing:
        return None
    counts = {tag: (_with(these, tag), _with(passing, tag)) for tag in tags}
    p_values = holm([fisher(ours, len(these), theirs, len(passing), greater=True).p for ours, theirs in counts.values()])
    found = [(tag, p) for tag, p in zip(tags, p_values, strict=True) if p < _ALPHA]
    if not found:
        return None
    tag, p = max(found, key=lambda pair: (counts[pair[0]][0] / len(these) - counts[pair[0]][1] / len(passing), pair[0]))
    ours, theirs = counts[tag]
    return Concentration(tag=tag, these_with=ours, these=len(these), passing_with=theirs, passing=len(passing), p_value=p)


def _with(tasks: Mapping[str, frozenset[str]], tag: str) -> int:
    return sum(tag in tags for tags in tasks.values())
