"""What an agent did and saw in one rollout, as counts and lengths, for the drift check."""

from collections import Counter
from dataclasses import dataclass

from sandlot.core.text import one_line
from sandlot.core.trace import Trace
from sandlot.core.types import Role


@dataclass(frozen=True, slots=True)
class Features:
    """One trace in numbers."""

    tools: Counter[str]
    """Tool calls by name; `(no tool)` for a turn without one, `(unreadable)` for one that could not be parsed."""
    observed: tuple[int, ...]
    """Length of each message and tool result of the environment, in characters."""
    said: tuple[int, ...]
    """Length of each turn, calls included, in characters."""
    errors: int
    results: int


_NAME_CHARS = 60
NO_TOOL = "(no tool)"
UNREADABLE = "(unreadable)"


def features_of(trace: Trace) -> Features:
    """The features of a trace."""
    tools: Counter[str] = Counter()
    observed: list[int] = []
    said: list[int] = []
    errors = results = 0
    for node in trace.nodes:
        message = node.message
        if node.is_turn:
            calls = message.calls
            names = [UNREADABLE if call.malformed is not None else one_line(call.name, _NAME_CHARS) for call in calls]
            tools.update(names or [NO_TOOL])
            said.append(len(message.text) + sum(len(call.malformed or str(call.arguments)) for call in calls))
        elif message.role is not Role.ASSISTANT:
            for result in message.results:
                results += 1
                errors += result.error
                observed.append(len(result.text))
            if message.text:
                observed.append(len(message.text))
    return Features(tools=tools, observed=tuple(observed), said=tuple(said), errors=errors, results=results)
