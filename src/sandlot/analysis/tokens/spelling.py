"""What a renderer says about the tokens of a trace: contexts it would have appended, turns that read as the message acted on.

How the first prompt was spelled cannot be said here: it tells the tools, which a trace does not keep.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from sandlot.analysis.tokens.faults import FaultCode, TokenFault
from sandlot.core.branching import common_prefix
from sandlot.core.ports.model import Renderer
from sandlot.core.tokens import held_tokens, path_indices, unpacked_ids
from sandlot.core.trace import Message, Node, Part, Reasoning, Text, Tokens, ToolCall, Trace

Decode = Callable[[Sequence[int]], str]
"""Ids for people, control tokens by their text."""


def spelling_faults(trace: Trace, renderer: Renderer, decode: Decode, stop_texts: Sequence[str] = ()) -> list[TokenFault]:
    """Every exact turn of a trace that is not torn, as the renderer sees it; `stop_texts` are those the run stopped at."""
    found: list[TokenFault] = []
    for index, node in enumerate(trace.nodes):
        if node.sampled and node.tokens is not None:
            told = (
                *_turn_faults(node, node.tokens, renderer, decode, stop_texts),
                *_context_faults(trace, node, renderer, decode),
            )
            found += (TokenFault(code=code, node=index, detail=detail) for code, detail in told)
    return found


def _turn_faults(
    node: Node, tokens: Tokens, renderer: Renderer, decode: Decode, stop_texts: Sequence[str]
) -> Iterator[tuple[FaultCode, str]]:
    ids = unpacked_ids(tokens.ids)
    stopped = bool(ids) and (ids[-1] in renderer.stop_ids or any(text in decode(ids) for text in stop_texts))
    if node.stop in {"stop", "calls"} and not stopped:
        yield FaultCode.STOP, f"it stopped, and its last tokens are {decode(ids[-4:])!r}"
    inside = [at for at, token in enumerate(ids[:-1]) if token in renderer.stop_ids]
    if inside:
        yield FaultCode.END_INSIDE, f"token {inside[0]} of {len(ids)} is {decode([ids[inside[0]]])!r}"
    read = renderer.parse(ids, "c")
    if _plain(read) != _plain(node.message):
        yield FaultCode.MESSAGE, f"ids read as {_plain(read)!r:.200}; acted on was {_plain(node.message)!r:.200}"


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


def _plain(message: Message) -> list[tuple[str, str]]:
    """What was said, calls as they were written, keys in their order; without the names that calls were given."""
    return [shown for part in message.parts if (shown := _plain_part(part)) is not None]


def _plain_part(part: Part) -> tuple[str, str] | None:
    match part:
        case Text():
            return "text", part.text
        case Reasoning():
            return "reasoning", part.text
        case ToolCall():
            return "call", f"{part.name} {part.malformed or msgspec.json.encode(part.arguments).decode()}"
        case _:
            return None
