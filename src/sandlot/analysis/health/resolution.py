"""Whether rewards distinguish rollouts: levels, saturation, clipping, and groups without differences.

Points are the sum of the checks; the reward is what remains after clipping, gates and rounding. Levels that exist in the points
but not in the rewards are differences that training cannot use.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from sandlot.analysis.health.item import HealthItem, HealthMark, too_little
from sandlot.core.trace_row import TraceRow

_FEWEST = 20
_KEPT_LEVELS = 0.9
_MOST_CLIPPED = 0.05
_SATURATED = 0.95
"""Share of rollouts with the same lowest or highest reward that counts as saturated."""
_SAME = 1e-9
_MOST_SHOWN_LEVELS = 8


def resolution(rows: Sequence[TraceRow], *, scripted: bool = False) -> HealthItem:
    """Check the rewards of a run. Saturation is not reported for scripted players."""
    scored = [row for row in rows if row.score is not None]
    if len(scored) < _FEWEST:
        return too_little("resolution", f"{len(scored)} rollouts were scored", f"{_FEWEST} scored rollouts")
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
        complaints.append(f"{raw} different sums of points became {left} different rewards")
    if not scripted and max(top, bottom) >= _SATURATED:
        level = max(levels) if top >= bottom else min(levels)
        complaints.append(f"{max(top, bottom):.0%} of rewards are {level:g}: there is little to learn from them")
    if not scripted and groups and flat / len(groups) >= _SATURATED:
        complaints.append(f"in {flat} of {len(groups)} groups all rewards are equal: nothing can be learned from them")
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
    spread = f"; {groups - flat} of {groups} groups have different rewards" if groups else ""
    return f"{levels} reward level{'s' if levels != 1 else ''}, {top:.0%} of rollouts at the highest{spread}"


def _clipped(row: TraceRow) -> bool:
    """True if the points are outside the reward's range; inside it, only a gate makes the reward differ from the points."""
    if row.points is None or not row.possible or row.score is None:
        return False
    share = row.points / row.possible
    return not -_SAME <= share <= 1 + _SAME and abs(share - row.score) > _SAME


def _gated(row: TraceRow) -> bool:
    """True if a gate may have set the reward to 0: there are points, and no reward."""
    return row.score == 0 and row.points is not None and row.points > 0


def _levels(rows: Sequence[TraceRow]) -> tuple[int, int]:
    """The number of different sums of points, as shares of the possible points, and of different rewards."""
    pairs = [(row.points / row.possible, row.score) for row in rows if row.points is not None and row.possible]
    return len({round(share, 9) for share, _ in pairs}), len({round(score or 0.0, 9) for _, score in pairs})


def _groups(scored: Sequence[TraceRow]) -> list[list[float]]:
    """The scores of each task that was scored more than once."""
    tasks: defaultdict[str, list[float]] = defaultdict(list)
    for row in scored:
        tasks[row.task].append(row.score or 0.0)
    return [scores for scores in tasks.values() if len(scores) > 1]
