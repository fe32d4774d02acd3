"""Demonstrations: turns of a golden solution or another player, stored with the tokens the model would have sampled for them.

The player acts, and the renderer encodes each turn where the model would have sampled it, so that the trace can be used for
imitation. The tokens were not sampled: their log-probability is 0, and their version is that of the weights that train on them.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import msgspec

from sandlot.core.ports.model import Renderer
from sandlot.core.ports.session import Policies, Policy
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.tokens import packed_ids
from sandlot.core.trace import Message, Node, Tokens, Trace, Usage
from sandlot.model.policy.tokens import Prompts


class TurnRenderer(Renderer, Protocol):
    """A renderer that can also encode an assistant turn."""

    def turn(self, message: Message) -> list[int]:
        """The ids of an assistant turn, including its end."""
        ...


@dataclass(frozen=True, slots=True)
class DemonstratedPolicies:
    """`ports.Policies` that act as `players` do and store tokens."""

    players: Policies
    renderer: TurnRenderer
    version: int
    """Version of the weights that will train on it."""

    @property
    def name(self) -> str:
        """The player's name."""
        return self.players.name

    @asynccontextmanager
    async def policy(self, task: Task, seed: int, rollout: int = 0) -> AsyncGenerator[Policy]:
        """The player's policy for this rollout, with tokens."""
        async with self.players.policy(task, seed, rollout) as player:
            yield _DemonstratedPolicy(self, player, Prompts(self.renderer))


@dataclass(frozen=True, slots=True)
class _DemonstratedPolicy:
    """Lets the player take the turn, and adds its tokens."""

    settings: DemonstratedPolicies
    player: Policy
    prompts: Prompts

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:
        """The player's turn with its tokens."""
        prompt = self.prompts.next(trace, leaf, tools)
        taken = await self.player.turn(trace, prompt.leaf, tools)
        ids = self.settings.renderer.turn(taken.message)
        tokens = Tokens(
            ids=packed_ids(ids),
            logprobs=b"\0\0\0\0" * len(ids),
            mask=b"\x01" * len(ids),
            versions=((len(ids), self.settings.version),),
        )
        usage = Usage(prompt_tokens=len(prompt.ids), completion_tokens=len(ids))
        return msgspec.structs.replace(taken, context=packed_ids(prompt.context), tokens=tokens, usage=usage)
