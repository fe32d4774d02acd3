"""Rows of finished rollouts for tests, one line each."""

from collections.abc import Iterable

from sandlot.core.trace_row import TraceRow
from sandlot.store.columns import Table, schema_of, table_of


def scored(task: str = "t", rollout: int = 0, score: float = 1.0, **fields) -> TraceRow:
    return row(task, rollout, outcome="scored", score=score, points=score, possible=1.0, passed=score >= 1, **fields)


def failed(task: str = "t", rollout: int = 0, side: str = "environment", kind: str = "crash", **fields) -> TraceRow:
    return row(
        task, rollout, **{"end": "cut", "outcome": "failed", "side": side, "kind": kind, "message": f"{side} broke", **fields}
    )


def cancelled(task: str = "t", rollout: int = 0, **fields) -> TraceRow:
    return row(task, rollout, **{"end": "cut", "outcome": "cancelled", "message": "operator", **fields})


def row(task: str, rollout: int, **fields) -> TraceRow:
    plain = {
        "split": "train",
        "tags": (),
        "end": "done",
        "side": None,
        "kind": None,
        "message": None,
        "score": None,
        "points": None,
        "possible": None,
        "passed": None,
        "turns": 2,
        "calls": 1,
        "tool_errors": 0,
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "usd": 0.01,
        "seconds": 3.0,
        "phases": {"model": 2.0, "tools": 1.0},
        "attempts": 1,
        "started": 0.0,
    }
    return TraceRow(task=task, rollout=rollout, **(plain | fields))


def tables(made: Iterable[TraceRow], size: int = 7) -> list[Table]:
    """The rows as the parts of a store, `size` rows each."""
    every = list(made)
    parts = [every[start : start + size] for start in range(0, len(every), size)]
    return [table_of(part, schema_of(part)) for part in parts]
