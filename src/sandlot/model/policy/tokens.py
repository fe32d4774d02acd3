"""A policy over a token model and a renderer; its traces hold exact tokens for training.

The first prompt of a rollout is rendered. Later ones are bridged: the ids of the path with new ids appended. Each node stores the
context ids since the last turn, the sampled ids, their log-probabilities and weight versions. A prompt that does not extend the
stored tokens becomes a branch, with an event that describes the drift.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import anyio
import msgspec

from sandlot.core.branching import DriftKind, branch_off, classify, drift_event, drift_from_newest
from sandlot.core.concurrency.clock import SYSTEM_CLOCK, Clock
from sandlot.core.errors import ModelError
from sandlot.core.images import describe_images
from sandlot.core.ports.model import Renderer, Sampled, Sampling, TokenModel
from sandlot.core.ports.session import Policies, Policy
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.tokens import held_tokens, packed_ids, unpacked_ids
from sandlot.core.trace import MODEL_RETRY, Event, Node, Tokens, Trace, Usage
from sandlot.core.types import derive_seed
from sandlot.model.endpoint.retry import Retry, listen_for_retries
from sandlot.model.wire.server_load import LoadOf, load_of

_RELEASE_S = 10.0
"""Time for releasing the session of a finished rollout."""


def token_policies(
    model: TokenModel,
    renderer: Renderer,
    sampling: Sampling,
    *,
    images: Literal["describe", "drop", "refuse"] = "refuse",
    clock: Clock = SYSTEM_CLOCK,
) -> Policies:
    """Policies over a token model and its renderer. It takes text only: `images` says what stands for an image."""
    return _TokenPolicies(model, renderer, sampling, images, clock)


@dataclass(frozen=True, slots=True)
class _TokenPolicies:
    """`ports.Policies` over one token model."""

    model: TokenModel
    renderer: Renderer
    sampling: Sampling
    images: Literal["describe", "drop", "refuse"]
    clock: Clock

    @property
    def takes_images(self) -> bool:
        """True if a conversation may hold images."""
        return self.images != "refuse"

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

    @property
    def server_load(self) -> LoadOf | None:
        """How busy the model's servers are, if it can tell."""
        return load_of(self.model)

    @asynccontextmanager
    async def policy(self, task: Task, seed: int, rollout: int = 0) -> AsyncGenerator[Policy]:
        """A policy for one rollout; the model prefers to keep its cached prefix until the rollout ends."""
        session = f"{task.id}/{rollout}/{seed:x}"
        try:
            yield _TokenPolicy(self, seed, session, Prompts(self.renderer, self.images))
        finally:
            with anyio.move_on_after(_RELEASE_S, shield=True):
                await self.model.release(session)


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of a turn, and the node its answer follows."""

    held: list[int]
    context: list[int]
    leaf: int

    @property
    def ids(self) -> list[int]:
        """The whole prompt."""
        return self.held + self.context


@dataclass(slots=True)
class Prompts:
    """The prompts of one rollout: the first is rendered, later ones append to the stored tokens."""

    renderer: Renderer
    images: Literal["describe", "drop", "refuse"] = "refuse"
    _tools: tuple[ToolSpec, ...] | None = field(default=None, init=False)
    """The tools of the last turn. They stand at the head of a prompt, so other tools need a new prompt."""

    def next(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Prompt:
        """The path's tokens with the new messages appended; a prompt that differs from them is recorded and branches off."""
        renderer, turn = self.renderer, trace.num_turns
        before, self._tools = self._tools, tuple(tools)
        lost = drift_from_newest(trace, leaf)
        if lost is not None:
            trace.events.append(drift_event(lost, turn, "the newest turn is not part of the conversation that goes on"))
        messages = [describe_images(node.message, self.images) for node in trace.path(leaf)]
        kept = held_tokens(trace, leaf)
        if not kept.ids:
            return Prompt([], renderer.render(messages, tools), leaf)
        same = before is None or before == self._tools
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
class _TokenPolicy:
    """Takes a turn by sampling."""

    settings: _TokenPolicies
    seed: int
    session: str
    prompts: Prompts

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:
        """Sample the next assistant message below `leaf`; `ModelError` of kind `context` if the prompt does not fit."""
        settings = self.settings
        turn = trace.num_turns
        prompt = self.prompts.next(trace, leaf, tools)
        sampling = self._sampling(len(prompt.ids), turn)
        begun, monotonic = settings.clock.wall(), settings.clock.monotonic
        started = monotonic()

        def note(retry: Retry) -> None:
            trace.events.append(Event(kind=MODEL_RETRY, turn=turn, detail=msgspec.to_builtins(retry)))

        with listen_for_retries(note):
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
            replica=sampled.replica,
            start_s=max(0.0, begun - trace.started),
            seconds=monotonic() - started,
        )

    def _sampling(self, num_given: int, turn: int) -> Sampling:
        sampling, context = self.settings.sampling, self.settings.model.context
        left = context - num_given
        if left <= 0:
            raise ModelError(
                f"the conversation has {num_given} tokens; the context of `{self.settings.model.name}` is {context}",
                kind="context",
            )
        most = left if sampling.max_tokens is None else min(left, sampling.max_tokens)
        return msgspec.structs.replace(sampling, max_tokens=most, seed=derive_seed("sampling", self.seed, turn))


def _require_whole(sampled: Sampled, name: str) -> None:
    """Refuse tokens without one log-probability and one weight version each: they could not be trained on."""
    num = len(sampled.ids) // 4
    counts = {
        "bytes of ids": (len(sampled.ids), 4 * num),
        "bytes of log-probabilities": (len(sampled.logprobs), 4 * num),
        "tokens with a weight version": (sum(count for count, _ in sampled.versions), num),
    }
    if num == 0:
        raise ModelError(f"`{name}` sampled no tokens", kind="tokens")
    for what, (found, wanted) in counts.items():
        if found != wanted:
            raise ModelError(f"`{name}` sampled {num} tokens and gave {found} {what}; they must be {wanted}", kind="tokens")
