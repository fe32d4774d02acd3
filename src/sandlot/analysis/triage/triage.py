"""Triage of a run: what failed, how often, what passing rollouts do differently, and what people should read next.

Rows decide which traces are read: all of a run of ordinary size, a seeded sample of a large one. Every trace is read once.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgspec

from sandlot.analysis.taxonomy import VERSION, label_of_row
from sandlot.analysis.triage.agreement import ReaderAgreement, agreements_of
from sandlot.analysis.triage.clusters import Cluster, OpenedTrace, clusters, summarise_trace
from sandlot.analysis.triage.labels import Review, read_labels, review_of
from sandlot.analysis.triage.oddities import Odd, oddities
from sandlot.analysis.triage.strata import Chosen, strata
from sandlot.core.trace_row import TraceRow
from sandlot.core.types import derive_seed
from sandlot.run.results import Run
from sandlot.store.columns import rows_of

_TRACES = 3000
"""Maximum traces to read: a third failures, a third with lost points, a third passes."""
_ROWS = 20_000
"""Of a run with more rollouts, the queue of a page considers a sample."""


class Triage(msgspec.Struct, frozen=True, kw_only=True):
    """The triage of a run."""

    format: int = 1
    taxonomy: int = VERSION
    run: str
    environment: str
    model: str
    rollouts: int
    opened: int
    seed: int
    labels: dict[str, int]
    """Number of rollouts by computed label, most frequent first; labels that need the trace are counted where it was read."""
    clusters: tuple[Cluster, ...]
    odd: tuple[Odd, ...]
    proposed: tuple[Chosen, ...]
    """Rollouts that people should read next."""
    review: Review
    agreement: tuple[ReaderAgreement, ...] = ()
    """How far every two people agree who labelled the same rollouts."""

    @property
    def exit_code(self) -> int:
        """1 if the environment caused failures, 3 if there are no rollouts, else 0."""
        if not self.rollouts:
            return 3
        return 1 if any(cluster.blames_environment for cluster in self.clusters) else 0


def triage(run: Run | str | Path, *, traces: int = _TRACES, seed: int = 0) -> Triage:
    """Group the failures of a run by cause, and return the `Triage`: clusters, odd successes, rollouts worth reading.

    - `run`: a `Run`, or the path of a run directory.
    - `traces`: maximum number of traces to read.
    - `seed`: seed for the random choices.

    ```python
    import sandlot

    run = sandlot.run("arithmetic", "scripted:mixed:0.5", group=4)
    for cluster in sandlot.triage(run).clusters:
        print(cluster.size, cluster.signature.label, cluster.examples[0])
    ```
    """
    run = run if isinstance(run, Run) else Run(run)
    read = _read(run, list(run.rows), traces, seed)
    kept = read_labels(run.path)
    return Triage(
        run=str(run.path),
        environment=run.manifest.environment,
        model=run.manifest.config.model.spec,
        rollouts=len(read.rows),
        opened=len(read.seen),
        seed=seed,
        labels=_tally(read.rows, read.seen),
        clusters=read.clusters,
        odd=oddities(read.seen),
        proposed=_propose(run, read, kept.rollouts, seed),
        review=review_of(kept),
        agreement=agreements_of(kept.counting),
    )


def draw_queue(run: Run, *, seed: int = 0, most: int = _ROWS) -> tuple[Chosen, ...]:
    """The rollouts that `triage` proposes to people, whether or not they have labels: two people can read the same ones.

    Of a run with more than `most` rollouts a random sample is considered, with its failures, so that a page with the queue comes
    soon.
    """
    large = len(run) > most
    rows = _sample_rows(run, most, seed) if large else list(run.rows)
    return _propose(run, _read(run, rows, _TRACES // 4 if large else _TRACES, seed), (), seed)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was read of a run."""

    rows: list[TraceRow]
    seen: list[OpenedTrace]
    clusters: tuple[Cluster, ...]


def _sample_rows(run: Run, most: int, seed: int) -> list[TraceRow]:
    """Rows of a large run: a sample of the failures, and one of all."""
    rng = Random(derive_seed("queue", seed))  # noqa: S311 - a repeatable sample, not a secret
    outcomes = run.reader.table(["outcome"]).column("outcome").to_pylist()
    failed = [place for place, outcome in enumerate(outcomes) if outcome == "failed"]
    chosen = {*rng.sample(failed, min(len(failed), most // 4)), *rng.sample(range(len(outcomes)), most // 2)}
    return list(rows_of(run.reader.table().take(sorted(chosen))))


def _read(run: Run, rows: list[TraceRow], traces: int, seed: int) -> _Reading:
    chosen = _chosen(rows, traces, seed)
    tags = {row.task: row.tags for row in chosen}
    opened = run.reader.traces_of((row.task, row.rollout) for row in chosen)
    seen = [summarise_trace(trace, tags[trace.task]) for trace in opened]
    return _Reading(rows, seen, clusters(seen))


def _propose(run: Run, read: _Reading, judged: Iterable[tuple[str, int]], seed: int) -> tuple[Chosen, ...]:
    return strata(
        read.rows,
        limits_of=run.manifest.limits_of,
        suspected=[(each.doing.task, each.doing.rollout) for each in read.seen if each.passed and each.hits],
        pairs=[_key(place) for cluster in read.clusters if cluster.contrast for place in cluster.contrast.pair],
        judged=judged,
        seed=seed,
    )


def _key(place: str) -> tuple[str, int]:
    task, _, rollout = place.rpartition("/")
    return task, int(rollout)


def _chosen(rows: Sequence[TraceRow], most: int, seed: int) -> list[TraceRow]:
    """A third of each kind; what one kind does not need, the others may use."""
    kinds = [
        [row for row in rows if row.outcome == "failed"],
        [row for row in rows if row.outcome == "scored" and not row.passed],
        [row for row in rows if row.outcome == "scored" and row.passed],
    ]
    chosen: list[TraceRow] = []
    rng = Random(derive_seed("triage", seed))  # noqa: S311 - a repeatable sample, not a secret
    for waiting, kind in zip((3, 2, 1), sorted(kinds, key=len), strict=True):  # the smallest first: it leaves most for the others
        room = (most - len(chosen)) // waiting
        chosen += kind if len(kind) <= room else rng.sample(kind, room)
    return chosen


def _tally(rows: Sequence[TraceRow], seen: Sequence[OpenedTrace]) -> dict[str, int]:
    opened = {each.place: each.signature.label for each in seen if each.signature is not None}
    labels = (opened.get(f"{row.task}/{row.rollout}") or label_of_row(row) or "cancelled" for row in rows)
    return dict(Counter(labels).most_common())
