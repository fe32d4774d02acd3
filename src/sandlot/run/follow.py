"""A live run followed by its event log: however many readers look, its files are read once a second, and only what is new.

The counts begin with what is stored, and then follow the events. A rollout whose event comes after it was stored counts once.
"""

import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

import msgspec

from sandlot.core.text import one_line
from sandlot.observe.event_log import EventReader
from sandlot.observe.events import RolloutEnded, RolloutsRequeued
from sandlot.observe.live import LiveRun, RunNow
from sandlot.run.results import Run
from sandlot.store.columns import arrow
from sandlot.store.lock import is_live

_TAIL_BYTES = 4 * 2**20
"""The end of the event log that is read at first."""
_FRESH_S = 0.9
"""A state younger than this is given to the next reader too."""
_RECENT = 20_000
"""Last stored rollouts whose events may still come."""
_EVALUATION = "/evaluation"
"""Ends the name of a training's evaluation in events."""
_MOST = 64
"""Runs that are followed; beyond these, all are forgotten and begun again."""


_LAST = 8
"""Rollouts that are listed as finished last."""
_LONGEST_NAME = 200


class FinishedRollout(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout that has ended."""

    task: str
    rollout: int
    outcome: str
    """scored, failed or cancelled."""
    score: float | None
    side: str | None
    """Of a failed one."""
    turns: int
    seconds: float


class RunState(msgspec.Struct, frozen=True):
    """The numbers that change while a run goes on."""

    live: bool
    rollouts: int
    failed: int
    score: float | None
    planned: int | None
    left_s: float | None
    """Estimated time left; None if the plan or the rate is not known."""
    now: RunNow
    sides: dict[str, int] = {}
    """Failed rollouts by side, most first."""
    last: tuple[FinishedRollout, ...] = ()
    """Rollouts that finished last, the newest first."""

    def encoded(self) -> bytes:
        """As JSON."""
        return msgspec.json.encode(self)


class Follower:
    """One run."""

    def __init__(self, path: Path, *, fresh_s: float = _FRESH_S) -> None:
        self._path, self._run, self._fresh_s = path, LiveRun(), fresh_s
        self._events = EventReader(path, last_bytes=_TAIL_BYTES)
        self._lock = threading.Lock()
        self._looked_at, self._state = 0.0, None
        for event in self._events:  # before the store: what is written from here on may be counted already, but is not lost
            self._run.receive(event)
        self._count_stored()

    def _count_stored(self) -> None:
        stored = Run(self._path)
        self._planned = stored.planned
        self._is_training = stored.is_training
        columns = ["task", "rollout", "outcome", "score", "side", "turns", "seconds", "started"]
        # The log of a training has the rollouts of all its environments, each of which has a directory of its own.
        table = arrow().concat_tables([run.reader.table(columns) for run in stored.environments.values()])
        tail = table.slice(max(0, len(table) - _RECENT)).select(["task", "rollout"])
        self._counted = set(zip(*(column.to_pylist() for column in tail.columns), strict=True))
        scores = [score for score in table.column("score").to_pylist() if score is not None]
        self._rollouts, self._scored, self._score = len(table), len(scores), sum(scores)
        self._failed = sum(outcome == "failed" for outcome in table.column("outcome").to_pylist())
        self._sides = Counter(side for side in table.column("side").to_pylist() if side)
        rows: list[dict[str, Any]] = table.slice(max(0, len(table) - _RECENT)).to_pylist()
        rows.sort(key=lambda row: row["started"] + row["seconds"])
        self._last = deque((_finished(row) for row in rows[-_LAST:]), maxlen=_LAST)

    def look(self) -> RunState:
        """How it stands now."""
        with self._lock:
            now = time.monotonic()
            if self._state is None or now - self._looked_at >= self._fresh_s:
                self._looked_at, self._state = now, self._read()
            return self._state

    def _read(self) -> RunState:
        live = is_live(self._path)  # before the events: when it has ended, all of them are there
        for event in self._events:
            self._run.receive(event)
            if isinstance(event, RolloutEnded):
                self._count(event)
            elif isinstance(event, RolloutsRequeued):
                self._count_stored()  # rollouts have left the store; those that follow are counted, or are in it already
        state = self._run.look(time.time())
        left = None if self._planned is None else self._planned - self._rollouts
        return RunState(
            live=live,
            rollouts=self._rollouts,
            failed=self._failed,
            score=self._score / self._scored if self._scored else None,
            planned=self._planned,
            left_s=left / state.per_second if left is not None and state.per_second else None,
            now=state,
            sides=dict(self._sides.most_common()),
            last=tuple(reversed(self._last)),
        )

    def _count(self, event: RolloutEnded) -> None:
        elsewhere = self._is_training and event.run.endswith(_EVALUATION)  # stored in the evaluation's own directory
        if elsewhere or (event.task, event.rollout) in self._counted:
            return
        self._rollouts += 1
        self._failed += event.row.outcome == "failed"
        self._sides.update([event.row.side] if event.row.side else [])
        self._last.append(_finished(msgspec.structs.asdict(event.row)))
        if event.row.score is not None:
            self._scored, self._score = self._scored + 1, self._score + event.row.score


def _finished(row: dict[str, Any]) -> FinishedRollout:
    return FinishedRollout(
        task=one_line(row["task"], _LONGEST_NAME),
        rollout=row["rollout"],
        outcome=row["outcome"],
        score=row["score"],
        side=row["side"],
        turns=row["turns"],
        seconds=row["seconds"],
    )


class Followers:
    """The runs that are looked at."""

    def __init__(self) -> None:
        self._known: dict[Path, Follower] = {}
        self._lock = threading.Lock()

    def state_of(self, path: Path) -> RunState:
        """How a run stands now."""
        with self._lock:
            follower = self._known.get(path)
            if follower is None:
                if len(self._known) >= _MOST:
                    self._known.clear()
                follower = self._known[path] = Follower(path)
        state = follower.look()
        if not state.live:
            with self._lock:
                self._known.pop(path, None)  # begun again if it is continued
        return state
