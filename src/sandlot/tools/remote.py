"""One tool of an MCP server, as a `Tool`.

The agent gets the server's response to a call, errors included. If the server itself is broken, gone or does not follow the
protocol, the environment has failed: `AuthorError`. The shape of a result is checked; its declared output schema is not, because
nothing here relies on it, and a hostile schema could keep the host busy.
"""

import base64
from dataclasses import dataclass

import msgspec
from mcp import Client, MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    PARSE_ERROR,
    AudioContent,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from mcp_types import Tool as ListedTool

from sandlot.core.errors import AuthorError, InsideError, ToolError, boundary
from sandlot.core.images import Image
from sandlot.core.ports.world import ToolSpec, World
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.tools.arguments import checked_arguments, clean
from sandlot.tools.function import pictured_result
from sandlot.tools.stdio import TOO_LARGE, ServerNotes

_MAX_DESCRIPTION_CHARS = 8_000
_MAX_SCHEMA_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class RemoteTool:
    """Implements the `Tool` port over one tool of a running server."""

    spec: ToolSpec
    remote: str
    """Its name on the server."""
    server: str
    client: Client
    notes: ServerNotes

    @property
    def concurrent(self) -> bool:
        """Always True: a server handles its calls itself."""
        return True

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """Send the call to the server; its response as text and images, errors included."""
        try:
            arguments = checked_arguments(call)
        except ToolError as error:
            return ToolResult(call=call.id, text=str(error), error=True)
        request = CallToolRequest(params=CallToolRequestParams(name=self.remote, arguments=arguments))
        try:
            with boundary(self._broken, self._failed()):
                result = await self._send(request)
        except ToolError as error:
            return ToolResult(call=call.id, text=clean(str(error)), error=True)
        shown = await self._pictured(world, call, result)
        if shown is not None:
            return shown
        text = "\n".join(_text(block) for block in result.content)
        if not result.content and result.structured_content is not None:
            text = msgspec.json.encode(result.structured_content).decode()
        return ToolResult(call=call.id, text=clean(text) or "ok", error=bool(result.is_error))

    async def _pictured(self, world: World, call: ToolCall, result: CallToolResult) -> ToolResult | None:
        """The response with its images; None if it has none, or the environment shows none."""
        if not any(isinstance(block, ImageContent) for block in result.content):
            return None
        try:
            values = [_image(block) if isinstance(block, ImageContent) else _text(block) for block in result.content]
            shown = await pictured_result(world, call, values)
        except ToolError as error:
            return ToolResult(call=call.id, text=clean(str(error)), error=True)
        except LookupError:
            return None
        return msgspec.structs.replace(shown, error=bool(result.is_error))

    async def _send(self, request: CallToolRequest) -> CallToolResult:
        if self.notes.trouble and not self.notes.over_http:  # its process has ended: nothing would ever answer
            raise self._broken(f"{self._failed()}: {self.notes.summary()}", kind="server")
        try:
            return await self.client.session.send_request(request, CallToolResult)
        except MCPError as error:
            if self.notes.too_large:
                self.notes.too_large = False
                raise ToolError(TOO_LARGE) from error
            if self.notes.lost is not None:
                raise type(self.notes.lost)(f"{self._failed()}: {self.notes.lost}", kind=self.notes.lost.kind) from error
            lost = self.notes.over_http and error.code == CONNECTION_CLOSED
            if self.notes.trouble or lost or error.code == PARSE_ERROR:
                raise self._broken(f"{self._failed()}: {error.message}; {self.notes.summary()}", kind="server") from error
            raise ToolError(error.message) from error

    @property
    def _broken(self) -> type[AuthorError]:
        """The error for a server that broke: inside the sandbox, the agent may have broken it."""
        return InsideError if self.notes.inside else AuthorError

    def _failed(self) -> str:
        return f"MCP server `{self.server}` failed in `{self.remote}`"


def make_remote_tool(listed: ListedTool, server: str, prefix: str, client: Client, notes: ServerNotes) -> RemoteTool:
    """The tool for an entry of the server's list; `AuthorError` if its schema is too large."""
    schema = {"type": "object"} | listed.input_schema
    size = len(msgspec.json.encode(schema))
    if size > _MAX_SCHEMA_BYTES:
        raise AuthorError(
            f"MCP server `{server}` offers `{listed.name[:100]}` with a schema of {size} bytes; at most {_MAX_SCHEMA_BYTES}",
            kind="server",
        )
    description = clean(listed.description or "")
    if len(description) > _MAX_DESCRIPTION_CHARS:
        description = description[:_MAX_DESCRIPTION_CHARS] + f" [cut: {len(description)} characters]"
    spec = ToolSpec(name=clean(prefix + listed.name), description=description, parameters=schema)
    return RemoteTool(spec, listed.name, server, client, notes)


def _image(block: ImageContent) -> Image:
    """The bytes that the server sent. What they are is read from them, not from the type it names."""
    try:
        return Image(base64.b64decode(block.data, validate=True))
    except ValueError as error:
        raise ToolError("the image is not shown: the server's data is not base64") from error


def _text(block: ContentBlock) -> str:
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            return f"[{block.type} {block.mime_type}, {len(block.data) * 3 // 4} bytes, not shown]"
        case EmbeddedResource(resource=TextResourceContents() as resource):
            return resource.text
        case EmbeddedResource(resource=resource):
            return f"[resource {resource.uri}, bytes, not shown]"
        case ResourceLink():
            return f"[resource {block.uri}]"
