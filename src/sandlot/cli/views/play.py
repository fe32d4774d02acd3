"""A person at the keyboard as the policy of one rollout: the same world, limits and checks a model has."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio.to_thread
import msgspec
from rich.console import Console

from sandlot.cli.views.show import print_crash, print_outcome
from sandlot.core.errors import StoppedByHook
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import CRASHES, Message, Node, Part, Text, ToolCall, Trace
from sandlot.core.types import Role
from sandlot.env.load import load
from sandlot.env.transcript import message_lines
from sandlot.run.replay import play_task


async def play_in_terminal(env: str, task: str | None, user: str | None, judge: str | None) -> Trace:
    """One rollout by hand, graded at the end."""
    environment = load(env)
    trace = await play_task(environment, _Person(environment.name), task, user=user, judge=judge)
    show_result(trace)
    return trace


class _Person:
    """The person at the keyboard as the only policy."""

    name = "person"

    def __init__(self, env: str) -> None:
        self._env = env
        self._num_shown = 0

    @asynccontextmanager
    async def policy(self, task: Task, seed: int, rollout: int = 0) -> AsyncGenerator["_Person"]:  # noqa: ARG002 - a person needs neither
        """The same person each time."""
        print(f"{self._env}: {task.id}. Write a message, call a tool with `/tool {{json}}`, or `/help`. Ctrl-D ends.\n")
        yield self

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:
        """Show what is new, then wait for a line."""
        for node in trace.nodes[self._num_shown :]:
            if not node.is_turn:
                print("\n".join(message_lines(node.message)))
        self._num_shown = len(trace.nodes)
        while True:
            line = await anyio.to_thread.run_sync(_line, abandon_on_cancel=True)
            if line == "/help":
                print("\n".join(_help(tools)))
                continue
            part = _part(line, len(trace.nodes))
            if isinstance(part, str):
                print(part)
                continue
            return Node(
                message=Message(role=Role.ASSISTANT, parts=(part,)), parent=leaf, sampled=True, stop="stop", model="person"
            )


def show_result(trace: Trace) -> None:
    """How it ended, check by check."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"\nend: [bold]{trace.end}[/]")
    for event in trace.events:
        if event.kind in CRASHES:
            print_crash(console, event)
    print_outcome(console, trace.outcome)


def _line() -> str:
    try:
        return input("> ").strip()
    except EOFError:
        raise StoppedByHook("you left") from None


def _part(line: str, number: int) -> Part | str:
    """A spoken text or a tool call; a string is what to tell the person instead."""
    if not line.startswith("/"):
        return Text(line)
    name, _, arguments = line[1:].partition(" ")
    try:
        decoded = msgspec.json.decode(arguments or "{}", type=dict[str, object])
    except msgspec.DecodeError as error:
        return f'arguments are a JSON object, `/{name} {{"argument": "value"}}`: {error}'
    return ToolCall(id=f"call-{number}", name=name, arguments=decoded)


def _help(tools: Sequence[ToolSpec]) -> list[str]:
    return [f"/{tool.name}{_example(tool)}  {tool.description}".rstrip() for tool in tools] or ["no tools here; write a message"]


def _example(tool: ToolSpec) -> str:
    """Its arguments as one would type them, with each one's type in the place of its value."""
    arguments = {name: f"<{schema.get('type', 'any')}>" for name, schema in tool.parameters.get("properties", {}).items()}
    return f" {msgspec.json.encode(arguments).decode()}" if arguments else ""
