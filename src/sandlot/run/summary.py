"""The summary of a run in numbers, computed in one pass over its columns.

Only scored rollouts enter scores and pass rates, and the share that was dropped is always beside them. Every rollout is counted
once: `rollouts` is scored + failed + cancelled. Intervals are clustered by task.
"""

import heapq
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import msgspec

from sandlot.core.stats.intervals import Interval, Sums, clustered_mean, clustered_share, pass_at_k, quantile
from sandlot.core.trace import AFTER_THE_END, Trace
from sandlot.core.trace_row import TraceRow
from sandlot.core.types import Json, Side
from sandlot.store.columns import PHASE, Table, rows_of

_BINS = 10
_NUM_SLOWEST = 5


class PassAtK(msgspec.Struct, frozen=True, kw_only=True):
    """The chance that one of `k` rollouts of a task gets full marks, averaged over tasks."""

    k: int
    share: Interval
    tasks: int
    """Tasks with at least `k` scored rollouts; the others are left out."""


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """Time spent in one phase by all rollouts together."""

    seconds: float
    share: float


class Durations(msgspec.Struct, frozen=True, kw_only=True):
    """How long it took, in seconds."""

    p50: float
    p90: float
    p99: float
    longest: float


class Slow(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A rollout that took long, and the phase that took most of it."""

    seconds: float
    task: str
    rollout: int
    phase: str


class Portion(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of one split, or with one tag."""

    tasks: int
    rollouts: int
    scored: int
    score: Interval
    pass_rate: Interval


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run."""

    run: str
    verdict: str
    """`complete`, `incomplete` or `stopped`."""
    tasks: int
    rollouts: int
    scored: int
    failed: dict[str, int]
    """By side; every side is there."""
    kinds: dict[str, int]
    """Failures by `side/kind`, most frequent first."""
    cancelled: int
    dropped: float
    """The share of rollouts without a score."""
    attempts: int
    """Total number of attempts: more than `rollouts` if infrastructure failed and rollouts were retried."""
    score: Interval
    pass_rate: Interval
    pass_at: tuple[PassAtK, ...]
    histogram: tuple[int, ...]
    """Scores in ten equal bins from 0 to 1; scores outside are counted in the first or last."""
    ends: dict[str, int]
    turns: int
    calls: int
    tool_errors: int
    prompt_tokens: int
    completion_tokens: int
    usd: float
    durations: Durations | None
    """Of rollouts; None if there were none."""
    reward_latency: Durations | None
    """From the agent's end to its score: gathering evidence, closing the world, waiting, grading. None if none was scored."""
    phases: dict[str, Phase]
    """Longest first."""
    slowest: tuple[Slow, ...]
    splits: dict[str, Portion]
    tags: dict[str, Portion]
    cpu_s: float
    wall_s: float
    seats: dict[str, Interval] = {}
    """Where several agents act: each seat's own score."""

    def machine_readable(self) -> Json:
        """The object that `sandlot run --json` prints. Its keys do not change; `seats` is there if several agents act."""
        seats = {name: {"mean": each.value, "low": each.low, "high": each.high} for name, each in self.seats.items()}
        return {
            "run": self.run,
            "rollouts": self.rollouts,
            "scored": self.scored,
            "failed": self.failed,
            "cancelled": self.cancelled,
            "score": {"mean": self.score.value, "low": self.score.low, "high": self.score.high},
            "pass_rate": self.pass_rate.value,
            "turns": self.turns,
            "cpu_s": self.cpu_s,
            "wall_s": self.wall_s,
            "verdict": self.verdict,
        } | ({"seats": seats} if seats else {})


def summarise(
    tables: Iterable[Table],
    *,
    run: str = "",
    verdict: str = "complete",
    cancelled: int = 0,
    cpu_s: float = 0.0,
    wall_s: float = 0.0,
) -> Summary:
    """Sum up a run in one pass over its tables. `cancelled` are rollouts that were under way when it stopped and left no row."""
    count = _Count()
    for table in tables:
        if table.num_rows:
            count.add(table)
    tasks = count.tasks
    scored = count.outcomes["scored"]
    num_cancelled = count.outcomes["cancelled"] + cancelled
    rollouts = count.outcomes.total() + cancelled
    return Summary(
        run=run,
        verdict=verdict,
        tasks=len(tasks),
        rollouts=rollouts,
        scored=scored,
        failed={side.value: count.sides[side.value] for side in Side},
        kinds={f"{side}/{kind}": number for (side, kind), number in count.kinds.most_common()},
        cancelled=num_cancelled,
        dropped=1 - scored / rollouts if rollouts else 0.0,
        attempts=count.attempts,
        score=_score(tasks.values(), count.bounds),
        pass_rate=_pass_rate(tasks.values()),
        pass_at=tuple(_pass_at(tasks.values())),
        histogram=tuple(count.histogram),
        ends=dict(count.ends.most_common()),
        turns=count.turns,
        calls=count.calls,
        tool_errors=count.tool_errors,
        prompt_tokens=count.prompt_tokens,
        completion_tokens=count.completion_tokens,
        usd=count.usd,
        durations=_durations(count.seconds),
        reward_latency=_durations(count.latencies),
        phases=_phases(count.phases),
        slowest=tuple(count.slowest),
        splits=_portions(((task.split, task) for task in tasks.values()), count.bounds),
        tags=_portions(((tag, task) for task in tasks.values() for tag in task.tags), count.bounds),
        cpu_s=cpu_s,
        wall_s=wall_s,
    )


def seat_scores(traces: Iterable[Trace], seats: Iterable[str]) -> dict[str, Interval]:
    """Each seat's own score, over the scored rollouts."""
    sums: dict[str, dict[str, Sums]] = {seat: {} for seat in seats}
    for trace in traces:
        for seat, record in trace.seats.items():
            if record.score is not None:
                before = sums[seat].get(trace.task, Sums(0, 0.0))
                sums[seat][trace.task] = Sums(before.count + 1, before.total + record.score.value)
    return {seat: clustered_mean(list(tasks.values()), bounds=(0.0, 1.0)) for seat, tasks in sums.items()}


@dataclass(slots=True)
class _Task:
    """The counts of one task; small, because there may be a million."""

    split: str
    tags: tuple[str, ...]
    rollouts: int = 0
    scored: int = 0
    passed: int = 0
    total: float = 0.0


class _Count:
    """All sums over the rows."""

    def __init__(self) -> None:
        self.tasks: dict[str, _Task] = {}
        self.outcomes: Counter[str] = Counter()
        self.sides: Counter[str] = Counter()
        self.kinds: Counter[tuple[str, str]] = Counter()
        self.ends: Counter[str] = Counter()
        self.phases: defaultdict[str, float] = defaultdict(float)
        self.histogram = [0] * _BINS
        self.bounds = (0.0, 1.0)
        self.seconds = array("d")
        self.latencies = array("d")
        self.slowest: list[Slow] = []
        self.attempts = self.turns = self.calls = self.tool_errors = self.prompt_tokens = self.completion_tokens = 0
        self.usd = 0.0

    def add(self, table: Table) -> None:
        """Count the rows of a part of a run."""
        pc = _compute()

        def total(name: str) -> float:
            return pc.sum(table.column(name)).as_py() or 0

        for counter, name in ((self.outcomes, "outcome"), (self.ends, "end"), (self.sides, "side")):
            counter.update({each["values"]: each["counts"] for each in pc.value_counts(table.column(name)).to_pylist()})
        del self.sides[None]  # pyright: ignore[reportArgumentType] - the rows that have not failed
        broken = table.select(["side", "kind"]).filter(pc.is_valid(table.column("side")))
        self.kinds.update((row["side"], row["kind"] or "?") for row in broken.to_pylist())
        self.attempts += int(total("attempts"))
        self.turns += int(total("turns"))
        self.calls += int(total("calls"))
        self.tool_errors += int(total("tool_errors"))
        self.prompt_tokens += int(total("prompt_tokens"))
        self.completion_tokens += int(total("completion_tokens"))
        self.usd += total("usd")
        seconds = table.column("seconds").to_numpy()
        self.seconds.frombytes(seconds.tobytes())
        self.latencies.frombytes(_latencies(table).tobytes())
        slow = rows_of(table.take((-seconds).argsort(kind="stable")[:_NUM_SLOWEST]))
        self.slowest = heapq.nlargest(_NUM_SLOWEST, [*self.slowest, *map(_slow, slow)])
        for name in table.column_names:
            if name.startswith(PHASE) and table.column(name).null_count < table.num_rows:
                self.phases[name.removeprefix(PHASE)] += total(name)
        self._add_scores(table)

    def _add_scores(self, table: Table) -> None:
        import numpy as np  # noqa: PLC0415 - small runs do not need it

        encoded = table.column("task").combine_chunks().dictionary_encode()
        names, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
        first = np.unique(codes, return_index=True)[1]
        heads = table.select(["split", "tags"]).take(first).to_pylist()
        for name, head in zip(names, heads, strict=True):
            if name not in self.tasks:
                self.tasks[name] = _Task(head["split"], tuple(head["tags"]))
        scores = table.column("score").to_numpy().astype("f8")
        known = ~np.isnan(scores)
        codes_scored, scores = codes[known], scores[known]
        passed = table.column("passed").fill_null(False).to_numpy()[known]  # noqa: FBT003 - pyarrow takes it by place
        tasks = [self.tasks[name] for name in names]
        # The sums so far come first, so that the additions are those of one row after the other.
        every, before = np.arange(len(names)), np.array([task.total for task in tasks])
        totals = np.bincount(
            np.concatenate([every, codes_scored]), weights=np.concatenate([before, scores]), minlength=len(names)
        )
        columns = (
            np.bincount(codes, minlength=len(names)),
            np.bincount(codes_scored, minlength=len(names)),
            np.bincount(codes_scored, weights=passed, minlength=len(names)).astype(int),
        )
        for task, total, rollouts, scored, full in zip(tasks, totals.tolist(), *(each.tolist() for each in columns), strict=True):
            task.rollouts += rollouts
            task.scored += scored
            task.passed += full
            task.total = total
        bins = np.bincount(np.clip((scores * _BINS).astype(int), 0, _BINS - 1), minlength=_BINS)
        self.histogram = [before + more for before, more in zip(self.histogram, bins.tolist(), strict=True)]
        if len(scores):
            self.bounds = min(self.bounds[0], float(scores.min())), max(self.bounds[1], float(scores.max()))


def _compute() -> Any:
    return import_module("pyarrow.compute")  # as in `store/columns.py`: importing it takes long


def _latencies(table: Table) -> Any:
    """Of every scored row the seconds from the agent's end to its score; a phase that it did not have took none."""
    import numpy as np  # noqa: PLC0415 - small runs do not need it

    scored = table.filter(_compute().is_valid(table.column("score")))
    phases = [name for name in (PHASE + phase for phase in AFTER_THE_END) if name in table.column_names]
    return sum((scored.column(name).fill_null(0.0).to_numpy() for name in phases), np.zeros(scored.num_rows))


def _slow(row: TraceRow) -> Slow:
    phase = max(row.phases, key=row.phases.__getitem__, default="")
    return Slow(seconds=row.seconds, task=row.task, rollout=row.rollout, phase=phase)


def _score(tasks: Iterable[_Task], bounds: tuple[float, float]) -> Interval:
    return clustered_mean([Sums(task.scored, task.total) for task in tasks], bounds=bounds)


def _pass_rate(tasks: Iterable[_Task]) -> Interval:
    return clustered_share([Sums(task.scored, task.passed) for task in tasks])


def _pass_at(tasks: Iterable[_Task]) -> Iterator[PassAtK]:
    """For k = 1, 2, 4, ... up to the most rollouts of any task."""
    alike = Counter((task.scored, task.passed) for task in tasks if task.scored)
    most = max((scored for scored, _ in alike), default=0)
    k = 1
    while k <= most:
        shares: list[Sums] = []
        for (scored, passed), number in alike.items():
            if scored >= k:
                shares += [Sums(1, pass_at_k(scored, passed, k))] * number
        yield PassAtK(k=k, share=clustered_mean(shares, bounds=(0, 1)), tasks=len(shares))
        k *= 2


def _portions(named: Iterable[tuple[str, _Task]], bounds: tuple[float, float]) -> dict[str, Portion]:
    groups: defaultdict[str, list[_Task]] = defaultdict(list)
    for name, task in named:
        groups[name].append(task)
    return {
        name: Portion(
            tasks=len(group),
            rollouts=sum(task.rollouts for task in group),
            scored=sum(task.scored for task in group),
            score=_score(group, bounds),
            pass_rate=_pass_rate(group),
        )
        for name, group in sorted(groups.items())
    }


def _phases(seconds: dict[str, float]) -> dict[str, Phase]:
    whole = sum(seconds.values())
    longest_first = sorted(seconds.items(), key=lambda item: -item[1])
    return {name: Phase(seconds=spent, share=spent / whole if whole else 0.0) for name, spent in longest_first}


def _durations(seconds: "array[float]") -> Durations | None:
    if not seconds:
        return None
    ordered = sorted(seconds)
    p50, p90, p99 = (quantile(ordered, share) for share in (0.5, 0.9, 0.99))
    return Durations(p50=p50, p90=p90, p99=p99, longest=ordered[-1])
