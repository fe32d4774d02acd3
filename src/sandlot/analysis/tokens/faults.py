"""The faults that the tokens of a trace can have, and those that the trace alone shows.

There are three kinds of checks. *Structure*, here: lengths, versions, masks, the endpoint's counts, unrecorded branches.
*Spelling* needs the model's renderer (`spelling.py`), *numbers* need the model (`numbers.py`). A trace that is trained on has
no structural fault.
"""

import math
from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from sandlot.core.seats import seat_trace
from sandlot.core.tokens import exact_leaves, has_exact_tokens, unpacked_ids
from sandlot.core.trace import Node, Tokens, Trace

_POSITIVE = 1e-5
"""A log-probability may be this much above zero by rounding."""


class FaultClass(StrEnum):
    """The kind of check that finds a fault."""

    STRUCTURE = "structure"
    SPELLING = "spelling"
    NUMBERS = "numbers"


class FaultCode(StrEnum):
    """What is wrong."""

    NO_IDS = "no_ids"  # a sampled turn without exact tokens: it cannot be trained on
    TORN = "torn"  # bytes that are not a whole number of tokens, or invalid ids
    LOGPROBS_LENGTH = "logprobs_length"
    LOGPROB_VALUE = "logprob_value"  # not a number, minus infinity, or above zero
    MASK_LENGTH = "mask_length"
    MASK_VALUE = "mask_value"  # a turn partly masked out, the agent's turn masked out, or tokens masked in that were not sampled
    VERSIONS_SUM = "versions_sum"
    VERSION_ORDER = "version_order"  # weight versions that decrease along a path
    PROMPT_LENGTH = "prompt_length"  # the engine got another number of tokens than the path has
    COMPLETION_LENGTH = "completion_length"
    DOUBLED = "doubled"  # the same sampled tokens twice below one node
    HISTORY_AGAIN = "history_again"  # a context that repeats the tokens above it
    SILENT_FORK = "silent_fork"  # sampled tokens in a branch that no event explains
    CONTEXT = "context"  # the tokens between two turns are not those that the renderer appends
    STOP = "stop"  # it stopped, but its last token is not a stop token
    END_INSIDE = "end_inside"  # a stop token before the last
    MESSAGE = "message"  # the ids decode to another message than the recorded one
    BOUNDARY = "boundary"  # wrong from the start of a turn: another context than the sampler's
    TURN = "turn"  # wrong within some turns: other tokens, another order, or other weights than recorded
    NUMERICS = "numerics"  # wrong everywhere: arithmetic, settings or the wrong model


_SPELLING = {FaultCode.CONTEXT, FaultCode.STOP, FaultCode.END_INSIDE, FaultCode.MESSAGE}
_NUMBERS = {FaultCode.BOUNDARY, FaultCode.TURN, FaultCode.NUMERICS}


class TokenFault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault of one node."""

    code: FaultCode
    node: int
    detail: str

    @property
    def found_by(self) -> FaultClass:
        """The kind of check that finds it."""
        if self.code in _NUMBERS:
            return FaultClass.NUMBERS
        return FaultClass.SPELLING if self.code in _SPELLING else FaultClass.STRUCTURE


def structure_faults(trace: Trace) -> list[TokenFault]:
    """All faults that the trace alone shows; a trace that is trained on has none."""
    if not trace.seats:
        return _trace_faults(trace, range(len(trace.nodes)))
    # Each seat as the single agent that it is trained as: what one may do does not excuse another.
    return [fault for name, seat in trace.seats.items() for fault in _trace_faults(seat_trace(trace, name), seat.nodes)]


def _trace_faults(trace: Trace, places: Sequence[int]) -> list[TokenFault]:
    """The faults of one agent's trace; `places` are its nodes in the stored one."""
    found: list[TokenFault] = []
    for index, node in enumerate(trace.nodes):
        found += (TokenFault(code=code, node=index, detail=detail) for code, detail in _node_faults(node))
    if not any(fault.code is FaultCode.TORN for fault in found):
        found += _tree_faults(trace, places)
    return [msgspec.structs.replace(fault, node=places[fault.node]) for fault in found]


_Faults = Iterator[tuple[FaultCode, str]]


def _node_faults(node: Node) -> _Faults:
    tokens = node.tokens
    if not node.is_turn:
        if tokens is not None and (any(tokens.mask) or tokens.logprobs):
            yield FaultCode.MASK_VALUE, "this node was not sampled, but has log-probabilities or a mask"
        return
    if tokens is None or not tokens.ids:
        yield FaultCode.NO_IDS, "the endpoint gave no token ids; this turn cannot be trained on"
        return
    if len(tokens.ids) % 4 or len(tokens.logprobs) % 4 or len(node.context) % 4:
        yield FaultCode.TORN, "ids or log-probabilities are not a whole number of values"
        return
    if min(unpacked_ids(tokens.ids) + unpacked_ids(node.context)) < 0:
        yield FaultCode.TORN, "a negative id"
    yield from _column_faults(tokens, node.message.agent)
    if node.usage is not None and node.usage.completion_tokens != len(tokens):
        yield FaultCode.COMPLETION_LENGTH, f"{len(tokens)} ids, the endpoint counted {node.usage.completion_tokens}"


def _column_faults(tokens: Tokens, agent: str) -> _Faults:
    num = len(tokens)
    if len(tokens.logprobs) != len(tokens.ids):
        yield FaultCode.LOGPROBS_LENGTH, f"{num} ids, {len(tokens.logprobs) // 4} log-probabilities"
    wrong = [value for value in tokens.logprobs_array().tolist() if not math.isfinite(value) or value > _POSITIVE]
    if wrong:
        yield FaultCode.LOGPROB_VALUE, f"{len(wrong)} of {num}, the first is {wrong[0]}"
    if len(tokens.mask) != num:
        yield FaultCode.MASK_LENGTH, f"{num} ids, {len(tokens.mask)} in the mask"
    elif set(tokens.mask) - {0, 1} or len(set(tokens.mask)) > 1 or (agent == "agent" and not all(tokens.mask)):
        yield FaultCode.MASK_VALUE, f"{sum(value != 1 for value in tokens.mask)} of {num} sampled tokens are masked out"
    counted = sum(count for count, _ in tokens.versions)
    if counted != num or any(count <= 0 for count, _ in tokens.versions):
        yield FaultCode.VERSIONS_SUM, f"{num} ids, {counted} with a weight version"


def _tree_faults(trace: Trace, places: Sequence[int]) -> Iterator[TokenFault]:
    seen: dict[tuple[int | None, bytes, bytes], int] = {}
    for index, node in enumerate(trace.nodes):
        if not node.sampled or node.tokens is None:
            continue
        twin = seen.setdefault((node.parent, node.tokens.ids, node.tokens.logprobs), index)
        if twin != index:
            detail = f"the same tokens as node {places[twin]}, with the same parent"
            yield TokenFault(code=FaultCode.DOUBLED, node=index, detail=detail)
        yield from _path_faults(trace, index, node)
    branches = list(exact_leaves(trace))
    num_explained = sum(event.kind in {"drift", "intervention"} for event in trace.events)
    if len(branches) > 1 + num_explained:
        yield TokenFault(
            code=FaultCode.SILENT_FORK,
            node=branches[0],
            detail=f"{len(branches)} branches have sampled tokens, but only {num_explained} events explain one",
        )


def _path_faults(trace: Trace, index: int, node: Node) -> Iterator[TokenFault]:
    path = [(above.context, above.tokens) for above in trace.path(index) if has_exact_tokens(above)]
    above = [piece for context, tokens in path[:-1] if tokens for piece in (context, tokens.ids)]
    num_above = sum(map(len, above)) // 4
    num_given = num_above + len(node.context) // 4
    if node.usage is not None and node.usage.prompt_tokens != num_given:
        detail = f"the path has {num_given} tokens before it, the endpoint got {node.usage.prompt_tokens}"
        yield TokenFault(code=FaultCode.PROMPT_LENGTH, node=index, detail=detail)
    if 0 < 4 * num_above <= len(node.context) and node.context.startswith(b"".join(above)):
        detail = f"its context begins with all {num_above} tokens above it"
        yield TokenFault(code=FaultCode.HISTORY_AGAIN, node=index, detail=detail)
    versions = [version for _, tokens in path if tokens for _, version in tokens.versions]
    if versions != sorted(versions):
        yield TokenFault(code=FaultCode.VERSION_ORDER, node=index, detail=f"weight versions along its path: {versions}")
