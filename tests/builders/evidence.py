"""Evidence of a rollout that never happened, over literal files."""

from collections.abc import Mapping

from sandlot.core.trace import EvidenceRecord, FileRecord, Message, Node, Text, ToolCall, Trace
from sandlot.core.types import Role, digest
from sandlot.grade.evidence import StoredEvidence


def make_evidence(files: Mapping[str, bytes] | None = None, **record) -> StoredEvidence:
    """Evidence over literal files; `calls` are tool calls of one turn, the rest are fields of the record."""
    calls = record.pop("calls", ())
    state_type = record.pop("state_type", None)
    kept = {digest(data): data for data in (files or {}).values()}
    records = {path: FileRecord(size=len(data), blob=digest(data)) for path, data in (files or {}).items()}
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    parts = (Text(record.get("answer", "")), *calls)
    trace.append(Node(message=Message(role=Role.ASSISTANT, parts=parts), sampled=True))
    return StoredEvidence(EvidenceRecord(**{"files": records} | record), trace, kept, state_type)


def tool_call(tool: str, **arguments) -> ToolCall:
    return ToolCall(id="1", name=tool, arguments=arguments)
