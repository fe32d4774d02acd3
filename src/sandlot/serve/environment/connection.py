"""The connection of one MCP client to its own world.

The session's tools are MCP tools. Its opening messages are the prompt `task` and the server's instructions. A further tool,
`finish`, takes the answer and ends the rollout. Every action goes through `Session.step`, so limits and constraints apply as for
any agent. After the end, every call returns an error.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import chain, count
from typing import Any

import anyio
import mcp_types as mcp
from mcp import MCPError
from mcp.server.lowlevel import Server

from sandlot.core.errors import HarnessError, SandlotError, boundary
from sandlot.core.ports.session import Session, Step
from sandlot.core.trace import Message, ToolCall, text_message
from sandlot.core.types import Role

_PROMPT = "task"
_FINISH = "finish"
_FINISH_SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string", "description": "Your final answer, or what you did."}},
    "required": ["answer"],
    "additionalProperties": False,
}

OpenSession = Callable[[], AbstractAsyncContextManager[Session]]
FinishText = Callable[[Session], Awaitable[str]]


@asynccontextmanager
async def open_connection(name: str, open_session: OpenSession, finish_text: FinishText | None) -> AsyncGenerator["Connection"]:
    """Open a fresh world for one client; it is closed when the context ends."""
    async with open_session() as session:
        yield Connection(name, session, await session.reset(), finish_text)


class Connection:
    """The MCP server of one client."""

    def __init__(self, name: str, session: Session, opening: Step, finish_text: FinishText | None) -> None:
        self._session = session
        self._opening = opening
        self._finish_text = finish_text
        self._ended = f"the rollout has ended: {opening.end}" if opening.end else ""
        self._turns = anyio.Lock()
        self._calls = count(1)
        self._finish = _free_name(_FINISH, {spec.name for spec in session.tools})
        self.server: Server[Any] = Server(
            name,
            instructions=self._instructions(),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )

    def _instructions(self) -> str:
        texts = [message.text for message in self._opening.messages]
        return "\n\n".join([*texts, f"When you are done, call the tool `{self._finish}` with your answer."])

    async def _list_tools(self, _context: Any, _params: Any) -> mcp.ListToolsResult:
        offered = [
            mcp.Tool(name=spec.name, description=spec.description, input_schema=spec.parameters) for spec in self._session.tools
        ]
        finish = mcp.Tool(name=self._finish, description="Give your answer and end the task.", input_schema=_FINISH_SCHEMA)
        return mcp.ListToolsResult(tools=[*offered, finish])

    async def _list_prompts(self, _context: Any, _params: Any) -> mcp.ListPromptsResult:
        return mcp.ListPromptsResult(prompts=[mcp.Prompt(name=_PROMPT, description="What is to be done.")])

    async def _get_prompt(self, _context: Any, params: mcp.GetPromptRequestParams) -> mcp.GetPromptResult:
        if params.name != _PROMPT:
            raise MCPError(mcp.INVALID_PARAMS, f"no prompt named `{params.name}`; there is: {_PROMPT}")
        return mcp.GetPromptResult(messages=[_prompt_message(message) for message in self._opening.messages])

    async def _call_tool(self, _context: Any, params: mcp.CallToolRequestParams) -> mcp.CallToolResult:
        async with self._turns:  # one action at a time
            if self._ended:
                return _result(f"{self._ended}; open a new connection for a fresh world", error=True)
            try:
                with boundary(HarnessError, f"call of `{params.name}`"):
                    if params.name == self._finish:
                        return await self._finish_rollout(params.arguments or {})
                    return await self._act(params.name, params.arguments or {})
            except SandlotError as error:
                self._ended = f"the environment failed: {error}"
                return _result(self._ended, error=True)

    async def _act(self, name: str, arguments: dict[str, Any]) -> mcp.CallToolResult:
        call = ToolCall(id=f"mcp-{next(self._calls)}", name=name, arguments=arguments)
        step = await self._session.step(Message(role=Role.ASSISTANT, parts=(call,)))
        results = [result for message in step.messages for result in message.results]
        texts = [result.text for result in results] + [message.text for message in step.messages if message.text]
        return _result(*texts, *await self._note_end(step), error=any(result.error for result in results))

    async def _finish_rollout(self, arguments: dict[str, Any]) -> mcp.CallToolResult:
        answer = arguments.get("answer")
        if not isinstance(answer, str):
            return _result(f"`{self._finish}` needs `answer`, a string", error=True)
        step = await self._session.step(text_message(Role.ASSISTANT, answer))
        texts = [message.text for message in step.messages if message.text]
        if step.end is None:
            return _result(*texts, "The task continues.")
        return _result(*texts, *await self._note_end(step))

    async def _note_end(self, step: Step) -> list[str]:
        """If the rollout has ended, remember it and return the text about it, with the score."""
        if step.end is None:
            return []
        self._ended = f"the rollout has ended: {step.end}"
        score = await self._finish_text(self._session) if self._finish_text else ""
        return [f"[{self._ended}]", *([score] if score else [])]


def _free_name(name: str, taken: set[str]) -> str:
    """The name, with a number appended if the environment has a tool of that name."""
    return next(each for each in chain([name], (f"{name}_{n}" for n in count(2))) if each not in taken)


def _prompt_message(message: Message) -> mcp.PromptMessage:
    role = "assistant" if message.role is Role.ASSISTANT else "user"
    return mcp.PromptMessage(role=role, content=mcp.TextContent(type="text", text=message.text))


def _result(*texts: str, error: bool = False) -> mcp.CallToolResult:
    return mcp.CallToolResult(content=[mcp.TextContent(type="text", text=text) for text in texts], is_error=error)
