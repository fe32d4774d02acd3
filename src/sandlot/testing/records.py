"""Records of rollouts that never happened: a trace as a run stores it, and evidence over literal files, for checks."""

from collections.abc import Mapping, Sequence
from typing import Any

from sandlot.core.rubric import CheckResult, CheckVerdict, RubricScore
from sandlot.core.trace import (
    EvidenceRecord,
    FileRecord,
    Message,
    Node,
    Outcome,
    Scored,
    Text,
    ToolCall,
    Trace,
    text_message,
)
from sandlot.core.types import End, Role, digest
from sandlot.grade.evidence import StoredEvidence


def make_evidence(
    files: Mapping[str, bytes] | None = None,
    *,
    calls: Sequence[ToolCall] = (),
    state_type: Any = None,
    **record: Any,
) -> StoredEvidence:
    """Evidence with these files, for a check; `calls` are tool calls of its one turn. `record` are fields such as `answer`."""
    kept = {digest(data): data for data in (files or {}).values()}
    records = {path: FileRecord(size=len(data), blob=digest(data)) for path, data in (files or {}).items()}
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    parts = (Text(record.get("answer", "")), *calls)
    trace.append(Node(message=Message(role=Role.ASSISTANT, parts=parts), sampled=True))
    fields: dict[str, Any] = {"files": records, **record}
    return StoredEvidence(EvidenceRecord(**fields), trace, kept, state_type)


def make_trace(
    task: str = "sum-1", rollout: int = 0, *, text: str = "4", blob: str | None = None, outcome: Outcome | None = None
) -> Trace:
    """A finished trace of one question and one answer; `blob` is the digest of a file that it left."""
    check = CheckResult(id="right", verdict=CheckVerdict.MET, value=1.0, points=1.0, worth=1.0, evidence="4 is 4")
    trace = Trace(run="r", task=task, rollout=rollout, seed=7, started=1000.0 + rollout)
    trace.append(Node(message=text_message(Role.USER, "What is 2+2?")))
    trace.append(Node(message=text_message(Role.ASSISTANT, text), parent=0, sampled=True, seconds=0.5))
    trace.end = End.DONE
    trace.outcome = outcome or Scored(RubricScore(points=1, possible=1, value=1.0, checks=(check,)))
    trace.phases = {"model": 0.5, "grade": 0.125}
    files = {"/out/answer.txt": FileRecord(size=1, blob=blob)} if blob else {}
    trace.evidence = EvidenceRecord(answer=text, state={"n": rollout}, files=files)
    return trace
