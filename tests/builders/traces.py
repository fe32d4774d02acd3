"""Traces and rows for tests of keeping: small, finished, and different from each other."""

from sandlot.core.trace import Cancelled, Failed, Trace
from sandlot.core.trace_row import TraceRow, row_of
from sandlot.core.types import Side
from sandlot.testing.records import make_trace

__all__ = ["cancelled", "failed", "make_row", "make_trace"]


def make_row(trace: Trace) -> TraceRow:
    return row_of(trace, split="train", tags=("easy", "sum"))


def failed() -> Failed:
    return Failed(Side.SANDBOX, "timeout", "took longer than 60 s")


def cancelled() -> Cancelled:
    return Cancelled("Ctrl-C")
