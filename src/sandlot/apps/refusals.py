"""Wrong arguments, worded as the TypeScript servers word them: one line an argument, after the words of their SDK."""

from collections.abc import Sequence

import msgspec

from sandlot.apps.issues import ArgumentIssue, zod_lines, zod_text
from sandlot.apps.recorded import RecordedTool
from sandlot.core.types import Json

_HEAD = "MCP error -32602: Input validation error: Invalid arguments for tool"


def sdk_zod3_text(tool: RecordedTool, issues: Sequence[ArgumentIssue]) -> str:
    """As the SDK with zod 3: `Required at page`."""
    told = msgspec.json.decode(zod_text(issues), type=list[Json])
    return f"{_HEAD} {tool.name}: " + "\n".join(f"{each['message']} at {_place(each['path'])}" for each in told)


def sdk_zod4_text(tool: RecordedTool, issues: Sequence[ArgumentIssue]) -> str:
    """As the SDK with zod 4: `Invalid input: expected string, received undefined at path`."""
    return f"{_HEAD} {tool.name}: {zod_lines(issues)}"


def zod3_json_text(_tool: RecordedTool, issues: Sequence[ArgumentIssue]) -> str:
    """As a server that returns what zod 3 found as JSON: `Invalid input: [{"code": ...}]`."""
    return f"Invalid input: {msgspec.json.encode(msgspec.json.decode(zod_text(issues))).decode()}"


def _place(path: Sequence[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
