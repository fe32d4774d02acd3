"""What the calendar's server says of arguments that it does not take."""

from sandlot.apps.calendar.calendars import (
    ACCOUNT,
    request_error,
)
from sandlot.apps.calendar.times import is_event_time, is_time
from sandlot.core.errors import ToolError
from sandlot.core.types import Json


def invalid_arguments(tool: str, message: str, at: str) -> ToolError:
    """The server's error for arguments that do not fit the schema."""
    return ToolError(f"MCP error -32602: Input validation error: Invalid arguments for tool {tool}: {message} at {at}")


def require_times(tool: str, **given: str | None) -> None:
    """`ToolError` unless each is a time."""
    for name, value in given.items():
        if value is not None and not is_time(value):
            raise invalid_arguments(tool, "Must be ISO 8601 format: '2026-01-01T00:00:00'", name)


def require_event_times(tool: str, given: Json, where: str = "") -> None:
    """`ToolError` unless start and end are times or dates."""
    for name in ("start", "end"):
        if given.get(name) is not None and not is_event_time(given[name]):
            words = "Must be ISO 8601 format: '2025-01-01T10:00:00' for timed events or '2025-01-01' for all-day events"
            raise invalid_arguments(tool, words, f"{where}{name}")


def require_account(account: str | list[str] | None) -> None:
    """`ToolError` for an account that is not connected."""
    for name in [account] if isinstance(account, str) else account or []:
        if name.lower() != ACCOUNT:
            raise request_error(f'Account "{name.lower()}" not found. Available accounts: {ACCOUNT}')


def bad_request(why: str) -> ToolError:
    """Google's error for what it does not take."""
    return request_error(f"Bad Request: {why}. Details: {why}")
