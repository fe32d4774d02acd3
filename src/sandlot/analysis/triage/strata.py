"""What people should read: a stratified draw from a run, a few dozen rollouts that show most of what there is to see.

Every failure of the environment (up to a cap), a pass and a failure of the same task side by side, the successes that came
easiest, the failures that tried longest, those nearest to a limit, those in which the scanner saw something, and some at
random: without the last, nobody would notice what nobody looks for. A rollout stands in the first stratum that wants it, and
in none if somebody has already judged it.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random

import msgspec

from sandlot.analysis.taxonomy import LABELS, label_of_row
from sandlot.core.limits import Limits
from sandlot.core.trace import TraceRow
from sandlot.core.types import Side

ENVIRONMENT_CAP = 50
CAP = 20
_NEAR = 0.5
"""Of a limit: rollouts that used less are not near it, however few there are."""
_BLAMING = frozenset(label.name for label in LABELS if label.blames_environment)

Key = tuple[str, int]


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout to read, and why."""

    task: str
    rollout: int
    why: str
    label: str
    """As the run has it; people may know better."""


def strata(
    rows: Sequence[TraceRow],
    *,
    limits_of: Callable[[str], Limits | None],
    suspected: Iterable[Key] = (),
    pairs: Iterable[Key] = (),
    judged: Iterable[Key] = (),
    seed: int = 0,
) -> tuple[Chosen, ...]:
    """Draw what to read next; `pairs` are a pass and a failure of one task each, to be read side by side."""
    rng = Random(seed)  # noqa: S311 - a draw that can be repeated, not a secret
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
        "the scanner saw something": _draw(rng, [row for row in scored if (row.task, row.rollout) in hinted], CAP),
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
    """How much of its tightest budget a rollout used, from 0 to 1 and a little over."""
    if limits is None:
        return 0.0
    spent = row.phases.get("model", 0.0) + row.phases.get("tools", 0.0)
    tokens = row.completion_tokens / limits.tokens if limits.tokens else 0.0
    return max(row.turns / limits.turns, spent / limits.time_s, tokens)


def _blames(row: TraceRow) -> bool:
    return row.side is not None and row.side != Side.MODEL and label_of_row(row) in _BLAMING


def _draw(rng: Random, rows: Sequence[TraceRow], most: int) -> list[TraceRow]:
    return list(rows) if len(rows) <= most else rng.sample(rows, most)
