"""Proposes rollouts for people to read: a stratified sample of a run, a few dozen rollouts.

It has every failure of the environment (up to a cap), a pass and a failure of the same task side by side, the easiest successes,
the longest failures, those nearest to a limit, those with a match of the scanner, and a random sample to find the unexpected. A
rollout is in the first stratum that includes it, and in none if it has a label already.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random

import msgspec

from sandlot.analysis.taxonomy import LABELS, label_of_row
from sandlot.core.limits import Limits
from sandlot.core.trace_row import TraceRow
from sandlot.core.types import Side

ENVIRONMENT_CAP = 50
CAP = 20
_NEAR = 0.5
"""Rollouts that used less than this share of a limit are not near it."""
_BLAMING = frozenset(label.name for label in LABELS if label.blames_environment)

Key = tuple[str, int]


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout to read, and why."""

    task: str
    rollout: int
    why: str
    label: str
    """The computed label, which people may correct."""


def strata(
    rows: Sequence[TraceRow],
    *,
    limits_of: Callable[[str], Limits | None],
    suspected: Iterable[Key] = (),
    pairs: Iterable[Key] = (),
    judged: Iterable[Key] = (),
    seed: int = 0,
) -> tuple[Chosen, ...]:
    """Choose what to read next; `pairs` are a pass and a failure of one task each."""
    rng = Random(seed)  # noqa: S311 - a repeatable sample, not a secret
    read, hinted = set(judged), set(suspected)
    left = [row for row in rows if (row.task, row.rollout) not in read and row.outcome != "cancelled"]
    by_key = {(row.task, row.rollout): row for row in left}
    scored = [row for row in left if row.score is not None]
    best = max((row.score or 0.0 for row in scored), default=0.0)
    highest = [row for row in scored if row.score == best]
    lowest = [row for row in scored if (row.score or 0.0) <= 0]
    near = [(share, row) for row in scored if (share := share_of_limit(row, limits_of(row.task))) >= _NEAR]
    wanted = {
        "the environment failed": _draw(rng, [row for row in left if _blames(row)], ENVIRONMENT_CAP),
        "the model's endpoint failed": _draw(rng, [row for row in left if row.side == Side.MODEL], CAP // 4),
        "a pattern of the scanner matched": _draw(rng, [row for row in scored if (row.task, row.rollout) in hinted], CAP),
        "a pass and a failure of one task": [by_key[key] for key in dict.fromkeys(pairs) if key in by_key][:CAP],
        "highest reward, shortest": sorted(highest, key=lambda row: (row.turns, row.completion_tokens, row.seconds))[:CAP],
        "highest reward, fewest calls": sorted(highest, key=lambda row: (row.calls, row.turns, row.completion_tokens))[:CAP],
        "no reward, longest": sorted(lowest, key=lambda row: (-row.turns, -row.completion_tokens))[:CAP],
        "nearest to a limit": [row for _, row in sorted(near, key=lambda pair: -pair[0])[:CAP]],
        "at random": _draw(rng, left, CAP),
    }
    chosen: dict[Key, Chosen] = {}
    for why, stratum in wanted.items():
        for row in stratum:
            key = (row.task, row.rollout)
            chosen.setdefault(key, Chosen(task=row.task, rollout=row.rollout, why=why, label=label_of_row(row) or ""))
    return tuple(chosen.values())


def share_of_limit(row: TraceRow, limits: Limits | None) -> float:
    """The share that a rollout used of its tightest budget."""
    if limits is None:
        return 0.0
    spent = row.phases.get("model", 0.0) + row.phases.get("tools", 0.0)
    tokens = row.completion_tokens / limits.tokens if limits.tokens else 0.0
    return max(row.turns / limits.turns, spent / limits.time_s, tokens)


def _blames(row: TraceRow) -> bool:
    return row.side is not None and row.side != Side.MODEL and label_of_row(row) in _BLAMING


def _draw(rng: Random, rows: Sequence[TraceRow], most: int) -> list[TraceRow]:
    return list(rows) if len(rows) <= most else rng.sample(rows, most)
