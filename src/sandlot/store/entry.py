"""A stored rollout: its row, for tables, and its trace.

The trace stays encoded until it is needed: listing a run decodes no traces.
"""

from typing import Any, cast

import msgspec

from sandlot.core.errors import StoreError, boundary
from sandlot.core.text import encodable
from sandlot.core.trace import FORMAT, Trace
from sandlot.core.trace_row import TraceRow

ENTRY_TAG = ord("t")


class LogEntry(msgspec.Struct, frozen=True, array_like=True):
    """One record of the log."""

    row: TraceRow
    trace: bytes
    """Msgpack of the `Trace`."""


_encoder = msgspec.msgpack.Encoder()
_entry_decoder = msgspec.msgpack.Decoder(LogEntry)
_trace_decoder = msgspec.msgpack.Decoder(Trace)


def encode_entry(trace: Trace, row: TraceRow) -> bytes:
    """The log record of a finished trace."""
    if (row.task, row.rollout) != trace.key:
        raise StoreError(f"row {row.task}/{row.rollout} does not belong to trace {trace.task}/{trace.rollout}", kind="mismatch")
    with boundary(StoreError, f"trace {trace.task}/{trace.rollout} cannot be encoded"):
        return encode_escaped(LogEntry(row, encode_trace(trace)))


def encode_trace(trace: Trace) -> bytes:
    """The stored form of a trace."""
    return encode_escaped(trace)


def encode_escaped(value: msgspec.Struct) -> bytes:
    """Encode as msgpack. Lone surrogates, which a policy may produce and UTF-8 cannot hold, become escapes."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_spelled_out(msgspec.to_builtins(value, builtin_types=(bytes,))))


def _spelled_out(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        return {_spelled_out(name): _spelled_out(inner) for name, inner in fields.items()}
    return [_spelled_out(inner) for inner in cast("list[Any]", value)] if isinstance(value, list | tuple) else value


def decode_entry(data: memoryview | bytes, name: str) -> LogEntry:
    """Decode a log record; `name` is for the error."""
    with boundary(StoreError, f"`{name}` has a record that is not a trace"):
        return _entry_decoder.decode(data)


def decode_trace(data: memoryview | bytes, name: str) -> Trace:
    """Decode a stored trace; `name` is for the error."""
    with boundary(StoreError, f"`{name}` cannot be read as a trace"):
        trace = _trace_decoder.decode(data)
    if trace.format != FORMAT:
        raise StoreError(f"`{name}` has format {trace.format}; this version of Sandlot reads format {FORMAT}", kind="format")
    if not trace.is_tree:
        raise StoreError(f"`{name}` is no tree: a message follows a later one")
    return trace
