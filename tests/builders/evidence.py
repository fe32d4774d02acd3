"""Evidence of a rollout that never happened, over literal files."""

from sandlot.core.trace import ToolCall
from sandlot.testing.records import make_evidence

__all__ = ["make_evidence", "tool_call"]


def tool_call(tool: str, **arguments) -> ToolCall:
    return ToolCall(id="1", name=tool, arguments=arguments)
