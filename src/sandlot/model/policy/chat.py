"""A policy over any chat model: it sends the messages of the path and returns one sampled node.

Reasoning is kept in the trace; by default it is not sent to the model again. With `calls="text"` tools are described in the
system prompt and calls are read from the text. Retries become events in the trace. A context overflow is
`ModelError(kind="context")`, which the harness handles.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import msgspec

from sandlot.core.concurrency.clock import SYSTEM_CLOCK, Clock
from sandlot.core.images import describe_images
from sandlot.core.ports.model import ChatModel, Reply, Sampling
from sandlot.core.ports.session import Policies, Policy
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import MODEL_RETRY, Event, Message, Node, Part, Reasoning, Text, Trace
from sandlot.core.types import Role, derive_seed
from sandlot.model.endpoint.retry import Retry, listen_for_retries
from sandlot.model.endpoint.session import RolloutSession, in_session
from sandlot.model.wire.text_calls import messages_as_text, parse_calls


def chat_policies(
    model: ChatModel,
    sampling: Sampling,
    *,
    calls: Literal["native", "text"] = "native",
    reasoning: Literal["drop", "keep"] = "drop",
    images: Literal["send", "describe", "drop", "refuse"] = "refuse",
    clock: Clock = SYSTEM_CLOCK,
) -> Policies:
    """Policies over a chat model; with `reasoning="keep"` its earlier reasoning is sent again.

    `images`: `send` them to a model that sees, or give one that takes text only a line for each or nothing.
    """
    return _ChatPolicies(model, sampling, calls == "text", reasoning == "keep", images, clock)


@dataclass(frozen=True, slots=True)
class _ChatPolicies:
    """`ports.Policies` over one chat model."""

    model: ChatModel
    sampling: Sampling
    text_calls: bool
    keep_reasoning: bool
    images: Literal["send", "describe", "drop", "refuse"]
    clock: Clock

    @property
    def takes_images(self) -> bool:
        """True if a conversation may hold images."""
        return self.images != "refuse"

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

    @asynccontextmanager
    async def policy(self, task: Task, seed: int, rollout: int = 0) -> AsyncGenerator[Policy]:
        """A policy for one rollout; servers of the model may keep it at one of them until it ends."""
        session = RolloutSession(f"{task.id}/{rollout}/{seed:x}")
        try:
            yield _ChatPolicy(self, seed, session)
        finally:
            session.end()


@dataclass(frozen=True, slots=True)
class _ChatPolicy:
    """Takes a turn by a request to the model."""

    settings: _ChatPolicies
    seed: int
    session: RolloutSession

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:
        """Request the next assistant message below `leaf`; `ModelError` if the request fails."""
        settings = self.settings
        turn = trace.num_turns
        sampling = msgspec.structs.replace(settings.sampling, seed=derive_seed("sampling", self.seed, turn))
        messages = [node.message for node in trace.path(leaf)]
        if not settings.keep_reasoning:
            messages = [_without_reasoning(message) for message in messages]
        if settings.images in {"describe", "drop"}:
            messages = [describe_images(message, settings.images) for message in messages]
        if settings.text_calls:
            messages, tools = messages_as_text(messages, tools), ()
        begun, monotonic = settings.clock.wall(), settings.clock.monotonic
        started = monotonic()

        def note(retry: Retry) -> None:
            trace.events.append(Event(kind=MODEL_RETRY, turn=turn, detail=msgspec.to_builtins(retry)))

        with listen_for_retries(note), in_session(self.session):
            reply = await settings.model.chat(messages, tools, sampling)
        if settings.text_calls:
            reply = _with_text_calls(reply, turn)
        return Node(
            message=Message(role=Role.ASSISTANT, parts=reply.parts),
            parent=leaf,
            sampled=True,
            usage=reply.usage,
            stop=reply.stop,
            model=settings.model.name,
            replica=reply.replica,
            start_s=max(0.0, begun - trace.started),
            seconds=monotonic() - started,
        )


def _without_reasoning(message: Message) -> Message:
    """The message without its reasoning."""
    for part in message.parts:  # called for every message in every turn: `any` over a generator costs three times as much
        if isinstance(part, Reasoning):
            break
    else:
        return message
    return msgspec.structs.replace(message, parts=tuple(part for part in message.parts if not isinstance(part, Reasoning)))


def _with_text_calls(reply: Reply, turn: int) -> Reply:
    said = "".join(part.text for part in reply.parts if isinstance(part, Text))
    text, calls = parse_calls(said, f"turn{turn}")
    if not calls:
        return reply
    others: list[Part] = [part for part in reply.parts if not isinstance(part, Text)]
    parts = (*others, *((Text(text),) if text else ()), *calls)
    return msgspec.structs.replace(reply, parts=parts, stop="calls" if reply.stop == "stop" else reply.stop)
