"""A group: the rollouts of one task side by side, where they part, and what the best did that the worst did not."""

from typing import Any

import numpy as np

from sandlot.core.rubric import CheckResult
from sandlot.core.text import one_line, printable
from sandlot.core.trace import Failed, Scored, ToolCall, Trace
from sandlot.core.trace_row import TraceRow
from sandlot.run.results import Run
from sandlot.train.algorithms.advantages import leave_one_out, standardised
from sandlot.web.pages.parting import parting_tree, what_differs
from sandlot.web.site import Asked

_SIDE_BY_SIDE = 16
"""Rollouts that are shown side by side."""
_CALLS = 60


def group_page(asked: Asked) -> dict[str, Any]:
    """The rollouts of the task that is asked for, from the rollout that `from` asks for."""
    run, task, start = asked.opened, asked.query.get("task", ""), asked.number("from")
    rows = sorted(run.reader.task_rows(task), key=lambda row: row.rollout)
    scored = [row for row in rows if row.score is not None]
    best, worst = (max(scored, key=_score), min(scored, key=_score)) if scored else (None, None)
    shown = rows[start : start + _SIDE_BY_SIDE]
    wanted = {(row.task, row.rollout) for row in (*shown, best, worst) if row is not None}
    traces = {trace.rollout: trace for trace in run.reader.traces_of(sorted(wanted))}
    attempts = [traces[row.rollout] for row in shown]
    advantages = _advantages(rows, _group_size(run))
    differs = best is not None and worst is not None and best.score != worst.score
    return {
        "title": f"{asked.run.name} / {task}",
        "name": asked.run.name,
        "task": task,
        "mean": sum(map(_score, scored)) / len(scored) if scored else None,
        "num_rollouts": len(rows),
        "start": start,
        "next": start + _SIDE_BY_SIDE if start + _SIDE_BY_SIDE < len(rows) else None,
        "previous": max(0, start - _SIDE_BY_SIDE) if start else None,
        "attempts": [_attempt(trace, advantages.get(trace.rollout, {})) for trace in attempts],
        "checks": _checks(attempts),
        "tree": parting_tree(attempts),
        "best": best.rollout if best and differs else None,
        "worst": worst.rollout if worst and differs else None,
        "differences": what_differs(traces[best.rollout], traces[worst.rollout]) if best and worst and differs else None,
        "rollouts": [row.rollout for row in rows[:500]],
    }


def _score(row: TraceRow) -> float:
    return row.score or 0.0


def _group_size(run: Run) -> int | None:
    """A training takes several groups of one task; elsewhere all its rollouts are one group."""
    return run.manifest.config.select.group if run.training is not None else None


def _advantages(rows: list[TraceRow], size: int | None) -> dict[int, dict[str, float]]:
    """The advantages of the scored rollouts in their groups, computed as training computes them."""
    groups: dict[int, list[TraceRow]] = {}
    for row in rows:
        if row.score is not None:
            groups.setdefault(row.rollout // size if size else 0, []).append(row)
    found: dict[int, dict[str, float]] = {}
    for members in groups.values():
        rewards = np.array([_score(row) for row in members], np.float32)
        for row, grpo, rloo in zip(members, standardised(rewards), leave_one_out(rewards), strict=True):
            found[row.rollout] = {"above": _score(row) - float(rewards.mean()), "grpo": float(grpo), "rloo": float(rloo)}
    return found


def _checks(traces: list[Trace]) -> list[tuple[str, list[CheckResult | None]]]:
    checks: dict[str, list[CheckResult | None]] = {}
    for number, trace in enumerate(traces):
        for check in trace.outcome.score.checks if isinstance(trace.outcome, Scored) else ():
            checks.setdefault(check.id, [None] * len(traces))[number] = check
    return list(checks.items())


def _attempt(trace: Trace, advantages: dict[str, float]) -> dict[str, Any]:
    calls = [
        (number, part) for number, node in enumerate(trace.nodes) for part in node.message.parts if isinstance(part, ToolCall)
    ]
    return {
        "rollout": trace.rollout,
        "score": trace.outcome.score.value if isinstance(trace.outcome, Scored) else None,
        "above": advantages.get("above"),
        "grpo": advantages.get("grpo"),
        "rloo": advantages.get("rloo"),
        "problem": f"{trace.outcome.side}/{trace.outcome.kind}" if isinstance(trace.outcome, Failed) else None,
        "turns": trace.num_turns,
        "tokens": trace.usage.completion_tokens or sum(node.num_tokens for node in trace.turns()),
        "seconds": sum(trace.phases.values()),
        "end": str(trace.end or ""),
        "calls": [
            {"message": number, "name": printable(call.name, 60), "arguments": one_line(_argument(call), 80)}
            for number, call in calls[:_CALLS]
        ],
        "more_calls": max(0, len(calls) - _CALLS),
        "answer": printable(trace.answer, 600),
    }


def _argument(call: ToolCall) -> str:
    return call.malformed or ", ".join(str(value)[:80] for value in call.arguments.values())
