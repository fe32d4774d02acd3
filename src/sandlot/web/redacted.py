"""A run as it may be given to others: every trace and file is redacted when it is read, before anything is cut or drawn."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from sandlot.core.redaction import RedactionRules
from sandlot.core.trace import Node, Trace
from sandlot.core.trace_row import TraceRow
from sandlot.run.results import Run, Sitting
from sandlot.store.blobs import KeptBlobs
from sandlot.store.columns import Table
from sandlot.store.layout import blob_folder
from sandlot.store.reader import RunReader
from sandlot.web.artifacts import artifact_of

_MESSAGE = "message"
"""The column with what failed rollouts say."""


class RedactedRun(Run):
    """A run whose reader redacts what it reads."""

    def __init__(self, path: Path, rules: RedactionRules) -> None:
        super().__init__(path)
        self._rules = rules

    @cached_property
    def reader(self) -> RunReader:
        """The store, opened for reading as it is now."""
        return _RedactedReader(self.path, self._rules)

    @property
    def sittings(self) -> list[Sitting]:
        """The sittings, redacted."""
        return self._rules.redact_all(super().sittings)


class _RedactedReader(RunReader):
    def __init__(self, path: Path, rules: RedactionRules) -> None:
        super().__init__(path)
        self._rules = rules
        self._last: Trace | None = None

    @cached_property
    def blobs(self) -> KeptBlobs:
        """The stored bytes; text is redacted."""
        return _RedactedBlobs(blob_folder(self.path), self._rules)

    def trace(self, task: str, rollout: int) -> Trace:
        """The trace of one rollout, redacted. The last one is kept: its page reads it for every message."""
        if self._last is None or self._last.key != (task, rollout):
            self._last = redacted_trace(super().trace(task, rollout), self._rules)
        return self._last

    def traces_of(self, keys: Iterable[tuple[str, int]]) -> Iterator[Trace]:
        """The traces of these rollouts, redacted."""
        return (redacted_trace(trace, self._rules) for trace in super().traces_of(keys))

    def table(self, columns: Sequence[str] | None = None) -> Table:
        """All rows as a table; what failed rollouts say is redacted."""
        table = super().table(columns)
        if _MESSAGE not in table.column_names:
            return table
        messages = [self._rules.redact(each) if each else each for each in table.column(_MESSAGE).to_pylist()]
        return table.set_column(table.column_names.index(_MESSAGE), _MESSAGE, [messages])

    def task_rows(self, task: str) -> list[TraceRow]:
        """The rows of one task, redacted."""
        return [msgspec.structs.replace(row, message=self._rules.redact_all(row.message)) for row in super().task_rows(task)]


class _RedactedBlobs(KeptBlobs):
    def __init__(self, folder: Path, rules: RedactionRules) -> None:
        super().__init__(folder)
        self._rules = rules

    def read(self, digest: str) -> bytes:
        """Bytes by digest; text is redacted. Images and other bytes are as they are."""
        data = super().read(digest)
        return self._rules.redact(data.decode()).encode() if artifact_of(data).kind in {"text", "svg"} else data


def redacted_trace(trace: Trace, rules: RedactionRules) -> Trace:
    """A trace without what the rules name. A message that changes loses its tokens: they spell what was removed."""
    clean = rules.redact_all(msgspec.structs.replace(trace, nodes=[], task="", run=""))  # the names stay: pages are found by them
    nodes = [_redacted_node(node, rules) for node in trace.nodes]
    return msgspec.structs.replace(clean, nodes=nodes, task=trace.task, run=trace.run)


def _redacted_node(node: Node, rules: RedactionRules) -> Node:
    message = rules.redact_all(node.message)
    kept = node.tokens if message == node.message else None
    return msgspec.structs.replace(node, message=message, tokens=kept, context=b"")
