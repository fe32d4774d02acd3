"""Checks the tokens of a trace with its renderer: the contexts it would have appended, and the messages that turns decode to.

The first prompt cannot be checked: it lists the tools, which a trace does not store.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from sandlot.analysis.tokens.faults import FaultCode, TokenFault
from sandlot.core.branching import common_prefix
from sandlot.core.ports.model import Renderer
from sandlot.core.tokens import held_tokens, path_indices, unpacked_ids
from sandlot.core.trace import Message, Node, Part, Reasoning, Text, Tokens, ToolCall, Trace

Decode = Callable[[Sequence[int]], str]
"""Ids as text, control tokens included."""


def spelling_faults(trace: Trace, renderer: Renderer, decode: Decode, stop_texts: Sequence[str] = ()) -> list[TokenFault]:
    """The faults of all turns with exact tokens; `stop_texts` are the stop texts of the run."""
    found: list[TokenFault] = []
    for index, node in enumerate(trace.nodes):
        if node.sampled and node.tokens is not None:
            faults = (
                *_turn_faults(node, node.tokens, renderer, decode, stop_texts),
                *_context_faults(trace, node, renderer, decode),
            )
            found += (TokenFault(code=code, node=index, detail=detail) for code, detail in faults)
    return found


def _turn_faults(
    node: Node, tokens: Tokens, renderer: Renderer, decode: Decode, stop_texts: Sequence[str]
) -> Iterator[tuple[FaultCode, str]]:
    ids = unpacked_ids(tokens.ids)
    stopped = bool(ids) and (ids[-1] in renderer.stop_ids or any(text in decode(ids) for text in stop_texts))
    if node.stop in {"stop", "calls"} and not stopped:
        yield FaultCode.STOP, f"it stopped, but its last tokens are {decode(ids[-4:])!r}"
    inside = [at for at, token in enumerate(ids[:-1]) if token in renderer.stop_ids]
    if inside:
        yield FaultCode.END_INSIDE, f"token {inside[0]} of {len(ids)} is {decode([ids[inside[0]]])!r}"
    read, recorded = _message_text(renderer.parse(ids, "c")), _message_text(node.message)
    if read != recorded:
        yield FaultCode.MESSAGE, f"the ids decode to {read!r:.200}; the recorded message is {recorded!r:.200}"


def _context_faults(trace: Trace, node: Node, renderer: Renderer, decode: Decode) -> Iterator[tuple[FaultCode, str]]:
    if node.parent is None:
        return
    above = held_tokens(trace, node.parent)
    if not above.ids:
        return
    messages = [trace.nodes[at].message for at in path_indices(trace, node.parent)][above.num_messages :]
    expected, given = renderer.bridge(above.ids, messages), unpacked_ids(node.context)
    if expected is None or expected == given:
        return
    at = common_prefix(expected, given)
    window = slice(max(0, at - 3), at + 5)
    shown = f"given {decode(given[window])!r} ({len(given)} tokens), expected {decode(expected[window])!r} ({len(expected)})"
    yield FaultCode.CONTEXT, f"from its token {at} on: {shown}"


def _message_text(message: Message) -> list[tuple[str, str]]:
    """The parts of a message as text, calls with their keys in order and without ids."""
    return [shown for part in message.parts if (shown := _part_text(part)) is not None]


def _part_text(part: Part) -> tuple[str, str] | None:
    match part:
        case Text():
            return "text", part.text
        case Reasoning():
            return "reasoning", part.text
        case ToolCall():
            return "call", f"{part.name} {part.malformed or msgspec.json.encode(part.arguments).decode()}"
        case _:
            return None
