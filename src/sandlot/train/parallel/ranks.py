"""The processes of one training run, as `torchrun` starts them.

Rank 0 leads: only it has the environment, the engine and the store. The others wait for its calls, and repeat them at the same
time. Calls and figures are sent with gloo on the CPU, whichever backend sends the weights.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist

from sandlot.core.errors import ConfigError

_CPU = torch.device("cpu")
_PATIENCE = timedelta(days=7)
"""Maximum time that rank 0 may collect rollouts between two calls. A process that dies is noticed at once."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """One process of a training."""

    number: int = 0
    count: int = 1
    device: torch.device = _CPU
    orders: dist.ProcessGroup | None = None

    @property
    def leads(self) -> bool:
        """True for rank 0, which has the environment."""
        return self.number == 0

    def broadcast(self, value: Any) -> Any:
        """Send rank 0's value to every rank; returns it."""
        if self.count == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self.orders)
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, in the order of ranks, on every rank."""
        if self.count == 1:
            return [value]
        boxes: list[Any] = [None] * self.count
        cast("Any", dist).all_gather_object(boxes, value, group=self.orders)
        return boxes

    def sum(self, values: Sequence[float]) -> list[float]:
        """Sums over all ranks."""
        return self._reduce(values, dist.ReduceOp.SUM)

    def max(self, value: float) -> float:
        """The largest value of all ranks."""
        return self._reduce([value], dist.ReduceOp.MAX)[0]

    def _reduce(self, values: Sequence[float], by: Any) -> list[float]:
        if self.count == 1:
            return list(values)
        figures = torch.tensor(values, dtype=torch.float64)
        cast("Any", dist).all_reduce(figures, op=by, group=self.orders)
        return cast("list[float]", figures.tolist())  # pyright: ignore[reportUnknownMemberType] - torch says list of anything


ALONE = Ranks()


def is_leader() -> bool:
    """True for a single process, and for rank 0 of those that `torchrun` started."""
    return "TORCHELASTIC_RUN_ID" not in os.environ or os.environ["RANK"] == "0"


def num_processes() -> int:
    """How many processes `torchrun` started; 1 without it."""
    return int(os.environ["WORLD_SIZE"]) if "TORCHELASTIC_RUN_ID" in os.environ else 1


@contextmanager
def open_ranks(device: str) -> Generator[Ranks]:
    """Join the processes that `torchrun` started; without it, a single process."""
    if num_processes() == 1:
        yield Ranks(device=torch.device(device))
        return
    place = _place(torch.device(device), int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if place.type == "cuda" else "gloo")
    try:
        orders = cast("Any", dist).new_group(backend="gloo", timeout=_PATIENCE)
        yield Ranks(number=dist.get_rank(), count=dist.get_world_size(), device=place, orders=orders)
    finally:
        dist.destroy_process_group()


def _place(device: torch.device, local: int) -> torch.device:
    """The device of this process: its own GPU."""
    if device.type != "cuda":
        return device
    if local >= torch.cuda.device_count():
        raise ConfigError(
            f"process {local} of this machine has no GPU: there are {torch.cuda.device_count()}; "
            f"start `torchrun --nproc-per-node {torch.cuda.device_count()}`"
        )
    torch.cuda.set_device(local)
    return torch.device("cuda", local)
