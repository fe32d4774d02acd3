"""Crashes of the environment that did not decide how a rollout ended: the agent got an error, and was graded.

Each is a defect of the environment, or of Sandlot: it may have cost points, or saved them. It is counted by tool and signature,
and of each task once, by the rule that stops runs: what one agent repeats is no more than one defect.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from sandlot.analysis.health.item import HealthItem, HealthMark
from sandlot.core.text import one_line
from sandlot.core.trace_row import TraceRow
from sandlot.run.breaker import Breaker

_SHOWN = 3


def crashes(rows: Iterable[TraceRow]) -> HealthItem:
    """What crashed, how often, and in how many tasks."""
    counted = sorted((row for row in rows if row.outcome != "cancelled"), key=lambda row: row.started)
    rollouts: Counter[str] = Counter()
    tasks: defaultdict[str, set[str]] = defaultdict(set)
    look: list[str] = []
    breaker = Breaker(num_tasks=len({row.task for row in counted}))
    for row in counted:
        place = breaker.begin(row.task)
        for crash in row.crashes:
            look += [f"{row.task}/{row.rollout}"] if crash not in rollouts and len(look) < _SHOWN else []
            rollouts[crash] += 1
            tasks[crash].add(row.task)
        breaker.end(place, row.rollout, {}, dict.fromkeys(row.crashes, ""))
    if not rollouts:
        return HealthItem(name="crashes", mark=HealthMark.OK, said="no part of the environment crashed while an agent acted")
    touched = sum(bool(row.crashes) for row in counted)
    first = "; ".join(
        f"{one_line(crash, 200)} ({count} rollouts of {len(tasks[crash])} tasks)" for crash, count in rollouts.most_common(_SHOWN)
    )
    more = f"; {len(rollouts) - _SHOWN} more kinds" if len(rollouts) > _SHOWN else ""
    mark = HealthMark.WARN if breaker.tripped is None else HealthMark.FAIL
    said = f"{touched} of {len(counted):,} rollouts were graded after a crash of the environment: {first}{more}"
    figures = {crash: {"rollouts": count, "tasks": len(tasks[crash])} for crash, count in rollouts.most_common()}
    return HealthItem(name="crashes", mark=mark, said=said, figures=figures, look=tuple(look))
