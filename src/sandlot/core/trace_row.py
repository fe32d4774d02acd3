"""The row of a trace: its numbers, which tables, summaries and SQL read without decoding it."""

import msgspec

from sandlot.core.trace import CRASHES, Cancelled, Failed, Scored, Trace


class TraceRow(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a finished trace."""

    task: str
    rollout: int
    split: str
    tags: tuple[str, ...]
    end: str
    outcome: str
    """scored, failed or cancelled."""
    side: str | None
    kind: str | None
    message: str | None
    score: float | None
    points: float | None
    possible: float | None
    passed: bool | None
    turns: int
    calls: int
    tool_errors: int
    prompt_tokens: int
    completion_tokens: int
    usd: float
    seconds: float
    """From opening the world to the end of grading, with failed attempts and waiting."""
    phases: dict[str, float]
    attempts: int
    """Number of attempts: 1 if the first one succeeded."""
    started: float
    crashes: tuple[str, ...] = ()
    """What crashed without deciding the outcome, as `TOOL: SIGNATURE`."""


def row_of(trace: Trace, *, split: str, tags: tuple[str, ...] = ()) -> TraceRow:
    """The row of a finished trace."""
    outcome = trace.outcome
    if outcome is None or trace.end is None:
        raise ValueError(f"trace {trace.task}/{trace.rollout} is not finished")
    failed = outcome if isinstance(outcome, Failed) else None
    score = outcome.score if isinstance(outcome, Scored) else None
    results = [result for node in trace.nodes for result in node.message.results]
    usage = sum((attempt.usage for attempt in trace.attempts), trace.usage)
    return TraceRow(
        task=trace.task,
        rollout=trace.rollout,
        split=split,
        tags=tags,
        end=trace.end.value,
        outcome="scored" if score else "failed" if failed else "cancelled",
        side=failed.side.value if failed else None,
        kind=failed.kind if failed else None,
        message=failed.message if failed else outcome.reason if isinstance(outcome, Cancelled) else None,
        score=score.value if score else None,
        points=score.points if score else None,
        possible=score.possible if score else None,
        passed=score.passed if score else None,
        turns=trace.num_turns,
        calls=sum(len(node.message.calls) for node in trace.turns()),
        tool_errors=sum(result.error for result in results),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        usd=usage.usd,
        seconds=sum(trace.phases.values()) + sum(attempt.seconds for attempt in trace.attempts),
        phases=trace.phases,
        attempts=len(trace.attempts) + 1,
        started=trace.started,
        crashes=tuple(
            sorted({f"{each.detail['tool']}: {each.detail['signature']}" for each in trace.events if each.kind in CRASHES})
        ),
    )
