"""The trainer that the loop uses: one in this process, or one that leads several processes.

Every method that rank 0's loop calls on its `_Leader` is called on all ranks: rank 0 broadcasts the call, then all ranks call the
same method of their own trainer. The loop does not know which of the two it has.
"""

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch.distributed as dist

from sandlot.core.errors import HarnessError
from sandlot.model.nn.decoder import Decoder
from sandlot.train.algorithms.algorithms import TrainingRow
from sandlot.train.parallel.ranks import Ranks
from sandlot.train.rows import Floats, Row
from sandlot.train.tally import Update
from sandlot.train.trainer import Trainer

_END_S = 20.0
"""How long to wait at the end for an update in progress, before the other processes are left without a message."""


_LOST = ("gloo", "NCCL", "Connection closed", "Connection reset")
"""Texts in errors that mean that another process does not answer; torch has no class for them."""


class Learner(Protocol):
    """What the loop needs of a trainer."""

    def update(self, groups: Sequence[Sequence[TrainingRow]], rate: float = 1.0) -> Update:
        """Learn from a batch, with `rate` times the learning rate."""
        ...

    def values(self, row: Row) -> Floats:
        """The critic's value before each trained token of a row."""
        ...

    def logprobs(self, rows: Sequence[Row]) -> list[Floats]:
        """Log-probabilities of each row's trained tokens, under the current weights."""
        ...

    def whole(self) -> Decoder:
        """A decoder with all current weights, for reading."""
        ...

    def overwrite(self, put: Callable[[Decoder], None]) -> None:
        """Change the weights with a function that receives a decoder with all of them."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything that must survive a crash, except the weights."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a stored state."""
        ...


class _Leader:
    """The trainer of rank 0: every call is made on all ranks."""

    def __init__(self, trainer: Trainer, ranks: Ranks) -> None:
        self._trainer, self._ranks = trainer, ranks
        self._one_at_a_time = threading.Lock()
        self._broken = False
        """True while the ranks may be at different calls."""

    def update(self, groups: Sequence[Sequence[TrainingRow]], rate: float = 1.0) -> Update:
        """Learn from a batch, each rank from its share."""
        return self._call_everywhere("update", groups, rate)

    def values(self, row: Row) -> Floats:
        """The critic's value before each trained token of a row."""
        return self._call_everywhere("values", row)

    def logprobs(self, rows: Sequence[Row]) -> list[Floats]:
        """Log-probabilities of each row's trained tokens, under the current weights."""
        return self._call_everywhere("logprobs", rows)

    def whole(self) -> Decoder:
        """A decoder with all of the weights, gathered."""
        return self._call_everywhere("whole")

    def overwrite(self, put: Callable[[Decoder], None]) -> None:
        """Change the weights here, and give every rank its shard."""
        self._call_everywhere("overwrite", put, theirs=(None,))

    def state(self) -> dict[str, Any]:
        """The optimiser's state, gathered, and what else must survive."""
        return self._call_everywhere("state")

    def restore(self, state: Mapping[str, Any]) -> None:
        """Give every rank its shard of a kept state."""
        self._call_everywhere("restore", state, theirs=(None,))

    def _call_everywhere(self, name: str, *words: Any, theirs: tuple[Any, ...] | None = None) -> Any:
        with self._one_at_a_time:
            self._broken = True  # until all ranks are done
            with _report_lost_process(self._ranks):
                self._ranks.broadcast((name, words if theirs is None else theirs))
                done = getattr(self._trainer, name)(*words)
            self._broken = False
            return done

    def end(self) -> None:
        """End the other processes, after the update in progress: they do not listen during one."""
        if not self._one_at_a_time.acquire(timeout=_END_S):
            return
        try:
            if not self._broken:
                with _report_lost_process(self._ranks):
                    self._ranks.broadcast(None)
        finally:
            self._one_at_a_time.release()


@contextmanager
def _report_lost_process(ranks: Ranks) -> Generator[None]:
    """Turn the errors of a lost process into a `HarnessError` that says so; other errors pass."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and not any(word in str(error) for word in _LOST):
            raise
        others = [f"{number}" for number in range(ranks.count) if number != ranks.number]
        raise HarnessError(
            f"process {' or '.join(others)} of this training has ended before the others; torchrun says which, and why"
        ) from error


@contextmanager
def open_leader(trainer: Trainer, ranks: Ranks) -> Generator[Learner]:
    """The loop's trainer; the other processes are ended with the block."""
    if ranks.count == 1:
        yield trainer
        return
    leader = _Leader(trainer, ranks)
    try:
        yield leader
    finally:
        leader.end()


def follow(trainer: Trainer, ranks: Ranks) -> None:
    """Make the calls that rank 0 broadcasts, until it ends."""
    with _report_lost_process(ranks):
        while (order := ranks.broadcast(None)) is not None:
            name, words = order
            getattr(trainer, name)(*words)
