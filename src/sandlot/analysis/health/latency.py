"""How long rewards take, and how near grading comes to its deadline: slow today is `grader_timeout` under load tomorrow."""

from collections.abc import Callable, Sequence

from sandlot.analysis.health.item import HealthItem, HealthMark
from sandlot.core.limits import Limits
from sandlot.core.stats.intervals import quantile
from sandlot.core.trace import TraceRow

LimitsOf = Callable[[str], Limits | None]
"""What a rollout of a task might use; None where the run does not say."""

_NEAR = 0.8
"""Of its deadline: grading that takes this long is near it."""
_MOST_NEAR = 0.01
_FEWEST = 20
_SHOWN = 3


def latency(rows: Sequence[TraceRow], limits_of: LimitsOf) -> HealthItem:
    """Grading time of the rollouts that were graded, and of those whose grading was given up."""
    graded = [(row.phases["grade"], row) for row in rows if "grade" in row.phases]
    if len(graded) < _FEWEST:
        return HealthItem(
            name="latency",
            mark=HealthMark.UNKNOWN,
            said=f"{len(graded)} rollouts were graded",
            needed=f"{_FEWEST} graded rollouts",
        )
    seconds = sorted(taken for taken, _ in graded)
    shares = [(taken / limits.grade_s, row) for taken, row in graded if (limits := limits_of(row.task)) is not None]
    near = sorted(((share, row) for share, row in shares if share >= _NEAR), key=lambda pair: -pair[0])
    overrun = sum(row.side == "grader" and row.kind == "timeout" for _, row in graded)
    share = len(near) / len(shares) if shares else 0.0
    p50, p95, longest = quantile(seconds, 0.5), quantile(seconds, 0.95), seconds[-1]
    said = f"a reward takes {duration_text(p50)} (half), {duration_text(p95)} (95 of 100), {duration_text(longest)} (longest)"
    if not shares:
        said += "; the run does not say what its deadline was"
    elif near:
        said += f"; {len(near)} of {len(shares):,} came near the deadline or over it ({overrun} over)"
    return HealthItem(
        name="latency",
        mark=HealthMark.WARN if share > _MOST_NEAR or overrun else HealthMark.OK,
        said=said,
        figures={
            "graded": len(graded),
            "p50_s": p50,
            "p95_s": p95,
            "max_s": longest,
            "near_deadline": len(near),
            "with_deadline": len(shares),
            "overrun": overrun,
        },
        look=tuple(f"{row.task}/{row.rollout}" for _, row in near[:_SHOWN]),
    )


def duration_text(seconds: float) -> str:
    """A time in the unit a person would choose."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
