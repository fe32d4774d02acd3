"""A small honest session for serving: a counter that must reach 3. As a script, it is served over stdio."""

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from sandlot.core.errors import AuthorError
from sandlot.core.ports.session import Session, Step
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, ToolResult, text_message
from sandlot.core.types import End, Role

TURNS = 6
ADD = ToolSpec(
    name="add",
    description="Add to the counter.",
    parameters={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
)
BREAK = ToolSpec(name="break", description="Break the environment.", parameters={"type": "object"})


class CountingSession:
    def __init__(self, tools: Sequence[ToolSpec] = (ADD, BREAK)) -> None:
        self.tools = tools
        self.counter = 0
        self.turns = 0
        self.hanging = anyio.Event()

    async def reset(self) -> Step:
        return Step(messages=(text_message(Role.SYSTEM, "You count."), text_message(Role.USER, "Bring the counter to 3.")))

    async def step(self, action: Message, *, num_tokens: int = 0) -> Step:
        self.turns += 1
        if any(call.name == "hang" for call in action.calls):
            self.hanging.set()
            await anyio.sleep_forever()
        end = End.TURN_LIMIT if self.turns >= TURNS else None
        if not action.calls:
            if action.text == "?":
                return Step(messages=(text_message(Role.USER, "No questions."),), end=end)
            return Step(messages=(), end=End.DONE)
        return Step(messages=(Message(role=Role.TOOL, parts=tuple(map(self.result, action.calls))),), end=end)

    def result(self, call: Any) -> ToolResult:
        if call.name == "break":
            raise AuthorError("tool `break`: KeyError: 'x'")
        if call.name != "add" or not isinstance(call.arguments.get("n"), int):
            return ToolResult(call=call.id, text=f"no tool for {call.name}({call.arguments})", error=True)
        self.counter += call.arguments["n"]
        return ToolResult(call=call.id, text=f"the counter is {self.counter}")

    async def render(self) -> str:
        return str(self.counter)


class TellingSession(CountingSession):
    """Says in a file beside that of the script when a call hangs."""

    async def step(self, action: Message, *, num_tokens: int = 0) -> Step:
        if any(call.name == "hang" for call in action.calls):
            await anyio.Path(sys.argv[1]).with_name("hanging").write_text("hanging")
        return await super().step(action, num_tokens=num_tokens)


async def score(session: Session) -> str:
    return "score 1/1" if await session.render() == "3" else "score 0/1"


async def main() -> None:
    from sandlot.serve.environment.mcp import serve_mcp

    closed = Path(sys.argv[1])

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Session]:
        sys.stdout.write("an author's stray print\n")
        sys.stdout.flush()
        try:
            yield TellingSession()
        finally:
            closed.write_text("closed")

    await serve_mcp("counting", opened, finish_text=score)


if __name__ == "__main__":
    anyio.run(main)
