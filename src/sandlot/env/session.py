"""A session: one task's world, opened, with the loop turned inside out.

Everything that bounds an agent is kept here, so it holds whoever has the loop: harness, adapter, MCP client or a person.
The way of a tool call is `_answer`: constraint, deadline, tool, cut. Every cut, breach and limit leaves an event; nothing
is shortened or refused in silence.
"""

import math
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import anyio
import msgspec

from sandlot.core.concurrency import author
from sandlot.core.concurrency.clock import SYSTEM_CLOCK, deadline, pause_limits, time_limit
from sandlot.core.errors import AuthorError, ConfigError, HarnessError, SandboxError, SandboxOutOfMemory, boundary
from sandlot.core.limits import Constraint, OnBreach
from sandlot.core.ports.sandbox import Backend, Files, Sandbox, Snapshot
from sandlot.core.ports.session import Step, UserTurn
from sandlot.core.ports.store import Blobs
from sandlot.core.ports.world import Tool, ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Event, EvidenceRecord, FileRecord, Message, Node, ToolCall, ToolResult, text_message
from sandlot.core.types import End, Role, derive_seed
from sandlot.env.declaration import Declaration
from sandlot.env.image import image_of
from sandlot.env.initial import record_initial_files
from sandlot.env.keeper import Keeper
from sandlot.env.user import LimitedUser, OpenUser, open_user, require_user
from sandlot.env.world import LiveWorld, sandbox_of
from sandlot.grade.gather import gather
from sandlot.sandbox.memory import MemoryFiles
from sandlot.store.blobs import MemoryBlobs

_STRICTNESS = (OnBreach.PENALTY, OnBreach.REFUSE, OnBreach.END)
"""Of several rules that one call breaks, the last of these decides."""

MAX_CALLS = 64
"""Tool calls answered in one turn; more are refused by name, so that one message cannot ask for a million."""


def world_seed(env: Declaration, task: Task) -> int:
    """The same for every rollout of a task: all members of a group start from identical bytes."""
    return derive_seed("world", env.seed, env.name, task.id)


@asynccontextmanager
async def open_session(
    env: Declaration,
    task: Task,
    *,
    backend: Backend | None = None,
    blobs: Blobs | None = None,
    user: OpenUser | None = None,
    keep_time: bool = True,
) -> AsyncGenerator["WorldSession"]:
    """Provision, set up, hand over, tear down; each under its own deadline and blamed on its own side.

    `user` opens who plays the persona; None for the author's own replies.
    `keep_time`: the session ends by itself at `time_s` of wall time. A rollout keeps agent time instead, which is fairer.
    """
    require_user(env, named=user is not None)
    limits = env.limits.but(task.limits)
    if env.image is not None and backend is None:
        raise ConfigError(
            f"environment `{env.name}` asks for image `{env.image}`, and no sandbox backend is open; see `sandlot doctor`"
        )
    async with Keeper(limits.teardown_s) as keeper:
        files: Files = MemoryFiles()
        if env.image is not None and backend is not None:
            machine = backend.open(image_of(env), env.network, limits)
            files = await keeper.enter(machine, limits.provision_s, SandboxError, "opening the sandbox")
        with boundary(AuthorError, f"making the state of task `{task.id}`"):
            world = env.new_world(task, files, world_seed(env, task))
        if env.marked.setup is not None:
            with deadline(limits.setup_s, AuthorError, f"setup of task `{task.id}`"):
                world.checks = True
                await author.call(env.marked.setup, world, world.task)
                world.checks = False
        tools = list(env.tools)
        for source in env.marked.sources:  # after setup: a server inside the sandbox finds what it made
            tools += await keeper.enter(source.open(world), limits.provision_s, AuthorError, f"starting {source!r}")
        with deadline(limits.setup_s, SandboxError, f"looking at what setup of task `{task.id}` left"):
            untouched = env.image is not None and env.marked.setup is None and not env.marked.sources
            initial: Snapshot | Mapping[str, FileRecord] = {} if untouched else await _initial(world, limits.evidence_bytes)
        listener = await open_user(env, task, world, user, keeper)
        yield WorldSession(env, task, world, _by_name(tools), listener, blobs or MemoryBlobs(), initial, keep_time=keep_time)


async def _initial(world: LiveWorld, cap_bytes: int) -> Snapshot | Mapping[str, FileRecord]:
    """The files as the agent will find them."""
    written = world.take_written()
    sandbox = sandbox_of(world.files)
    return await world.files.freeze() if sandbox is None else await record_initial_files(sandbox, written, cap_bytes)


class WorldSession:
    """The `Session` every rollout has."""

    def __init__(
        self,
        env: Declaration,
        task: Task,
        world: LiveWorld,
        tools: Mapping[str, Tool],
        user: LimitedUser | None,
        blobs: Blobs,
        initial: Snapshot | Mapping[str, FileRecord],
        *,
        keep_time: bool,
    ) -> None:
        self.task = task
        self.world = world
        self.limits = limits = env.limits.but(task.limits)
        self._env = env
        self._tools = tools
        self._blobs = blobs
        self._initial = initial
        self._user = user
        self._constraints = env.constraints
        self._num_calls: Counter[str] = Counter()
        self._penalties: dict[str, float] = {}
        self._num_turns = 0
        self._num_tokens = 0
        self._output_left = limits.rollout_output_bytes
        self._messages: list[Message] = []
        self._end: End | None = None
        self._turn_taking = anyio.Lock()
        self._ends_s = SYSTEM_CLOCK.monotonic() + limits.time_s if keep_time else math.inf
        self.on_call: Callable[[int, str, float, bool], None] | None = None
        """Called with each answered tool call: its turn, the tool's name, seconds, and whether the answer is an error."""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """What the agent may call."""
        return [tool.spec for tool in self._tools.values()]

    async def reset(self) -> Step:
        """The opening messages. A session is opened for one rollout, so it resets once."""
        if self._messages:
            raise HarnessError("`reset` was called twice; open a new session for a new rollout")
        with pause_limits(), deadline(self.limits.setup_s, AuthorError, f"the opening words of task `{self.task.id}`"):
            first = await self._user.user.open() if self._user else UserTurn(text=self.task.prompt)
        opening = [text_message(Role.SYSTEM, self._env.system)] if self._env.system else []
        self._messages = [*opening, text_message(Role.USER, first.text)]
        return Step(messages=tuple(self._messages), events=first.events)

    async def step(self, action: Message, *, num_tokens: int = 0) -> Step:
        """Take one assistant message: run its tool calls, or hear the environment's reply."""
        _require_action(action)
        if self._end is not None or not self._messages:
            raise HarnessError("`step` was called " + ("after the end" if self._end else "before `reset`"))
        self._num_turns += 1
        self._num_tokens += num_tokens
        self._messages.append(action)
        events: list[Event] = []
        uttered: Node | None = None
        if action.calls:
            message, end = await self._run_calls(action.calls, events)
        else:
            turn = await self._hear(action.text, events)
            end, uttered = turn.end, turn.node
            message = uttered.message if uttered else text_message(Role.USER, turn.text) if turn.text or end is None else None
            events += (msgspec.structs.replace(event, turn=self._num_turns) for event in turn.events)
        self._end = end or self._limit_reached()
        if message is not None:
            self._messages.append(message)
        if end is None and (self._end is End.TURN_LIMIT or self._end is End.TOKEN_LIMIT):
            events.append(self._event("limit", limit=self._end.value, turns=self._num_turns, tokens=self._num_tokens))
        return Step(messages=(message,) if message else (), end=self._end, events=tuple(events), user=uttered)

    def machine(self) -> Sandbox:
        """The sandbox, for an agent that brings its own loop and tools."""
        sandbox = sandbox_of(self.world.files)
        if sandbox is None:
            raise ConfigError(
                f"environment `{self._env.name}` has no sandbox to put an agent into; run it in one with `--image host`"
            )
        return sandbox

    def count_turn(self, num_tokens: int) -> End | None:
        """Count a turn that was taken beside `step`; the limit that is reached with it, if one is."""
        self._num_turns += 1
        self._num_tokens += num_tokens
        return self._limit_reached()

    async def render(self) -> str:
        """The conversation so far, and what may be called, for a person."""
        from sandlot.env.transcript import transcript_text  # noqa: PLC0415 - only people need it

        return transcript_text(self._messages, self.tools, self._num_turns, self.limits, self._end)

    async def gather(self, answer: str) -> EvidenceRecord:
        """What checks will see, stored before any of them runs. Without files if the agent's sandbox is beyond reading."""
        with deadline(self.limits.teardown_s, SandboxError, "gathering evidence"):
            try:
                return await self._gathered(await self.world.files.freeze(), answer)
            except SandboxOutOfMemory as error:
                return await self._gathered(None, answer, lost=str(error))

    async def _gathered(self, final: Snapshot | None, answer: str, lost: str = "") -> EvidenceRecord:
        return await gather(
            final,
            self._blobs,
            self.limits,
            initial=self._initial,
            state=self.world.state,
            answer=answer,
            penalties=self._penalties,
            lost=lost,
        )

    # -- one step ----------------------------------------------------------------------------------------------------

    async def _hear(self, text: str, events: list[Event]) -> UserTurn:
        """A plain message: the user replies, or there is none and the agent is done. Waiting for it is not the agent's time."""
        if self._user is None:
            return UserTurn(end=End.DONE)
        try:
            with pause_limits():
                return await self._user.reply(text)
        except SandboxOutOfMemory:
            return UserTurn(end=self._out_of_memory(events))

    async def _run_calls(self, calls: Sequence[ToolCall], events: list[Event]) -> tuple[Message, End | None]:
        """Run them beside each other; results come back in the order they were asked for."""
        breaches = [self._breach(call, events) for call in calls[:MAX_CALLS]]
        results: list[ToolResult] = [
            ToolResult(call=call.id, text=f"Not run: a turn may make at most {MAX_CALLS} calls.", error=True) for call in calls
        ]

        ends: list[End] = []

        async def run(place: int, call: ToolCall, breach: Constraint | None) -> None:
            started_s = SYSTEM_CLOCK.monotonic()
            try:
                results[place] = await self._answer(call, breach, events)
            except SandboxOutOfMemory as error:
                results[place] = ToolResult(call=call.id, text=f"The sandbox has ended: {error}.", error=True)
                ends.append(self._out_of_memory(events))
            if self.on_call is not None:
                self.on_call(self._num_turns, call.name, SYSTEM_CLOCK.monotonic() - started_s, results[place].error)

        if len(breaches) == 1:
            await run(0, calls[0], breaches[0])
        else:
            async with anyio.create_task_group() as group:
                for place, breach in enumerate(breaches):
                    group.start_soon(run, place, calls[place], breach)
        if any(breach is not None and breach.on_breach is OnBreach.END for breach in breaches):
            ends = [End.BREACH]
        return Message(role=Role.TOOL, parts=tuple(results), agent="environment"), next(iter(ends), None)

    def _out_of_memory(self, events: list[Event]) -> End:
        """The end of an agent that filled its sandbox's memory, as an event once."""
        limit = self._event("limit", limit=End.MEMORY_LIMIT.value)
        if limit not in events:
            events.append(limit)
        return End.MEMORY_LIMIT

    async def _answer(self, call: ToolCall, breach: Constraint | None, events: list[Event]) -> ToolResult:
        """One call's way: constraint, deadline, tool, cut."""
        if breach is not None and breach.on_breach is not OnBreach.PENALTY:
            return ToolResult(call=call.id, text=f"Not allowed: {breach.describe()}.", error=True)
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(f"`{name}`" for name in self._tools) or "none"
            return ToolResult(call=call.id, text=f"There is no tool `{call.name[:200]}`. Tools: {known}.", error=True)
        # What shares the world's state or files takes turns, in the order asked, and waits for it on nobody's time.
        async with nullcontext() if tool.concurrent and self._env.concurrent else self._turn_taking:
            with time_limit(self.limits.tool_s):
                return await self._cut(await tool.call(self.world, call), events)
        events.append(self._event("tool_timeout", tool=call.name, seconds=self.limits.tool_s))
        return ToolResult(
            call=call.id, text=f"`{call.name}` timed out: it did not finish within {self.limits.tool_s:g} s.", error=True
        )

    async def _cut(self, result: ToolResult, events: list[Event]) -> ToolResult:
        """Oversized output loses its middle, with a marker; the whole is kept as an artifact while the rollout's budget lasts."""
        text, most = result.text, self.limits.tool_output_chars
        data = text.encode(errors="replace")
        if len(data) > self._output_left:
            return self._cut_to_budget(result, data, events)
        self._output_left -= len(data)
        if len(text) <= most:
            return result
        whole = await self._blobs.put(data)
        head, tail = text[: most - most // 3], text[len(text) - most // 3 :]
        shown = f"{head}\n[... {len(text) - most} of {len(text)} characters cut here ...]\n{tail}"
        events.append(self._event("tool_output_cut", call=result.call, chars=len(text), shown=most, whole=whole))
        return ToolResult(call=result.call, text=shown, error=result.error, whole=whole, images=result.images)

    def _cut_to_budget(self, result: ToolResult, data: bytes, events: list[Event]) -> ToolResult:
        """The first result that does not fit takes what is left of the budget; the next ones are only a notice."""
        kept = data[: min(self._output_left, self.limits.tool_output_chars)].decode(errors="ignore")
        self._output_left = 0
        events.append(self._event("tool_output_budget", call=result.call, bytes=len(data), shown=len(kept)))
        most = self.limits.rollout_output_bytes
        notice = f"[{len(data) - len(kept.encode())} bytes cut: this rollout's {most} bytes of tool results are used up]"
        return ToolResult(call=result.call, text=f"{kept}\n{notice}" if kept else notice, error=result.error)

    def _breach(self, call: ToolCall, events: list[Event]) -> Constraint | None:
        """Count the call against every rule it falls under; of those it breaks, the strictest decides, and penalties add up."""
        broken: list[Constraint] = []
        for constraint in self._constraints:
            if _applies(constraint, call):
                self._num_calls[constraint.id] += 1
                if self._num_calls[constraint.id] > constraint.at_most:
                    broken.append(constraint)
        for constraint in broken:
            if constraint.on_breach is OnBreach.PENALTY:
                self._penalties[constraint.id] = self._penalties.get(constraint.id, 0.0) + constraint.points
            events.append(self._event("breach", constraint=constraint.id, call=call.id, consequence=constraint.on_breach.value))
        return max(broken, key=lambda constraint: _STRICTNESS.index(constraint.on_breach), default=None)

    def _limit_reached(self) -> End | None:
        if self.limits.tokens is not None and self._num_tokens >= self.limits.tokens:
            return End.TOKEN_LIMIT
        if self._num_turns >= self.limits.turns:
            return End.TURN_LIMIT
        return End.TIME_LIMIT if SYSTEM_CLOCK.monotonic() >= self._ends_s else None

    def _event(self, kind: str, **detail: Any) -> Event:
        return Event(kind=kind, turn=self._num_turns, detail=detail)


def _require_action(action: Any) -> None:
    if isinstance(action, Message) and action.role is Role.ASSISTANT:
        return
    given = f"a message from `{action.role}`" if isinstance(action, Message) else f"{type(action).__name__} {action!r:.80}"
    raise HarnessError(
        f"`step` was given {given}; an action is a message from the assistant: `Message(role=Role.ASSISTANT, parts=(...,))` with"
        " `Text(text)` to speak and `ToolCall(id, name, arguments)` to call a tool, from `sandlot.core.trace` and"
        " `sandlot.core.types`",
    )


def _applies(constraint: Constraint, call: ToolCall) -> bool:
    if constraint.tool not in {"*", call.name}:
        return False
    return all(re.search(pattern, str(call.arguments.get(name, ""))) for name, pattern in constraint.where.items())


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    named: dict[str, Tool] = {}
    for tool in tools:
        if tool.spec.name in named:
            raise ConfigError(f"two tools are called `{tool.spec.name}`; rename one, or give its MCP server another name")
        named[tool.spec.name] = tool
    return named
