"""Two rollouts of one task side by side, without scores and without names, and the question which is better.

The answers are stored with the run and exported as preference pairs (`sandlot export preferences RUN`). The order of pairs
and the side of each rollout are drawn by a seed, so that a link shows the same to everybody.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from sandlot.analysis.preferences import Choice, Preferences, RolloutPair, add_preference, draw_pairs, read_preferences
from sandlot.core.concurrency.clock import SYSTEM_CLOCK
from sandlot.core.errors import ConfigError
from sandlot.core.trace import Scored, Trace
from sandlot.run.results import Run
from sandlot.web.pages.conversation import read_conversation
from sandlot.web.site import Asked, link, run_name
from sandlot.web.told import is_whole, reader_of, require_reader, told_note, told_text

_Pairs = tuple[RolloutPair, ...]


def pair_page(asked: Asked) -> dict[str, Any]:
    """The pair that is asked for, or the first one that the reader has not judged."""
    path, reader = asked.run, reader_of(asked.site)
    run, answers, seed = Run(path), read_preferences(path), asked.number("seed")
    pairs = _drawn(path, len(run), (path / "manifest.json").stat().st_mtime_ns, seed)
    common = {
        "title": "which is better?",
        "name": run_name(path),
        "reader": reader,
        "done": _num_done(pairs, answers, reader),
        "total": len(pairs),
        "seed": seed,
    }
    pair = _pair_asked(asked.query) or _next_pair(pairs, answers, reader, start=0) or (pairs[0] if pairs else None)
    if pair is None:
        return {**common, "pair": None}
    place = pairs.index(pair) if pair in pairs else None
    mine = [each for each in answers.counting if each.key == pair.key and each.by == reader]
    left, right = _attempt(run, pair.task, pair.left), _attempt(run, pair.task, pair.right)
    prompt = _shared(left, right)
    return {
        **common,
        "pair": pair,
        "place": None if place is None else place + 1,
        "same": left == right,
        "prompt": left[:prompt],
        "sides": [("left", left[prompt:]), ("right", right[prompt:])],
        "mine": mine[0] if mine else None,
        "mine_side": _side(mine[0].better, pair) if mine else None,
        "previous": _link(path, pairs[place - 1] if place else None, seed),
        "next": _link(path, pairs[place + 1] if place is not None and place + 1 < len(pairs) else None, seed),
        "post": link(run_name(path), "prefer", seed=seed),
    }


def prefer_rollout(asked: Asked, told: dict[str, Any]) -> dict[str, Any]:
    """Store which of two rollouts the reader prefers; answers with where to go next."""
    path, reader = asked.run, require_reader(asked.site)
    task, left, right, note = told_text(told, "task"), told.get("left"), told.get("right"), told_note(told)
    if not (is_whole(left) and is_whole(right)) or left == right:
        raise ConfigError("name two different rollouts: `left` and `right` are whole numbers")
    if told.get("choice") not in set(Choice):
        raise ConfigError(f"`{str(told.get('choice'))[:60]}` is no answer; give {', '.join(Choice)}")
    pair, run = RolloutPair(task=task, left=told["left"], right=told["right"]), Run(path)
    for rollout in (pair.left, pair.right):
        _attempt(run, task, rollout)  # raises if it cannot be compared
    kept = add_preference(path, pair, Choice(told["choice"]), by=reader, note=note, at=SYSTEM_CLOCK.wall())
    seed = asked.number("seed")
    pairs = _drawn(path, len(run), (path / "manifest.json").stat().st_mtime_ns, seed)
    answers = read_preferences(path)
    start = pairs.index(pair) + 1 if pair in pairs else 0
    following = _next_pair(pairs, answers, reader, start=start)
    return {
        "choice": str(kept.choice),
        "by": kept.by,
        "done": _num_done(pairs, answers, reader),
        "total": len(pairs),
        "next": _link(path, following, seed),
    }


@lru_cache(maxsize=16)
def _drawn(path: Path, _size: int, _written_at: int, seed: int) -> _Pairs:
    return draw_pairs(Run(path), seed=seed)


def _attempt(run: Run, task: str, rollout: int) -> list[dict[str, Any]]:
    trace: Trace = run.trace(task, rollout)
    if not isinstance(trace.outcome, Scored):
        raise ConfigError(f"rollout {task}/{rollout} has no score; only scored rollouts are compared")
    return read_conversation(trace)


def _shared(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> int:
    """How many messages are the same on both sides: the task, which is shown once."""
    same = 0
    while same < min(len(left), len(right)) and left[same] == right[same] and left[same].get("role") != "assistant":
        same += 1
    return same


def _pair_asked(query: Mapping[str, str]) -> RolloutPair | None:
    numbers = [query.get(name, "") for name in ("left", "right")]
    if "task" not in query or not all(text.isascii() and text.isdigit() and len(text) < 10 for text in numbers):
        return None
    return RolloutPair(task=query["task"], left=int(numbers[0]), right=int(numbers[1]))


def _link(path: Path, pair: RolloutPair | None, seed: int) -> str | None:
    if pair is None:
        return None
    words = {"seed": seed} if seed else {}
    return link(run_name(path), "pairs", **words, task=pair.task, left=pair.left, right=pair.right)


def _side(better: int | None, pair: RolloutPair) -> str:
    return "equal" if better is None else "left" if better == pair.left else "right"


def _num_done(pairs: _Pairs, answers: Preferences, reader: str) -> int:
    judged = {each.key for each in answers.given if each.by == reader or not reader}
    return sum(pair.key in judged for pair in pairs)


def _next_pair(pairs: _Pairs, answers: Preferences, reader: str, *, start: int) -> RolloutPair | None:
    judged = {each.key for each in answers.given if each.by == reader or not reader}
    return next((pair for pair in (*pairs[start:], *pairs[:start]) if pair.key not in judged), None)
