"""A session: the open world of one task, stepped from outside.

All limits on an agent are enforced here, so they hold for every caller: harness, adapter, MCP client or person. `_run_call` is
the path of a tool call: constraint, deadline, tool, output limit. Every breach, limit and shortened output leaves an event.
"""

import functools
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
from sandlot.core.errors import (
    AuthorError,
    ConfigError,
    HarnessError,
    InsideError,
    SandboxError,
    SandboxOutOfMemory,
    ToolError,
    boundary,
)
from sandlot.core.images import store_image
from sandlot.core.limits import Constraint, OnBreach
from sandlot.core.ports.sandbox import Backend, Files, Sandbox, Snapshot
from sandlot.core.ports.session import Step, UserTurn
from sandlot.core.ports.store import Blobs
from sandlot.core.ports.world import Tool, ToolSpec
from sandlot.core.seats import Seat
from sandlot.core.task import Task
from sandlot.core.trace import (
    OUTPUT_CUT,
    RECORDING,
    Event,
    EvidenceRecord,
    FileRecord,
    Message,
    Node,
    ToolCall,
    ToolResult,
    text_message,
)
from sandlot.core.types import End, Role, derive_seed
from sandlot.env.apps import open_apps, store_apps
from sandlot.env.colleagues import People, open_people
from sandlot.env.crashes import CRASHED, Crashes
from sandlot.env.declaration import Declaration
from sandlot.env.image import image_of
from sandlot.env.initial import record_initial_files
from sandlot.env.keeper import Keeper
from sandlot.env.roles import open_roles
from sandlot.env.seat_users import give_homes, open_users
from sandlot.env.user import OpenUser, require_user
from sandlot.env.world import LiveWorld, answering, sandbox_of
from sandlot.grade.gather import freeze_final, gather, keep_found
from sandlot.grade.state import note_plain, storable_part
from sandlot.sandbox.memory import MemoryFiles
from sandlot.store.blobs import MemoryBlobs
from sandlot.tools.arguments import clean
from sandlot.tools.bash import BASH
from sandlot.tools.function import DECLARE_IMAGES
from sandlot.tools.terminal import NEEDS_SANDBOX, TERMINAL, open_terminals

_STRICTNESS = (OnBreach.PENALTY, OnBreach.REFUSE, OnBreach.END)
"""If one call breaks several rules, the strictest consequence applies; the last one is the strictest."""

MAX_CALLS = 64
"""Tool calls run in one turn. The others get an error, so that one message cannot start a million calls."""
_TOO_MANY_CALLS = f"Not run: a turn may make at most {MAX_CALLS} calls."


def world_seed(env: Declaration, task: Task) -> int:
    """The seed of a task's world: the same for all its rollouts, so that a group starts from identical bytes."""
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
    for_seats: bool = False,
) -> AsyncGenerator["WorldSession"]:
    """Open a world, set it up, yield the session, close it. Each phase has its own deadline and side to blame.

    `user` opens the user that a model plays; None for the scripted one.
    `keep_time`: the session ends after `time_s` of wall time. A rollout counts agent time instead, without waiting.
    `for_seats`: the caller opens the seats of an environment that has them (`seats.py`); others are refused.
    """
    if env.seats and not for_seats:
        raise ConfigError(f"environment `{env.name}` has seats for several agents; only rollouts play it: `sandlot run`")
    require_user(env, named=user is not None)
    limits = env.limits.but(task.limits)
    _require_backend(env, backend)
    async with Keeper(limits.teardown_s) as keeper:
        files: Files = MemoryFiles()
        if env.image is not None and backend is not None:
            image = image_of(env, task)
            with boundary(SandboxError, f"preparing image `{image}`"):
                await backend.prepare(image)  # before the deadline: an image is built once, which may take minutes
            apart = {"seats": len(env.seats)} if env.seats else {}  # a backend of a plug-in need not know it
            machine = backend.open(image, env.network, limits, **apart)
            files = await keeper.enter(machine, limits.provision_s, SandboxError, "opening the sandbox")
        with boundary(AuthorError, f"making the state of task `{task.id}`"):
            blobs = blobs or MemoryBlobs()
            world = env.new_world(task, files, world_seed(env, task), blobs)
        users = await open_users(env, world, limits.provision_s)
        if env.apps:
            await keeper.enter(open_apps(env, world), limits.setup_s, AuthorError, "opening the apps")
        if env.marked.setup is not None:
            with deadline(limits.setup_s, AuthorError, f"setup of task `{task.id}`"):
                world.checks = True
                with world.apps.acting("setup") if env.apps else nullcontext():
                    await author.call(env.marked.setup, world, world.task)
                world.checks = False
        await give_homes(world, users, limits.setup_s)
        if env.apps:
            world.apps.begin()
        tools = list(env.tools)
        if env.terminal and env.image is not None:
            world.terminals = await keeper.enter(open_terminals(world), limits.provision_s, SandboxError, "opening terminals")
        world.roles = roles = await open_roles(env, task, user, keeper)
        for source in env.marked.sources:  # after setup: a server inside the sandbox may need what setup wrote
            tools += await keeper.enter(source.open(world), limits.provision_s, AuthorError, f"starting {source!r}")
        with deadline(limits.setup_s, SandboxError, f"listing the files that setup of task `{task.id}` left"):
            untouched = env.image is not None and env.marked.setup is None and not env.marked.sources and not users
            initial: Snapshot | Mapping[str, FileRecord] = {} if untouched else await _initial(world, limits.evidence_bytes)
        people = await open_people(env, task, world, user, roles, keeper)
        try:
            yield WorldSession(env, task, world, _by_name(tools), people, blobs, initial, keep_time=keep_time)
        finally:
            world.terminals = None  # they hold the world as well, and Python frees such a cycle much later


def _require_backend(env: Declaration, backend: Backend | None) -> None:
    if env.terminal and env.image is None:
        raise ConfigError(NEEDS_SANDBOX)
    if env.image is not None and backend is None:
        raise ConfigError(
            f"environment `{env.name}` needs a sandbox for image `{env.image}`, and no backend is open; see `sandlot doctor`"
        )


async def _initial(world: LiveWorld, cap_bytes: int) -> Snapshot | Mapping[str, FileRecord]:
    """The files before the agent acts."""
    written, world.written = world.written, None
    sandbox = sandbox_of(world.files)
    return await world.files.freeze() if sandbox is None else await record_initial_files(sandbox, written, cap_bytes, world.small)


class WorldSession:
    """The `Session` of a rollout."""

    def __init__(  # noqa: PLR0913 - what a world is opened with
        self,
        env: Declaration,
        task: Task,
        world: LiveWorld,
        tools: Mapping[str, Tool],
        people: People,
        blobs: Blobs,
        initial: Snapshot | Mapping[str, FileRecord],
        *,
        keep_time: bool,
        seat: Seat | None = None,
    ) -> None:
        self.task = task
        self.world = world
        self.limits = limits = env.limits.but(task.limits)
        self._env = env
        self._seat = seat
        self._tools = tools if seat is None or seat.tools is None else {name: tools[name] for name in tools if name in seat.tools}
        self._blobs = blobs
        self._initial = initial
        self._people = people
        self._user, self._colleagues, self._roles = people.user, people.colleagues, people.roles
        self._crashes = Crashes(env.on_crash, sandboxed=env.image is not None)
        self._began_plain = note_plain(world.state) if seat is None else lambda: True
        self._constraints = env.constraints
        self._num_calls: Counter[str] = Counter()
        self._penalties: dict[str, float] = {}
        self._num_turns = 0
        self._num_calls_in_turn = 0
        self._num_tokens = 0
        self._output_left = limits.rollout_output_bytes
        self._messages: list[Message] = []
        self._end: End | None = None
        self._turn_taking = anyio.Lock()
        self._ends_s = SYSTEM_CLOCK.monotonic() + limits.time_s if keep_time else math.inf
        self.on_call: Callable[[int, str, float, bool], None] | None = None
        """Called with each answered tool call: its turn, the tool's name, seconds, and whether the answer is an error."""

    def for_seat(self, seat: Seat) -> "WorldSession":
        """The same world for one of several agents, with tools, limits and counts of its own."""
        own = WorldSession(
            self._env, self.task, self.world, self._tools, self._people, self._blobs, self._initial, keep_time=False, seat=seat
        )
        own._penalties, own.on_call, own._crashes = self._penalties, self.on_call, self._crashes
        return own

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools the agent may call."""
        return [tool.spec for tool in self._tools.values()]

    @property
    def outside_tools(self) -> Sequence[ToolSpec]:
        """The tools that an agent with a shell in the sandbox does not have anyway: all but `bash` and `terminal`."""
        return [tool.spec for tool in self._tools.values() if tool is not BASH and tool is not TERMINAL]

    async def reset(self) -> Step:
        """Return the opening messages. A session is for one rollout, so it can be reset only once."""
        if self._messages:
            raise HarnessError("`reset` was called twice; open a new session for a new rollout")
        with pause_limits(), deadline(self.limits.setup_s, AuthorError, f"the opening message of task `{self.task.id}`"):
            first = await self._user.user.open() if self._user else UserTurn(text=self.task.prompt)
        system = (self._seat and self._seat.system) or self._env.system
        opening = [text_message(Role.SYSTEM, system)] if system else []
        events = list(first.events)
        self._note_roles(events)
        if first.node is not None:
            self._messages = [*opening, first.node.message]
            return Step(messages=tuple(self._messages), events=tuple(events), user=first.node)
        prompt = text_message(Role.USER, await self._with_news(first.text, events))
        self._messages = [*opening, await self._with_images(prompt)]
        return Step(messages=tuple(self._messages), events=tuple(events))

    def _note_roles(self, events: list[Event]) -> End | None:
        """Add what was asked of the roles of a foreign program; the end if their limits are reached."""
        if self._roles is None:
            return None
        told, end = self._roles.take(self._num_turns)
        events += told
        return end

    async def _with_news(self, text: str, events: list[Event]) -> str:
        """A text, and what the seat was told since its last turn: all of it is cut as one tool result."""
        told = self.world.seats[self._seat.name] if self._seat else []
        news = "\n".join(filter(None, told))
        told.clear()
        if news:
            news = (await self._limit_output(ToolResult(call="", text=news), events)).text
        return "\n".join(filter(None, (text, news)))

    async def hear(self, step: Step, end: End | None) -> Step:
        """The answer to a seat's action when it is to act again: with what it was told meanwhile, or with the end of all."""
        *results, last = step.messages or (text_message(Role.USER, ""),)
        if last.role is not Role.USER:
            results, last = [*results, last], text_message(Role.USER, "")
        events = list(step.events)
        news = await self._with_news(last.text, events)
        goes_on = end is None and not results
        messages = (*results, text_message(Role.USER, news)) if news or goes_on else tuple(results)
        self._messages[len(self._messages) - len(step.messages) :] = messages
        return msgspec.structs.replace(step, messages=messages, end=step.end or end, events=tuple(events))

    async def _with_images(self, prompt: Message) -> Message:
        """The first message with the task's images."""
        if not self.task.images:
            return prompt
        if self._env.images is None:
            raise AuthorError(f"task `{self.task.id}` has images; {DECLARE_IMAGES}")
        images = [await store_image(image, self._blobs) for image in self.task.images]
        return msgspec.structs.replace(prompt, parts=(*prompt.parts, *images))

    async def step(self, action: Message, *, num_tokens: int = 0) -> Step:
        """Process one assistant message: run its tool calls, or ask the user for a reply."""
        _require_action(action)
        if self._end is not None or not self._messages:
            raise HarnessError("`step` was called " + ("after the end" if self._end else "before `reset`"))
        self._num_turns += 1
        self._num_tokens += num_tokens
        self._messages.append(action)
        self.world.turns.append(action)
        events: list[Event] = []
        uttered: Node | None = None
        if action.calls:
            message, end = await self._run_calls(action.calls, events)
        else:
            turn = await self._ask_user(action.text, events)
            end, uttered = turn.end, turn.node
            message = uttered.message if uttered else text_message(Role.USER, turn.text) if turn.text or end is None else None
            events += (msgspec.structs.replace(event, turn=self._num_turns) for event in turn.events)
        end = self._note_roles(events) or end
        self._end = end or self._limit_reached()
        if message is not None:
            self._messages.append(message)
        if end is None and (self._end is End.TURN_LIMIT or self._end is End.TOKEN_LIMIT):
            events.append(self._event("limit", limit=self._end.value, turns=self._num_turns, tokens=self._num_tokens))
        return Step(messages=(message,) if message else (), end=self._end, events=tuple(events), user=uttered)

    def machine(self) -> Sandbox:
        """The sandbox, for an agent that has its own loop and tools."""
        sandbox = sandbox_of(self.world.files)
        if sandbox is None:
            raise ConfigError(
                f"environment `{self._env.name}` has no sandbox for an agent to run in; give it one with `--image host`"
            )
        return sandbox

    def count_turn(self, num_tokens: int) -> End | None:
        """Count a turn taken without `step`; return the limit it reaches, if any."""
        self._num_turns += 1
        self._num_tokens += num_tokens
        self._num_calls_in_turn = 0
        return self._limit_reached()

    async def call(self, call: ToolCall) -> Step:
        """Run a tool call made without `step`, as one of the current turn; `ToolError` if the turn has made too many."""
        if self._end is not None:
            raise HarnessError("`call` was called after the end")
        self._num_calls_in_turn += 1
        if self._num_calls_in_turn > MAX_CALLS:
            raise ToolError(_TOO_MANY_CALLS)
        self.world.turns.append(Message(role=Role.ASSISTANT, parts=(call,)))
        events: list[Event] = []
        message, self._end = await self._run_calls([call], events)
        return Step(messages=(message,), end=self._end, events=tuple(events))

    async def render(self) -> str:
        """The conversation so far and the tools, as text for a person."""
        from sandlot.env.transcript import transcript_text  # noqa: PLC0415 - rarely used

        return transcript_text(self._messages, self.tools, self._num_turns, self.limits, self._end)

    async def gather(self, answer: str) -> EvidenceRecord:
        """Store the evidence for grading: without files if what the agent did makes it impossible to read them.

        The time for it starts when every process that the agent left has ended.
        """
        await self._finish()
        final = await freeze_final(self.world.files)
        with deadline(self.limits.teardown_s, SandboxError, "gathering evidence"):
            try:
                return await self._gather(final.snapshot, answer, final.lost)
            except SandboxOutOfMemory as error:
                return await self._gather(None, answer, lost=str(error))

    async def _finish(self) -> None:
        """Let the author look at the world before its programs are ended. They may prevent it: the rollout is graded anyway."""
        if self._env.marked.finish is None or self._crashes.lost:
            return
        try:
            with deadline(self.limits.setup_s, AuthorError, f"finish of task `{self.task.id}`"):
                await author.call(self._env.marked.finish, self.world, self.world.task)
        except SandboxOutOfMemory:
            return
        except SandboxError as error:
            if self._env.image is None:
                raise  # a foreign program is gone
            self.note_crash("@env.finish", InsideError(str(error), kind=error.kind))
        except (AuthorError, ConfigError) as error:
            self.note_crash("@env.finish", error)

    def note_crash(self, what: str, error: AuthorError | ConfigError) -> None:
        """Note a crash of the author's code between steps; it is raised where a crash fails the rollout."""
        self._crashes.note_late(what, error, self._num_turns)
        self.world.ended = self.world.ended or bool(self._crashes.lost)

    def late_events(self) -> list[Event]:
        """What was asked of roles since the last step, also in one that failed, and what crashed between steps."""
        events: list[Event] = []
        self._note_roles(events)
        return events + self._crashes.take_late()

    async def store_recordings(self) -> list[Event]:
        """Store what was shown in terminals; one event for each session names its recording."""
        found = list(self.world.terminals.recordings()) if self.world.terminals else []
        return [
            self._event(RECORDING, session=name, artifact=await self._blobs.put(cast), bytes=len(cast)) for name, cast in found
        ]

    async def _gather(self, final: Snapshot | None, answer: str, lost: str = "") -> EvidenceRecord:
        gather_with = functools.partial(
            gather, final, self._blobs, self.limits, initial=self._initial, answer=answer, penalties=self._penalties, lost=lost
        )
        try:
            record = await gather_with(state=self.world.state)
        except AuthorError as error:
            record = await gather_with(state=self._storable_state(error))
        if self._crashes.lost:
            record = msgspec.structs.replace(record, crashed=dict(self._crashes.lost))
        if self._env.apps:
            record = msgspec.structs.replace(record, apps=await store_apps(self._env, self.world.apps, self._blobs))
        await keep_found(self.world.small, record, self._blobs)
        return record

    def _storable_state(self, error: AuthorError) -> Any:
        """The state without what tools put into it that cannot be stored, such as a number of the agent's."""
        if not self._began_plain():
            raise error
        self.note_crash("world.state", error)
        return storable_part(self.world.state)

    # -- one step ----------------------------------------------------------------------------------------------------

    async def _ask_user(self, text: str, events: list[Event]) -> UserTurn:
        """The user's reply to a message without tool calls; the end if there is no user. The time is not the agent's."""
        if self._user is None:
            return UserTurn(end=End.DONE)
        try:
            with pause_limits(), answering(self._seat.name if self._seat else ""):
                return await self._user.reply(text)
        except SandboxOutOfMemory:
            return UserTurn(end=self._out_of_memory(events))
        except (AuthorError, ConfigError) as error:
            events.append(self._crashes.note("@env.user", error, self._num_turns))
            return UserTurn(end=End.DONE)

    async def _run_calls(self, calls: Sequence[ToolCall], events: list[Event]) -> tuple[Message, End | None]:
        """Run the calls concurrently; results are in the order of the calls."""
        breaches = [self._breach(call, events) for call in calls[:MAX_CALLS]]
        results: list[ToolResult] = [ToolResult(call=call.id, text=_TOO_MANY_CALLS, error=True) for call in calls]

        ends: list[End] = []

        async def run(place: int, call: ToolCall, breach: Constraint | None) -> None:
            started_s = SYSTEM_CLOCK.monotonic()
            try:
                results[place] = await self._run_call(call, breach, events, ends)
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
        """The end for a sandbox out of memory; adds its event once."""
        limit = self._event("limit", limit=End.MEMORY_LIMIT.value)
        if limit not in events:
            events.append(limit)
        return End.MEMORY_LIMIT

    async def _run_call(self, call: ToolCall, breach: Constraint | None, events: list[Event], ends: list[End]) -> ToolResult:
        """Run one call: constraint, deadline, tool, output limit, colleagues who were written to."""
        if breach is not None and breach.on_breach is not OnBreach.PENALTY:
            return ToolResult(call=call.id, text=f"Not allowed: {breach.describe()}.", error=True)
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(f"`{name}`" for name in self._tools) or "none"
            return ToolResult(call=call.id, text=f"There is no tool `{call.name[:200]}`. Tools: {known}.", error=True)
        # Tools that share state or files run one after the other, in call order; waiting is outside the call's time limit.
        async with nullcontext() if tool.concurrent and self._env.concurrent else self._turn_taking:
            results: list[ToolResult] = []
            with time_limit(self.limits.tool_s), answering(self._seat.name if self._seat else ""):
                results.append(await self._limit_output(await self._answer(tool, call, events), events))
            await self._tell_colleagues(events, ends)
        if self._crashes.lost:  # nobody can go on in a world whose state is not known
            ends.append(End.DONE)
            self.world.ended = True
        if results:
            return results[0]
        events.append(self._event("tool_timeout", tool=call.name, seconds=self.limits.tool_s))
        return ToolResult(
            call=call.id, text=f"`{call.name}` timed out: it did not finish within {self.limits.tool_s:g} s.", error=True
        )

    async def _answer(self, tool: Tool, call: ToolCall, events: list[Event]) -> ToolResult:
        """Call a tool. What crashes in it is an error to the agent, unless the author wants the rollout to fail."""
        try:
            with boundary(AuthorError, f"tool `{call.name}`"):
                return await author.contained(tool.call(self.world, call))
        except ToolError as error:
            return ToolResult(call=call.id, text=clean(str(error)), error=True)
        except (AuthorError, ConfigError) as error:
            seat = self._seat.name if self._seat else ""
            events.append(self._crashes.note(call.name, error, self._num_turns, getattr(tool, "on_crash", None), seat=seat))
            return ToolResult(call=call.id, text=CRASHED.format(tool=call.name), error=True)

    async def _tell_colleagues(self, events: list[Event], ends: list[End]) -> None:
        """Let the colleagues whom a model plays read what was written to them. The time is not the agent's."""
        if self._colleagues is None or not self.world.apps.unanswered:
            return
        try:
            with pause_limits():
                told, end = await self._colleagues.answer(self.world.apps)
        except (AuthorError, ConfigError) as error:
            events.append(self._crashes.note("@env.colleagues", error, self._num_turns))
            return
        events += (msgspec.structs.replace(event, turn=self._num_turns) for event in told)
        ends += [end] if end else []

    async def _limit_output(self, result: ToolResult, events: list[Event]) -> ToolResult:
        """Cut the middle out of long output, with a marker, and store the whole while the rollout's budget lasts."""
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
        events.append(self._event(OUTPUT_CUT, call=result.call, chars=len(text), shown=most, whole=whole))
        return ToolResult(call=result.call, text=shown, error=result.error, whole=whole, images=result.images)

    def _cut_to_budget(self, result: ToolResult, data: bytes, events: list[Event]) -> ToolResult:
        """The first result over budget gets what is left of it; later ones are only a notice."""
        kept = data[: min(self._output_left, self.limits.tool_output_chars)].decode(errors="ignore")
        self._output_left = 0
        events.append(self._event("tool_output_budget", call=result.call, bytes=len(data), shown=len(kept)))
        most = self.limits.rollout_output_bytes
        notice = f"[{len(data) - len(kept.encode())} bytes cut: this rollout's {most} bytes of tool results are used up]"
        return ToolResult(
            call=result.call, text=f"{kept}\n{notice}" if kept else notice, error=result.error, images=result.images
        )

    def _breach(self, call: ToolCall, events: list[Event]) -> Constraint | None:
        """Count the call for every rule that applies; return the strictest one it breaks. Penalties add up."""
        broken: list[Constraint] = []
        for constraint in self._constraints:
            if _applies(constraint, call):
                self._num_calls[constraint.id] += 1
                if self._num_calls[constraint.id] > constraint.at_most:
                    broken.append(constraint)
        for constraint in broken:
            if constraint.on_breach is OnBreach.PENALTY:
                name = f"{self._seat.name}/{constraint.id}" if self._seat else constraint.id
                self._penalties[name] = self._penalties.get(name, 0.0) + constraint.points
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
        f"`step` was given {given}; give a message from the assistant: `Message(role=Role.ASSISTANT, parts=(...,))` with"
        " `Text(text)` for text and `ToolCall(id, name, arguments)` for a tool call, from `sandlot.core.trace` and"
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
            raise ConfigError(f"two tools are named `{tool.spec.name}`; rename one, or give its MCP server another name")
        named[tool.spec.name] = tool
    return named
