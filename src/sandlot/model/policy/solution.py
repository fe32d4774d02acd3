"""Golden solutions: an author's async function that takes the agent's turns.

The solution is written as if it ran the loop (`await agent.call(...)`, `await agent.say(...)`), but the harness runs it. So the
solution runs in its own async task; each `call` or `say` becomes a turn and waits for the answer. The solution sees what an agent
sees, plus the task's key. Its exceptions are author errors.
"""

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import TaskGroup

from sandlot.core.concurrency.author import is_async, name_of
from sandlot.core.errors import AuthorError, SandlotError, boundary, unwrapped
from sandlot.core.ports.session import Policy
from sandlot.core.ports.world import ToolSpec
from sandlot.core.seats import SeatTrace
from sandlot.core.task import Task
from sandlot.core.trace import Message, Node, Part, Text, ToolCall, Trace
from sandlot.core.types import Json
from sandlot.model.policy.player import assistant_node, messages_since_turn

Solution = Callable[["Agent", Task], Awaitable[None]]
"""`async def solve(agent: Agent, task: Task) -> None`."""


Item = TypeVar("Item")


class Mailbox(Generic[Item]):
    """A queue between two async tasks. An anyio memory stream costs three times as much, which slows golden runs."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._arrived: anyio.Event | None = None
        self._closed = False

    def put(self, item: Item) -> None:
        """Add an item without waiting; nothing once it is closed."""
        if self._closed:
            return
        self._items.append(item)
        if self._arrived is not None:
            self._arrived.set()

    def close(self) -> None:
        """No item follows: whoever waits for one, or will, is cancelled."""
        self._closed = True
        if self._arrived is not None:
            self._arrived.set()

    async def take(self) -> Item:
        """The oldest item; waits for one."""
        while not self._items:
            if self._closed:
                await anyio.lowlevel.cancel_shielded_checkpoint()  # for others, if the caller catches everything in a loop
                raise anyio.get_cancelled_exc_class()
            self._arrived = anyio.Event()
            await self._arrived.wait()
        return self._items.popleft()


@dataclass(frozen=True, slots=True)
class SolutionEnded:
    """The solution has returned or raised."""

    error: AuthorError | None


Turns = Mailbox[tuple[Part, ...] | SolutionEnded]
_Answers = Mailbox[tuple[Message, ...]]


class Agent:
    """The first argument of a golden solution: it takes the agent's turns.

    A solution sees what an agent sees (prompt, tools, results), plus the task with its `key`. When the rollout ends with a `say`,
    that `say` does not return: put nothing after the last one.

    - `agent.prompt`: the opening messages as text.
    - `agent.tools`: the tools it may call.
    - `agent.last_error`: the text of the last result if it was an error, else None.
    - `agent.seat`: where several agents act, the seat it plays.

    ```python
    from sandlot import Agent, Environment, Task

    env = Environment("till")


    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        first, second = await agent.call_all(("price", {"item": "tea"}), ("price", {"item": "milk"}))
        if agent.last_error is None:
            await agent.say(f"{int(first) + int(second)}")
    ```
    """

    def __init__(self, turns: Turns, answers: _Answers, prompt: str, tools: tuple[ToolSpec, ...], seat: str = "") -> None:
        self.prompt = prompt
        """The opening messages as text."""
        self.tools = tools
        """The tools it may call."""
        self.last_error: str | None = None
        """The text of the last result if it was an error, else None."""
        self.seat = seat
        """Where several agents act: the seat it plays; else empty."""
        self._turns = turns
        self._answers = answers
        self._num_calls = 0
        self._busy = False

    async def call(self, tool: str, /, **arguments: Any) -> str:
        """Call one tool and return its result as text. An error result is returned too, and is in `last_error`."""
        (text,) = await self.call_all((tool, arguments))
        return text

    async def call_all(self, *calls: tuple[str, dict[str, Any]]) -> list[str]:
        """Call several tools in one turn and return their results in order."""
        wanted = tuple(
            ToolCall(f"golden_{self._num_calls + index}", name, _as_json(arguments))
            for index, (name, arguments) in enumerate(calls)
        )
        self._num_calls += len(wanted)
        answer = await self._turn(wanted)
        results = {result.call: result for message in answer for result in message.results}
        missing = [call.name for call in wanted if call.id not in results]
        if missing:
            raise RuntimeError(f"no result came back for `{missing[0]}`; the agent received: {_text(answer)[:200]!r}")
        self.last_error = next((results[call.id].text for call in reversed(wanted) if results[call.id].error), None)
        return [results[call.id].text for call in wanted]

    async def say(self, text: str) -> str:
        """Send a message without tool calls; returns the user's reply. Where no user replies, it ends the rollout."""
        return _text(await self._turn((Text(text),)))

    async def _turn(self, parts: tuple[Part, ...]) -> tuple[Message, ...]:
        if self._busy:
            raise RuntimeError("an agent takes one turn at a time; use `call_all` for several calls at once")
        self._busy = True
        try:
            self._turns.put(parts)
            return await self._answers.take()
        finally:
            self._busy = False


class _SolutionPolicy:
    """`ports.Policy` over a golden solution."""

    def __init__(self, name: str, solution: Solution, task: Task, group: TaskGroup) -> None:
        self._name = name
        self._solution = solution
        self._task = task.copied()
        self._group = group
        self._begun = False
        self._closed = False
        self._over: SolutionEnded | None = None
        self._turns: Turns = Mailbox()
        self._answers: _Answers = Mailbox()

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:
        """The solution's next turn; an empty message once it has returned. Its exceptions become `AuthorError`."""
        if self._over is None:
            messages = messages_since_turn(trace, leaf)
            if self._begun:
                self._answers.put(messages)
            else:
                self._begun = True
                seat = trace.seat if isinstance(trace, SeatTrace) else ""
                agent = Agent(self._turns, self._answers, _text(messages), tuple(tools), seat)
                self._group.start_soon(self._play, agent, name="solution")
            got = await self._turns.take()
            if not isinstance(got, SolutionEnded):
                return assistant_node(self._name, trace, leaf, got)
            self._over = got
        if self._over.error is not None:
            raise self._over.error
        return assistant_node(self._name, trace, leaf, ())

    async def _play(self, agent: Agent) -> None:
        what = f"solution `{name_of(self._solution)}`"
        error: SandlotError | None = None
        try:
            with boundary(AuthorError, what):
                await self._solution(agent, self._task)
        except SandlotError as raised:
            error = raised
        except BaseException as raised:
            if not (self._closed and _is_cancellation(raised)):
                raise
            return  # a task that ends so leaves no cycle of objects behind, as one that is cancelled does
        if error is not None and not isinstance(error, AuthorError):
            blamed = AuthorError(f"{what}: {type(error).__name__}: {error}", kind=error.kind)
            blamed.original, error = error, blamed
        self._turns.put(SolutionEnded(error))

    def close(self) -> None:
        """End a solution that waits for an answer, as most do when the rollout ends; one that waits for anything else goes on."""
        self._closed = True
        self._answers.close()
        self._turns.close()


@asynccontextmanager
async def open_solution(name: str, solution: Solution, task: Task) -> AsyncGenerator[Policy]:
    """A policy over the solution for one rollout; the solution is cancelled if the rollout ends first."""
    if not is_async(solution):
        raise AuthorError(f"solution `{name_of(solution)}` is not async; write `async def solve(agent: Agent, task: Task)`")
    try:
        async with anyio.create_task_group() as group:
            policy = _SolutionPolicy(name, solution, task, group)
            try:
                yield policy
            finally:
                policy.close()
                group.cancel_scope.cancel()
    except ExceptionGroup as wrapped:  # errors of the rollout itself pass through
        raise unwrapped(wrapped) from None


def _is_cancellation(error: BaseException) -> bool:
    """True for a cancellation, also one that the solution's own task group has wrapped."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_cancellation, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return isinstance(error, anyio.get_cancelled_exc_class())


def _as_json(arguments: dict[str, Any]) -> Json:
    """Arguments as JSON values, as a model would have sent them."""
    return msgspec.json.decode(msgspec.json.encode(arguments), type=dict[str, Any])


def _text(messages: Sequence[Message]) -> str:
    return "\n".join(text for message in messages if (text := message.text))
