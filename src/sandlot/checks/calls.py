"""Checks of what the agent did: the tools it called."""

from typing import Any

from sandlot.checks.found import Said, equal_values, shown
from sandlot.core.ports.grading import Evidence
from sandlot.core.trace import ToolCall, Trace


def tool_called(evidence: Evidence, tool: str, *, where: dict[str, Any] | None = None, at_least: int = 1) -> Said:
    """The agent called the tool at least `at_least` times, with at least these arguments.

    >>> tool_called(evidence, "refund", where={"amount": 5})[0]
    True
    """
    count = len(_calls(evidence, tool, where))
    return count >= at_least, f"`{tool}` was called {count} times{_where(where)}"


def tool_not_called(evidence: Evidence, tool: str, *, where: dict[str, Any] | None = None) -> Said:
    """The agent never called the tool with these arguments.

    >>> tool_not_called(evidence, "delete")
    (True, '`delete` was called 0 times')
    """
    count = len(_calls(evidence, tool, where))
    return count == 0, f"`{tool}` was called {count} times{_where(where)}"


def max_calls(evidence: Evidence, at_most: int, *, tool: str = "*") -> Said:
    """The agent made at most `at_most` calls, of one tool or of all.

    >>> max_calls(evidence, 1)
    (True, '1 calls')
    """
    count = len(_calls(evidence, tool, None))
    return count <= at_most, f"{count} calls" + ("" if tool == "*" else f" of `{tool}`")


def _calls(evidence: Evidence, tool: str, where: dict[str, Any] | None) -> list[ToolCall]:
    def fits(call: ToolCall) -> bool:
        wanted = (where or {}).items()
        return all(name in call.arguments and equal_values(call.arguments[name], value, 0.0) for name, value in wanted)

    return [call for call in _made(evidence.trace) if tool in {"*", call.name} and fits(call)]


def _made(trace: Trace) -> list[ToolCall]:
    """The calls that were made. A foreign agent's messages may name any tool: only what the environment ran counts."""
    if not trace.is_captured:
        return [call for node in trace.turns() for call in node.message.calls]
    details = [event.detail for event in trace.events if event.kind == "tool_called"]
    return [ToolCall(each["call"], each["tool"], each["arguments"]) for each in details]


def _where(where: dict[str, Any] | None) -> str:
    return f" with {shown(where)}" if where else ""
