"""Whether rewards can tell rollouts apart: levels, saturation, clipping, and groups that teach nothing.

Points are what the checks gave; the reward is what was left of them after clipping, gates and rounding. Levels that are there in
the points and gone in the rewards are differences somebody measured and nobody will learn from.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from sandlot.analysis.health.item import HealthItem, HealthMark
from sandlot.core.trace import TraceRow

_FEWEST = 20
_KEPT_LEVELS = 0.9
_MOST_CLIPPED = 0.05
_SATURATED = 0.95
"""Of all rollouts at the same end of the scale."""
_SAME = 1e-9
_MOST_SHOWN_LEVELS = 8


def resolution(rows: Sequence[TraceRow], *, scripted: bool = False) -> HealthItem:
    """The rewards of a run. A scripted player is as good as it was told to be: saturation is no finding then."""
    scored = [row for row in rows if row.score is not None]
    if len(scored) < _FEWEST:
        return HealthItem(
            name="resolution",
            mark=HealthMark.UNKNOWN,
            said=f"{len(scored)} rollouts were scored",
            needed=f"{_FEWEST} scored rollouts",
        )
    levels = Counter(round(row.score or 0.0, 9) for row in scored)
    clipped = [row for row in scored if _clipped(row)]
    raw, left = _levels([row for row in scored if not _clipped(row) and not _gated(row)])
    groups = _groups(scored)
    flat = sum(max(scores) - min(scores) <= _SAME for scores in groups)
    top, bottom = levels[max(levels)] / len(scored), levels[min(levels)] / len(scored)
    complaints: list[str] = []
    if len(clipped) > _MOST_CLIPPED * len(scored):
        complaints.append(f"{len(clipped) / len(scored):.0%} of rewards were clipped")
    if left < _KEPT_LEVELS * raw:
        complaints.append(f"checks gave {raw} different sums of points, and {left} rewards are left of them")
    if not scripted and max(top, bottom) >= _SATURATED:
        level = max(levels) if top >= bottom else min(levels)
        complaints.append(f"{max(top, bottom):.0%} of rewards are {level:g}: nothing is left to learn, or nothing can be")
    if not scripted and groups and flat / len(groups) >= _SATURATED:
        complaints.append(f"in {flat} of {len(groups)} groups all rewards are equal: they teach nothing")
    return HealthItem(
        name="resolution",
        mark=HealthMark.WARN if complaints else HealthMark.OK,
        said="; ".join(complaints) or _said(len(levels), top, flat, len(groups)),
        figures={
            "scored": len(scored),
            "levels": len(levels),
            "levels_of_points": raw,
            "levels_left_of_them": left,
            "most_frequent": {f"{level:g}": count for level, count in levels.most_common(_MOST_SHOWN_LEVELS)},
            "share_at_max": top,
            "share_at_min": bottom,
            "clipped": len(clipped),
            "groups": len(groups),
            "groups_without_spread": flat,
        },
        look=tuple(f"{row.task}/{row.rollout}" for row in clipped[:3]),
    )


def _said(levels: int, top: float, flat: int, groups: int) -> str:
    spread = f"; {groups - flat} of {groups} groups have spread" if groups else ""
    return f"{levels} level{'s' if levels != 1 else ''} of reward, {top:.0%} at the highest{spread}"


def _clipped(row: TraceRow) -> bool:
    """True if the points lie outside the reward's range: what lies inside and still differs was zeroed by a gate."""
    if row.points is None or not row.possible or row.score is None:
        return False
    share = row.points / row.possible
    return not -_SAME <= share <= 1 + _SAME and abs(share - row.score) > _SAME


def _gated(row: TraceRow) -> bool:
    """True if a gate may have zeroed it: points there are, and no reward."""
    return row.score == 0 and row.points is not None and row.points > 0


def _levels(rows: Sequence[TraceRow]) -> tuple[int, int]:
    """How many different sums of points there are, as shares of what is possible, and how many rewards came of them."""
    pairs = [(row.points / row.possible, row.score) for row in rows if row.points is not None and row.possible]
    return len({round(share, 9) for share, _ in pairs}), len({round(score or 0.0, 9) for _, score in pairs})


def _groups(scored: Sequence[TraceRow]) -> list[list[float]]:
    """The scores of each task that was scored more than once."""
    tasks: defaultdict[str, list[float]] = defaultdict(list)
    for row in scored:
        tasks[row.task].append(row.score or 0.0)
    return [scores for scores in tasks.values() if len(scores) > 1]
