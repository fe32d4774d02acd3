"""A sample of an Inspect task as a world: Inspect's own runner runs it, and our agent is its model.

The solver, the tools, the limits and the scorers are Inspect's. A tool call of ours is handed to it as a message with one call,
and what its tool answered is the result. A message without calls is handed to it too: if the solver then asks again, that is the
user's reply, and otherwise the sample is over and scored. Inspect runs in a process of its own, in the Python that
`SANDLOT_INSPECT_PYTHON` names, or else in ours.

A model that the solver, a tool or a scorer asks in a role, such as the customer of tau2, is the run's `--user` model: the process
sends the conversation of the role and gets the next message. It has no model of its own.
"""

import itertools
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio.to_thread
import msgspec

from sandlot.core.concurrency import author
from sandlot.core.errors import AuthorError, ConfigError, GradeError, ModelError, ToolError, boundary
from sandlot.core.persona import AGENT as USER
from sandlot.core.ports.grading import Evidence
from sandlot.core.ports.session import RoleWorld, UserTurn
from sandlot.core.ports.world import Tool, ToolSpec, World
from sandlot.core.task import Task
from sandlot.core.trace import Event, Message, Node, Part, Text, ToolCall, ToolResult
from sandlot.core.types import End, Json, Role
from sandlot.interop.gyms.source import read_score_range
from sandlot.interop.inspect_ai.records import LogScore
from sandlot.interop.inspect_ai.scores import rubric_score
from sandlot.interop.inspect_ai.server import InspectJob, InspectMessage, ModelQuestion, question_of, server_of
from sandlot.tools.arguments import checked_arguments, clean

_MAX_SAID_CHARS = 100_000
"""Characters of a message that Inspect gets. A conversation comes back in one line, which an agent must not make too long."""
_OVER = "The task is over; say that you are done."
_NUMBERS = itertools.count()
_JOBS: dict[str, "PlayedSample"] = {}
"""The samples in progress, by the name in the state of their worlds."""


@dataclass(frozen=True, slots=True)
class InspectWorld:
    """The tools of a sample (a source of tools)."""

    source: str
    arguments: Json
    requires: tuple[str, str]
    """The versions of inspect-ai and of the task's package that it was imported with."""
    roles: tuple[str, ...] = ()
    """The roles in which the task asks a model (`ports.AsksRoles`)."""
    checked: list[bool] = field(default_factory=list[bool])

    def open(self, world: World) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Begin the sample, up to its first question to the agent."""
        return self._opened(world)

    @asynccontextmanager
    async def _opened(self, world: World) -> AsyncGenerator[Sequence[Tool]]:
        with boundary(AuthorError, "starting Inspect's sample"):
            job = await author.call(self._begin, world.task.data["sample"])
        name = f"{os.getpid()}-{next(_NUMBERS)}"
        played = _JOBS[name] = PlayedSample(job, world)
        world.state["job"] = name
        try:
            await played.play_roles()
            if job.done and (played.said is not None or played.end is not None):
                said = played.said.message.text[:200] if played.said else played.end
                raise ModelError(f"the user ended the sample before the agent's first turn: {said!r}")
            played.require_as_imported()
            yield [_InspectTool(played, ToolSpec(**tool)) for tool in job.seen["tools"]]
        finally:
            _JOBS.pop(name, None)
            with anyio.CancelScope(shield=True):  # a cancelled rollout leaves no process
                await anyio.to_thread.run_sync(job.close)

    def _begin(self, sample: Any) -> InspectJob:
        server = server_of(self.source, self.arguments)
        if not self.checked:
            listed = server.job({"job": "list"})
            found = (listed.seen["version"], listed.seen["package_version"])
            listed.close()
            if found != self.requires:
                raise ConfigError(
                    f"this environment was imported with inspect-ai and its package at {self.requires}; {found} are installed, "
                    "which may have other tasks and scores; install those versions, or import it again"
                )
            self.checked.append(True)
        return server.job({"job": "play", "sample": sample, "roles": bool(self.roles)})


class PlayedSample:
    """A sample in progress: hands messages to Inspect, and lets the `--user` model play the roles that it asks."""

    def __init__(self, job: InspectJob, world: World) -> None:
        self.job = job
        self.said: Node | None = None
        """The last answer in a role, outside of scoring, since the agent's last message."""
        self.end: End | None = None
        """The limit of the roles, if one is reached."""
        self._world = world

    async def hand_in(self, value: Json) -> Json:
        """Hand a message of the agent to the solver; what it says then: a question to the agent, or the end of the sample."""
        await author.call(self.job.settle)  # an earlier call, whose time was up, may still be under way
        await self.play_roles()
        self.said = None
        if not self.job.done:
            await author.call(self.job.ask, value)
        return await self.play_roles()

    async def play_roles(self) -> Json:
        """Answer for roles until the agent is asked or the sample is over."""
        while "role" in self.job.seen:
            await author.call(self.job.ask, await self._answer(question_of(self.job.seen)))
        if self.job.done and "scores" not in self._world.state:
            _record(self._world, self.job.seen)
        return self.job.seen

    async def _answer(self, question: ModelQuestion) -> Json:
        roles = self._world.roles if isinstance(self._world, RoleWorld) else None
        if roles is None:
            raise AuthorError(f"Inspect's sample asked a model in the role `{question.role}`, and there is none")
        if any(kind != "text" for message in question.messages for kind in message.kinds):
            raise AuthorError(f"the role `{question.role}` was shown more than text, such as images")
        try:
            turn = await roles.answer(question.role, conversation_of(question.messages), question.tools, scoring=question.scoring)
        except ModelError as error:
            if question.scoring:
                raise GradeError(str(error), kind=error.kind) from error
            raise
        if turn.node is not None:
            self.said = self.said if question.scoring else turn.node
            calls = [
                {"id": call.id, "name": call.name, "arguments": call.arguments, "malformed": call.malformed}
                for call in turn.node.message.calls
            ]
            return {"text": turn.node.message.text, "calls": calls, "ended": turn.node.stop}
        if question.scoring:
            raise GradeError(f"the scorer asks a model in the role `{question.role}`, whose limit is reached: {turn.end}")
        self.end = turn.end
        return {"stop": True}

    def require_as_imported(self) -> None:
        """`AuthorError` if the sample begins otherwise than when it was imported. What a role writes differs each time."""
        system, prompt = opening_of(self.job.seen)
        task = self._world.task
        if system != task.data["system"] or (prompt != task.prompt and self.said is None):
            raise AuthorError("the sample begins otherwise than when it was imported; import it again")

    def uttered(self, text: str) -> Node | None:
        """The text as sampled from a role, if it is the role's last answer; its usage is in the event of that answer."""
        if self.said is None or self.said.message.text != text:
            return None
        message = Message(role=Role.USER, parts=(Text(text),), agent=USER)
        return msgspec.structs.replace(self.said, message=message, usage=None)


def conversation_of(messages: Sequence[InspectMessage]) -> list[Message]:
    """A conversation of Inspect as ours; the results of one message's calls are one message."""
    found: list[Message] = []
    for message in messages:
        if message.role is Role.TOOL:
            text = message.error if message.error is not None else message.text
            result = ToolResult(call=message.call or "", text=clean(text), error=message.error is not None)
            earlier = found.pop().parts if found and found[-1].role is Role.TOOL else ()
            found.append(Message(role=Role.TOOL, parts=(*earlier, result), agent="environment"))
            continue
        parts: list[Part] = [Text(clean(message.text))] if message.text or not message.calls else []
        parts += [ToolCall(id=call.id, name=call.name, arguments=call.arguments) for call in message.calls]
        found.append(Message(role=message.role, parts=tuple(parts)))
    return found


def opening_of(seen: Json) -> tuple[str, str]:
    """The system message and the user's first message; `ConfigError` if a conversation begins otherwise."""
    if seen.get("done"):
        raise ConfigError(f"its solver asks no model: {seen.get('error') or 'it is over before the first turn'}")
    messages = seen["messages"]
    if any(kind != "text" for message in messages for kind in message["kinds"]):
        raise ConfigError("its first messages hold more than text, such as images")
    system = "\n\n".join(message["text"] for message in messages if message["role"] == "system")
    others = [message for message in messages if message["role"] != "system"]
    if [message["role"] for message in others] != ["user"]:
        roles = ", ".join(message["role"] for message in others) or "none"
        raise ConfigError(f"it begins with the messages {roles}, and not with one of a user")
    return system, others[0]["text"]


@dataclass(frozen=True, slots=True)
class _InspectTool:
    """One tool of a sample."""

    played: PlayedSample
    spec: ToolSpec
    concurrent: bool = False

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """Hand the call to Inspect's solver; the result is what its tool answered."""
        try:
            arguments = checked_arguments(call)
        except ToolError as error:
            return ToolResult(call=call.id, text=str(error), error=True)
        if self.played.job.done:
            return ToolResult(call=call.id, text=_OVER, error=True)
        number = world.state["calls"] = world.state.get("calls", 0) + 1
        name = f"call{number}"
        asked = {"text": "", "calls": [{"id": name, "name": self.spec.name, "arguments": arguments}]}
        with boundary(AuthorError, f"tool `{self.spec.name}`"):
            seen = await self.played.hand_in(asked)
        if self.played.job.done:
            return ToolResult(call=call.id, text=_OVER)
        answered = [message for message in seen["messages"] if message["call"] == name]
        said = _said_after(seen["messages"], name)
        if not answered:
            raise AuthorError(f"Inspect's solver did not answer the call of `{self.spec.name}`")
        error = answered[-1]["error"]
        text = "\n\n".join([error or answered[-1]["text"], *said])
        return ToolResult(call=call.id, text=clean(text), error=error is not None)


def _said_after(messages: list[Json], call: str) -> list[str]:
    """What a solver adds after a tool's result, such as "please continue"."""
    places = [number for number, message in enumerate(messages) if message["call"] == call]
    rest = messages[places[-1] + 1 :] if places else []
    return [message["text"] for message in rest if message["role"] == "user"]


@dataclass(frozen=True, slots=True)
class InspectUser:
    """What the solver and the roles say to the agent (`ports.User`; `USER` in `user.py`)."""

    world: World
    task: Task

    async def open(self) -> UserTurn:
        """The first message: the sample's, or what a role wrote."""
        played = _JOBS[self.world.state["job"]]
        _, prompt = opening_of(played.job.seen)
        return UserTurn(text=prompt, node=played.uttered(prompt))

    async def reply(self, text: str) -> UserTurn:
        """What the solver says to a message without calls; the end if the sample is over, with a role's last words."""
        played = _JOBS[self.world.state["job"]]
        if played.job.done:
            return UserTurn(end=played.end or End.DONE)
        heard, events = _cut(text)
        seen = await played.hand_in({"text": heard, "calls": []})
        if played.job.done:
            last = played.said.message.text if played.said else ""
            return UserTurn(text=last, end=played.end or End.DONE, node=played.uttered(last) if last else None, events=events)
        messages: list[Json] = seen["messages"]
        before = max((number for number, each in enumerate(messages) if each["role"] == "assistant"), default=-1)
        said = "\n\n".join(message["text"] for message in messages[before + 1 :] if message["role"] == "user")
        return UserTurn(text=said or "Please continue.", node=played.uttered(said) if said else None, events=events)


def _cut(text: str) -> tuple[str, tuple[Event, ...]]:
    """A message of the agent, cut to what Inspect gets; a cut is an event."""
    if len(text) <= _MAX_SAID_CHARS:
        return text, ()
    detail = {"chars": len(text), "shown": _MAX_SAID_CHARS}
    half = _MAX_SAID_CHARS // 2
    shown = f"{text[:half]}\n[... {len(text) - 2 * half} of {len(text)} characters cut here ...]\n{text[-half:]}"
    return shown, (Event(kind="user_heard_cut", turn=0, detail=detail),)


async def end_sample(world: World) -> None:
    """Score a sample that a limit ended. Inspect sees it as a limit of its own."""
    played = _JOBS.get(world.state.pop("job", ""))
    if played is not None and not played.job.done:
        await played.hand_in({"stop": True})


def _record(world: World, seen: Json) -> None:
    if "" in seen["roles"]:  # a scorer may turn the refusal into a score
        raise GradeError("Inspect's scorer asks a model that has no role, and there is none to judge with")
    played = isinstance(world, RoleWorld) and world.roles is not None
    if seen["roles"] and not played:  # a scorer may turn the refusal into a score, a solver into anything
        role = seen["roles"][0]
        raise AuthorError(
            f"Inspect's sample asked a model in the role `{role}`, which it did not when it was imported; import it with "
            f"`?roles={role}`, and name the model with `--user`"
        )
    if seen["error"] and not seen["scoring"]:
        raise AuthorError(f"Inspect's sample failed: {seen['error']}")
    world.state["scores"] = seen["scores"]
    world.state["failed"] = seen["error"]


def share_of_scores(evidence: Evidence, scale: str = "") -> tuple[float, str]:
    """The mean of Inspect's scores, 0 to 1. A scorer that raised, or gave no number, raises here too."""
    if evidence.state.get("failed"):
        raise ValueError(f"Inspect's scorer failed: {evidence.state['failed']}")
    scores = msgspec.convert(evidence.state["scores"], dict[str, LogScore])
    found = rubric_score(scores, read_score_range(scale))
    return found.value, "; ".join(f"{check.id} {check.value:g}" for check in found.checks)
