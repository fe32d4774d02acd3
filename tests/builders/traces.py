"""Traces and rows for tests of keeping: small, finished, and different from each other."""

from sandlot.core.rubric import CheckResult, CheckVerdict, RubricScore
from sandlot.core.trace import Cancelled, EvidenceRecord, Failed, FileRecord, Node, Scored, Trace, TraceRow, row_of, text_message
from sandlot.core.types import End, Role, Side


def make_trace(task: str = "sum-1", rollout: int = 0, *, text: str = "4", blob: str | None = None, outcome=None) -> Trace:
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


def make_row(trace: Trace) -> TraceRow:
    return row_of(trace, split="train", tags=("easy", "sum"))


def failed() -> Failed:
    return Failed(Side.SANDBOX, "timeout", "took longer than 60 s")


def cancelled() -> Cancelled:
    return Cancelled("Ctrl-C")
