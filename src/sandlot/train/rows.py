"""A trace as the trainer reads it: one row for each path of its token tree, each sampled token in play exactly once.

A row's ids are the very ids the model was given and sampled. Where paths share sampled tokens, the first one trains them and the
others carry them as context, so that a rollout that forked does not count its beginning twice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sandlot.errors import ConfigError
from sandlot.trace import Node, Scored, Trace

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Row:
    """One path from the root to a leaf."""

    rollout: tuple[str, int]
    """The rollout it belongs to; a rollout that forked has several rows."""
    ids: Ints
    trained: Flags
    """Sampled here, by an agent that learns, and not trained by an earlier row."""
    logprobs: Floats
    """Of the policy that sampled each token; 0 where none did."""
    versions: Ints
    """The weights that sampled each token; -1 where none did."""
    turns: Ints
    """Which turn of the rollout each token was sampled in; -1 where none was."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Member:
    """A scored rollout of a group."""

    reward: float
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """The attempts at one task that are compared: scored ones only."""

    task: str
    members: tuple[Member, ...]
    dropped: int = 0
    """Rollouts that failed or were cancelled: never a reward."""

    @property
    def rewards(self) -> Floats:
        """One a member."""
        return np.array([member.reward for member in self.members], dtype=np.float32)

    @property
    def informative(self) -> bool:
        """True if its members differ: without that there is nothing to compare."""
        return len(self.members) > 1 and bool(np.ptp(self.rewards) > 0)


def group_of(task: str, traces: Sequence[Trace]) -> Group:
    """The scored traces of one task; `ConfigError` for one whose tokens are not exact."""
    scored = [trace for trace in traces if isinstance(trace.outcome, Scored)]
    members = tuple(Member(reward=_reward(trace), rows=rows_of(trace)) for trace in scored)
    return Group(task=task, members=members, dropped=len(traces) - len(scored))


def _reward(trace: Trace) -> float:
    assert trace.reward is not None
    return trace.reward


def rows_of(trace: Trace, *, learners: Sequence[str] = ("agent",)) -> tuple[Row, ...]:
    """The rows of a trace, in the order their last turns were taken."""
    if not trace.trainable:
        raise ConfigError(
            f"trace {trace.task}/{trace.rollout} has turns without token ids and log-probabilities, and cannot be trained on; "
            "sample with a model that gives them: `smollm2`, `rookie`, `hf:FOLDER`, `vllm:` or `sglang:`"
        )
    taken: set[int] = set()
    number = {index: turn for turn, index in enumerate(i for i, node in enumerate(trace.nodes) if node.sampled)}
    return tuple(_row(trace, path, number, taken, learners) for path in _paths(trace))


def _paths(trace: Trace) -> Iterator[list[int]]:
    """Index paths to every sampled node below which nothing was sampled."""
    above: set[int] = set()
    paths: dict[int, list[int]] = {}
    for index, node in enumerate(trace.nodes):
        before = paths.get(node.parent, []) if node.parent is not None else []
        paths[index] = [*before, index] if node.sampled else before
        if node.sampled:
            above.update(before)
    return (paths[index] for index, node in enumerate(trace.nodes) if node.sampled and index not in above)


def _row(trace: Trace, path: list[int], number: dict[int, int], taken: set[int], learners: Sequence[str]) -> Row:
    columns: list[tuple[Any, ...]] = []
    for index in path:
        node = trace.nodes[index]
        context = np.frombuffer(node.context, dtype="<i4")
        silent = np.zeros(len(context), dtype=bool)
        columns.append(
            (context, silent, np.zeros(len(context), np.float32), np.full(len(context), -1), np.full(len(context), -1))
        )
        fresh = index not in taken and node.message.agent in learners
        taken.add(index)
        columns.append((*_sampled(node, fresh=fresh), np.full(len(node.tokens or ()), number[index])))
    ids, trained, logprobs, versions, turns = (np.concatenate(column) for column in zip(*columns, strict=True))
    return Row(
        rollout=trace.key,
        ids=ids.astype(np.int32),
        trained=trained,
        logprobs=logprobs.astype(np.float32),
        versions=versions.astype(np.int32),
        turns=turns.astype(np.int32),
    )


def _sampled(node: Node, *, fresh: bool) -> tuple[Any, Any, Any, Any]:
    tokens = node.tokens
    assert tokens is not None
    count = len(tokens)
    mask = np.frombuffer(tokens.mask, dtype=np.uint8).astype(bool) if tokens.mask else np.zeros(count, dtype=bool)
    versions = np.repeat([version for _, version in tokens.versions], [runs for runs, _ in tokens.versions])
    if len(mask) != count or len(versions) != count:
        raise ConfigError(f"a turn of {count} tokens has {len(mask)} mask entries and {len(versions)} versions; all must agree")
    return tokens.ids_array(), mask & fresh, tokens.logprobs_array(), versions
