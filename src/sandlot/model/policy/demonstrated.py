"""Another's turns in the tokens of a model: what a golden solution or any other player does, as the model would have said it.

The player acts; the renderer writes its words down at the very places where the model would have sampled them, so that the trace
can be imitated. Nobody sampled them: their log-probability is that of a player who is certain, 0, and their version that of the
weights they are shown to.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
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
    """A renderer that can also write an assistant's turn."""

    def turn(self, message: Message) -> list[int]:
        """The ids an assistant would have sampled to say this, its end included."""
        ...


@dataclass(frozen=True, slots=True)
class DemonstratedPolicies:
    """`ports.Policies` that play as `players` do."""

    players: Policies
    renderer: TurnRenderer
    version: int
    """Of the weights that are about to see it."""

    @property
    def name(self) -> str:
        """The player's."""
        return self.players.name

    def policy(self, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[Policy]:
        """The player's policy for this rollout, written down."""
        return self._open(task, seed, rollout)

    @asynccontextmanager
    async def _open(self, task: Task, seed: int, rollout: int) -> AsyncGenerator[Policy]:
        async with self.players.policy(task, seed, rollout) as player:
            yield _DemonstratedPolicy(self, player, Prompts(self.renderer))


@dataclass(frozen=True, slots=True)
class _DemonstratedPolicy:
    """Lets the player take the turn, and writes it down."""

    settings: DemonstratedPolicies
    player: Policy
    prompts: Prompts

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:
        """The player's turn with the tokens it would have had."""
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
