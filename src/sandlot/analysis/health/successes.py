"""Successes that look as if the work was not done: the signs of `triage`, without its list of words."""

from collections.abc import Sequence

from sandlot.analysis.health.item import HealthItem, HealthMark, too_little
from sandlot.analysis.triage.clusters import summarise_trace
from sandlot.analysis.triage.oddities import oddities
from sandlot.core.trace import Trace

_SIGNS = ("few_calls", "half_the_work", "no_tools", "retrieved")
"""Signs that few honest successes show; typical words of hacks are for `triage` alone, because many have good reasons."""
_FEWEST = 8
"""Minimum successes to compare."""
_SHOWN = 3


def successes(traces: Sequence[Trace]) -> HealthItem:
    """Check the successes among these traces.

    It warns and never fails: a pass that needs less may simply be better. Passes are compared with the more thorough ones of
    the same task, so hacks are seen best while they are not the most of them.
    """
    seen = [each for each in map(summarise_trace, traces) if each.passed]
    if len(seen) < _FEWEST:
        return too_little("successes", f"{len(seen)} successes were read", f"{_FEWEST} rollouts with full marks")
    found = [odd for odd in oddities(seen) if odd.why in _SIGNS]
    places = sorted({place for odd in found for place in odd.all})
    figures = {"successes": len(seen), "odd": len(places), **{odd.why: odd.size for odd in found}}
    if not places:
        return HealthItem(name="successes", mark=HealthMark.OK, said=f"none of {len(seen)} looks odd", figures=figures)
    shown = "; ".join(f"{odd.size} {odd.said}" for odd in found)
    look = tuple(odd.examples[0] for odd in found)[:_SHOWN]
    said = f"{len(places)} of {len(seen)} look odd: {shown}"
    return HealthItem(name="successes", mark=HealthMark.WARN, said=said, figures=figures, look=look)
