"""Weights sharded over several processes with torch's FSDP2.

A linear layer is gathered for its own forward and backward pass; embedding, norms, head and critic from the start of a forward
pass to the end of its backward pass. Gradients are summed over processes and stay sharded, and so does the optimiser's state. All
processes call the functions here at the same time. Importing this module takes seconds.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from sandlot.model.nn.adapter import AdaptedLinear, adapted_linears
from sandlot.model.nn.decoder import Decoder
from sandlot.train.forest.module import DecoderWithCritic
from sandlot.train.parallel.ranks import Ranks

State = dict[str, Any]


def shard(network: DecoderWithCritic, ranks: Ranks) -> None:
    """Replace the weights by this process's shards, in place."""
    mesh = init_device_mesh(ranks.device.type, (ranks.count,))
    layers = [module for module in network.decoder.blocks.modules() if isinstance(module, nn.Linear | AdaptedLinear)]
    for module in (*layers, network):
        unit = fully_shard(module, mesh=mesh)
        # Token weights are fixed over the whole batch, so gradients are summed, not averaged; gloo has no average either.
        unit.set_gradient_divide_factor(1.0)
        unit.set_force_sum_reduction_for_comms(enable=True)
    for _, linear in adapted_linears(network.decoder):
        linear.original[0].to("meta")  # frees the whole weight, which is not used any more


class Shards:
    """The sharded weights; rank 0 also has a whole copy on the CPU, for checkpoints and publishing."""

    def __init__(self, network: DecoderWithCritic, ranks: Ranks) -> None:
        self._copy = copy.deepcopy(network.decoder).cpu() if ranks.leads else None
        self._ranks, self._network = ranks, network
        self._gathered = 0
        """The step of the weights in the copy."""
        shard(network, ranks)
        named = network.decoder.named_parameters()
        self._parts = {name: cast("DTensor", parameter) for name, parameter in named if parameter.requires_grad}

    def whole(self, step: int) -> Decoder:
        """On rank 0, a decoder with all weights as they are after this step."""
        own = self._own()
        for name, part in self._parts.items() if step != self._gathered else ():
            gathered = self.full(part)
            if name in own:
                own[name].copy_(gathered)
        self._gathered = step
        return self._copy or self._network.decoder

    def overwrite(self, put: Callable[[Decoder], None] | None, step: int) -> None:
        """Change rank 0's copy, and send every rank its shard."""
        self.whole(step)
        if self._copy is not None and put is not None:
            put(self._copy)
        own = self._own()
        for name, part in self._parts.items():
            _scatter(part, own.get(name))

    def _own(self) -> dict[str, Tensor]:
        return {name: parameter.detach() for name, parameter in self._copy.named_parameters()} if self._copy else {}

    def reshard(self, network: DecoderWithCritic) -> None:
        """Free what was gathered for a forward pass without a backward pass."""
        cast("FSDPModule", network).reshard()

    def full(self, tensor: Tensor) -> Tensor:
        """All of a sharded tensor."""
        return cast("Any", tensor).detach().full_tensor()

    def gather(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A module's state, whole."""
        return {name: self.full(tensor).cpu() for name, tensor in state.items()}

    def put_critic(self, critic: nn.Linear | None, kept: Mapping[str, Tensor] | None) -> None:
        """Overwrite a critic with what rank 0 has."""
        for name, parameter in critic.named_parameters() if critic is not None else ():
            _scatter(parameter, kept[name] if kept else None)

    def state(self, optimiser: torch.optim.Optimizer) -> State:
        """The optimiser's state as it would be in one process."""
        state: State = optimiser.state_dict()
        kept = {
            number: {name: self.full(value).cpu() if isinstance(value, DTensor) else value for name, value in entry.items()}
            for number, entry in state["state"].items()
        }
        return {**state, "state": kept}

    def put_state(self, optimiser: torch.optim.Optimizer, parameters: Sequence[nn.Parameter], kept: State | None) -> None:
        """Load a state that rank 0 has in the format of a single process."""
        outline = self._ranks.broadcast({**kept, "state": dict(_outline(kept["state"], parameters))} if kept else None)
        entries: dict[int, State] = outline["state"]
        state = {
            number: {
                name: _distribute(parameters[number], kept["state"][number][name] if kept else None) if value is None else value
                for name, value in entry.items()
            }
            for number, entry in entries.items()
        }
        optimiser.load_state_dict({**outline, "state": state})


@torch.no_grad()
def _scatter(part: Tensor, whole: Tensor | None) -> None:
    """Overwrite a sharded tensor with what rank 0 has."""
    cast("DTensor", part).to_local().copy_(_distribute(part, whole).to_local())


def _distribute(like: Tensor, whole: Tensor | None) -> DTensor:
    """A tensor that rank 0 has, sharded as another is."""
    assert isinstance(like, DTensor)
    given = torch.empty(like.shape, dtype=like.dtype) if whole is None else whole.detach().to(like.dtype)
    return distribute_tensor(given.to(like.device), like.device_mesh, like.placements)


def _outline(state: Mapping[int, Mapping[str, Any]], parameters: Sequence[nn.Parameter]) -> Iterator[tuple[int, State]]:
    """The state without the tensors of a parameter's shape, which are None here: each rank gets its shard of them later."""
    for number, entry in state.items():
        shape = parameters[number].shape
        yield (
            number,
            {name: None if isinstance(value, Tensor) and value.shape == shape else value for name, value in entry.items()},
        )
