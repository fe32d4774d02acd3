"""Rows of tokens for the trainer: one for each path of a trace's token tree, each sampled token trained exactly once.

A row has the exact ids that the model received and sampled. Where paths share sampled tokens, the first path trains them and the
others have them as context: a rollout that forked does not count its shared prefix twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sandlot.core.errors import ConfigError
from sandlot.core.rubric import RubricScore
from sandlot.core.seats import SeatTrace, seat_trace
from sandlot.core.tokens import NO_VERSION, path_indices, token_path
from sandlot.core.trace import Scored, Trace

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Row:
    """The tokens of one path from the root to a leaf."""

    rollout: tuple[str, int]
    """The rollout it belongs to; a rollout that forked has several rows."""
    ids: Ints
    trained: Flags
    """True for tokens that a learning agent sampled and no earlier row trains."""
    logprobs: Floats
    """Log-probabilities under the policy that sampled; 0 for tokens that were not sampled."""
    versions: Ints
    """Version of the weights that sampled each token; -1 for tokens that were not sampled."""
    turns: Ints
    """The turn in which each token was sampled; -1 for tokens that were not sampled."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Member:
    """A scored rollout of a group."""

    reward: float
    rows: tuple[Row, ...]

    @property
    def rollout(self) -> tuple[str, int]:
        """The key of the trace it was made of."""
        return self.rows[0].rollout


@dataclass(frozen=True, slots=True)
class Group:
    """The scored rollouts of one task, which are compared with each other."""

    task: str
    members: tuple[Member, ...]
    dropped: int = 0
    """Rollouts that failed or were cancelled; they have no reward."""
    environment: str = ""
    """Name of the environment; empty for pairs of a file."""
    seat: str = ""
    """Where several agents act: the seat whose part in the rollouts it is."""

    @property
    def rewards(self) -> Floats:
        """The reward of each member."""
        return np.array([member.reward for member in self.members], dtype=np.float32)

    @property
    def informative(self) -> bool:
        """True if the rewards of its members differ."""
        return len(self.members) > 1 and bool(np.ptp(self.rewards) > 0)


@runtime_checkable
class _Together(Protocol):
    """A reward that is cheaper for several traces at once."""

    def rewards(self, traces: Sequence[Trace]) -> Sequence[float | None]:
        """The reward of each trace; None for one that it cannot judge."""
        ...


def group_of(
    task: str,
    traces: Sequence[Trace],
    reward: Callable[[Trace], float] | None = None,
    *,
    environment: str = "",
    seat: str = "",
) -> Group:
    """The group of one task's traces; `reward` replaces the score.

    Left out and counted: traces that failed, in which nothing was sampled, or that have no reward.
    """
    scored = [trace for trace in traces if isinstance(trace.outcome, Scored) and any(trace.turns())]
    if isinstance(reward, _Together):
        rewards = reward.rewards(scored)
    else:
        rewards = [reward(trace) if reward else score_of(trace) for trace in scored]
    pairs = zip(rewards, scored, strict=True)
    members = tuple(Member(reward=each, rows=rows_of(trace)) for each, trace in pairs if each is not None)
    return Group(task=task, members=members, dropped=len(traces) - len(members), environment=environment, seat=seat)


def split_by_seat(traces: Sequence[Trace], seats: Sequence[str]) -> list[list[Trace]]:
    """The traces of each learning seat: a seat is compared with the same seat in other rollouts. Without seats, all together.

    Rollouts that were over before the seat took a turn are left out: there is nothing that it could learn from.
    """
    if not seats:
        return [list(traces)]
    # A rollout that failed before anyone acted has no seats, and counts as failed for each.
    whole = [[seat_trace(trace, seat) if seat in trace.seats else trace for trace in traces] for seat in seats]
    return [[trace for trace in own if trace.num_turns or not isinstance(trace.outcome, Scored)] for own in whole]


def score_of(trace: Trace) -> float:
    """The score of a scored trace."""
    assert isinstance(trace.outcome, Scored)
    return trace.outcome.score.value


def learner_scores(trace: Trace, seats: Sequence[str]) -> list[RubricScore]:
    """The scores of a rollout that the learning seats have, one for each; without seats its own. Empty if it has no score."""
    if not isinstance(trace.outcome, Scored):
        return []
    whole = trace.outcome.score
    return [trace.seats[seat].score or whole for seat in seats if seat in trace.seats] if seats else [whole]


def rows_of(trace: Trace, *, learners: Sequence[str] = ("agent",)) -> tuple[Row, ...]:
    """The rows of a trace, in the order their last turns were taken; `ConfigError` for one whose tokens are not exact."""
    if not trace.trainable:
        raise ConfigError(
            f"trace {trace.task}/{trace.rollout} has turns without token ids and log-probabilities, and cannot be trained on; "
            "sample with a model that gives them: `smollm2`, `rookie`, `hf:FOLDER`, `vllm:` or `sglang:`"
        )
    taken: set[int] = set()
    return tuple(_row(trace, leaf, taken, learners) for leaf in _leaves(trace))


def rollout_key(trace: Trace) -> tuple[str, int]:
    """The trace's key. Seats of one rollout are in different groups, so each is a rollout of its own; their names have no `/`."""
    return (f"{trace.task}/{trace.seat}", trace.rollout) if isinstance(trace, SeatTrace) else trace.key


def _leaves(trace: Trace) -> list[int]:
    """The nodes of turns after which nothing was sampled."""
    above: set[int] = set()
    for index, node in enumerate(trace.nodes):
        if node.sampled:
            above.update(path_indices(trace, index)[:-1])
    return [index for index, node in enumerate(trace.nodes) if node.sampled and index not in above]


def _row(trace: Trace, leaf: int, taken: set[int], learners: Sequence[str]) -> Row:
    path = token_path(trace, leaf)
    sampled = path.versions != NO_VERSION
    turns = {index: turn for turn, index in enumerate(i for i, node in enumerate(trace.nodes) if node.is_turn)}
    fresh = {index for index in path_indices(trace, leaf) if index not in taken and trace.nodes[index].message.agent in learners}
    taken |= fresh
    return Row(
        rollout=rollout_key(trace),
        ids=path.ids.astype(np.int32),
        trained=sampled & (path.mask == 1) & np.isin(path.nodes, list(fresh)),
        logprobs=np.where(sampled, path.logprobs, 0).astype(np.float32),
        versions=path.versions.astype(np.int32),
        turns=np.array([turns[int(node)] if here else -1 for node, here in zip(path.nodes, sampled, strict=True)], np.int32),
    )
