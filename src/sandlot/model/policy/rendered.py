"""A policy made of a token model and a renderer: what it samples is what can be trained on.

The first turn of a rollout is rendered; every later one is bridged, so that its prompt is the very ids of the path with new ones
appended. The node that comes back holds them all: what was given since the last turn, what was sampled, with which probability,
by which weights. A prompt that cannot extend the tokens held becomes a branch, with an event that says how far it drifted.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import anyio
import msgspec

from sandlot.core.branching import DriftKind, branch_off, classify, drift_event, drift_from_newest
from sandlot.core.concurrency.clock import SYSTEM_CLOCK, Clock
from sandlot.core.errors import ModelError
from sandlot.core.ports.model import Renderer, Sampled, Sampling, TokenModel
from sandlot.core.ports.session import Policies, Policy
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.tokens import held_tokens, packed_ids, unpacked_ids
from sandlot.core.trace import Event, Node, Tokens, Trace, Usage
from sandlot.core.types import derive_seed
from sandlot.model.endpoint.retry import Retry, retries_told

_RELEASE_S = 10.0
"""How long letting go of a rollout may take once it is over."""


def rendered(model: TokenModel, renderer: Renderer, sampling: Sampling, *, clock: Clock = SYSTEM_CLOCK) -> Policies:
    """Policies that let a token model speak through its renderer."""
    return _RenderedPolicies(model, renderer, sampling, clock)


@dataclass(frozen=True, slots=True)
class _RenderedPolicies:
    """`ports.Policies` over one token model."""

    model: TokenModel
    renderer: Renderer
    sampling: Sampling
    clock: Clock

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    def policy(self, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[Policy]:
        """A policy whose tokens the model keeps with preference until the rollout is over."""
        return self._opened(seed, f"{task.id}/{rollout}/{seed:x}")

    @asynccontextmanager
    async def _opened(self, seed: int, session: str) -> AsyncGenerator[Policy]:
        try:
            yield _RenderedPolicy(self, seed, session, Prompts(self.renderer))
        finally:
            with anyio.move_on_after(_RELEASE_S, shield=True):
                await self.model.release(session)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model is given, and where its answer goes."""

    held: list[int]
    context: list[int]
    leaf: int

    @property
    def ids(self) -> list[int]:
        """All of it."""
        return self.held + self.context


@dataclass(slots=True)
class Prompts:
    """The prompts of one rollout's turns: the first is rendered, each later one appends to the tokens that are there."""

    renderer: Renderer
    _told: tuple[ToolSpec, ...] | None = field(default=None, init=False)
    """The tools of the last turn. Tools stand at the head of a prompt, so new ones are another conversation."""

    def next(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Prompt:
        """The path's own tokens with what came since appended; what departs from them is recorded and branches off."""
        renderer, turn = self.renderer, trace.num_turns
        before, told = self._told, tuple(tools)
        self._told = told
        lost = drift_from_newest(trace, leaf)
        if lost is not None:
            trace.events.append(drift_event(lost, turn, "the newest turn is not part of the conversation that goes on"))
        messages = [node.message for node in trace.path(leaf)]
        kept = held_tokens(trace, leaf)
        if not kept.ids:
            return Prompt([], renderer.render(messages, tools), leaf)
        same = before is None or before == told
        appended = renderer.bridge(kept.ids, messages[kept.num_messages :]) if same else None
        if appended is not None:
            return Prompt(kept.ids, appended, leaf)
        incoming = renderer.render(messages, tools)
        drift = classify(kept.ids, incoming, kept.spans)
        if drift.kind is DriftKind.CLEAN:
            return Prompt(kept.ids, incoming[len(kept.ids) :], leaf)
        trace.events.append(drift_event(drift, turn, "no bridge over these messages" if same else "other tools than before"))
        branch = branch_off(trace, leaf, incoming)
        return Prompt(branch.ids, incoming[len(branch.ids) :], branch.leaf)


@dataclass(slots=True)
class _RenderedPolicy:
    """Takes a turn by sampling."""

    settings: _RenderedPolicies
    seed: int
    session: str
    prompts: Prompts

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:
        """The next assistant message below `leaf`; `ModelError` if the model gives none, of kind `context` if it does not fit."""
        settings = self.settings
        turn = trace.num_turns
        prompt = self.prompts.next(trace, leaf, tools)
        sampling = self._sampling(len(prompt.ids), turn)
        begun, monotonic = settings.clock.wall(), settings.clock.monotonic
        started = monotonic()

        def note(retry: Retry) -> None:
            trace.events.append(Event(kind="model_retry", turn=turn, detail=msgspec.to_builtins(retry)))

        with retries_told(note):
            sampled = await settings.model.sample(prompt.ids, sampling, stop_ids=settings.renderer.stop_ids, session=self.session)
        _require_whole(sampled, settings.model.name)
        num_sampled = len(sampled.ids) // 4
        message = settings.renderer.parse(unpacked_ids(sampled.ids), f"turn{turn}")
        return Node(
            message=message,
            parent=prompt.leaf,
            sampled=True,
            context=packed_ids(prompt.context),
            tokens=Tokens(ids=sampled.ids, logprobs=sampled.logprobs, mask=b"\x01" * num_sampled, versions=sampled.versions),
            usage=Usage(prompt_tokens=len(prompt.ids), completion_tokens=num_sampled, cached_tokens=sampled.cached),
            stop="calls" if sampled.stop == "stop" and message.calls else sampled.stop,
            model=settings.model.name,
            dtype=sampled.dtype,
            start_s=max(0.0, begun - trace.started),
            seconds=monotonic() - started,
        )

    def _sampling(self, num_given: int, turn: int) -> Sampling:
        sampling, context = self.settings.sampling, self.settings.model.context
        left = context - num_given
        if left <= 0:
            raise ModelError(
                f"the conversation has {num_given} tokens and `{self.settings.model.name}` takes {context}", kind="context"
            )
        most = left if sampling.max_tokens is None else min(left, sampling.max_tokens)
        return msgspec.structs.replace(sampling, max_tokens=most, seed=derive_seed("sampling", self.seed, turn))


def _require_whole(sampled: Sampled, name: str) -> None:
    """Refuse tokens that do not come with one probability and one weight version each: they could not be trained on."""
    num = len(sampled.ids) // 4
    counts = {
        "bytes of ids": (len(sampled.ids), 4 * num),
        "bytes of log-probabilities": (len(sampled.logprobs), 4 * num),
        "tokens with a weight version": (sum(count for count, _ in sampled.versions), num),
    }
    if num == 0:
        raise ModelError(f"`{name}` sampled no token at all", kind="tokens")
    for what, (found, wanted) in counts.items():
        if found != wanted:
            raise ModelError(f"`{name}` sampled {num} tokens and gave {found} {what}; they must be {wanted}", kind="tokens")
