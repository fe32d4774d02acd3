"""Labels for the result of a rollout, and the rule that decides each.

A label is decided by the *outcome*, by the *end*, or by *review*: a person or the auditor, looking at several traces. The first
two are computed by `label_of`; the last are not, because a single trace cannot show them. The documentation's table is
generated from this one.
"""

from dataclasses import dataclass
from enum import StrEnum

from sandlot.core.errors import ConfigError
from sandlot.core.trace import Failed, Scored, Trace
from sandlot.core.trace_row import TraceRow
from sandlot.core.types import End, Side

VERSION = 2
"""Version of the list below, stored with every label of a person, so that old labels keep their meaning."""

_BUDGETS = frozenset({End.TURN_LIMIT, End.TOKEN_LIMIT, End.TIME_LIMIT, End.MEMORY_LIMIT})


class DecidedBy(StrEnum):
    """What decides a label."""

    OUTCOME = "outcome"
    END = "end"
    REVIEW = "review"


@dataclass(frozen=True, slots=True)
class Label:
    """One label."""

    name: str
    decided_by: DecidedBy
    what: str
    """The rule in words."""
    blames_environment: bool = False
    """True if it counts towards the environment's failure rate. A failed model endpoint never does: it has its own limit."""
    kinds: frozenset[tuple[Side, str]] = frozenset()
    """The failures with this label, by side and kind."""


def _kinds(side: Side, *kinds: str) -> frozenset[tuple[Side, str]]:
    return frozenset((side, kind) for kind in kinds)


_GRADER_CRASHES = _kinds(
    Side.GRADER, "bad_value", "canary", "changed", "config", "crash", "no_evidence", "no_function", "no_judge", "no_score"
)
_MODEL_FAILURES = _kinds(
    Side.MODEL,
    "auth",
    "bad_request",
    "calls",
    "closed",
    "connect",
    "context",
    "crash",
    "empty",
    "engine",
    "malformed",
    "not_found",
    "rate_limit",
    "refusal",
    "replay_over",
    "request",
    "server",
    "spend",
    "timeout",
    "tokens",
    "unsupported",
)
_SANDBOX_FAILURES = _kinds(
    Side.SANDBOX, "closed", "config", "crash", "died", "engine", "gone", "memory", "protocol", "start", "timeout"
)
_HARNESS_FAILURES = _kinds(Side.HARNESS, "agent", "crash", "died", "over", "timeout")

LABELS = (
    Label("ok", DecidedBy.OUTCOME, "scored, full marks, whatever the end"),
    Label(
        "model_wrong", DecidedBy.END, "scored below full marks; the agent said it was done, or broke a rule that ends the rollout"
    ),
    Label("model_refused", DecidedBy.END, "scored below full marks; the agent refused"),
    Label("model_format", DecidedBy.END, "scored below full marks; the last turn's tool calls could not be read"),
    Label("budget_exhausted", DecidedBy.END, "scored below full marks; turns, tokens, time or memory ran out"),
    Label(
        "env_crash",
        DecidedBy.OUTCOME,
        "failed on the environment's side: setup, the user or the state raised, or its configuration is wrong",
        blames_environment=True,
        kinds=_kinds(Side.ENVIRONMENT, "config", "crash", "locked", "not running"),
    ),
    Label(
        "env_timeout",
        DecidedBy.OUTCOME,
        "failed on the environment's side: it overran its deadline",
        blames_environment=True,
        kinds=_kinds(Side.ENVIRONMENT, "timeout"),
    ),
    Label(
        "tool_error",
        DecidedBy.OUTCOME,
        "failed on the environment's side while a tool call waited for its result, or a tool server broke",
        blames_environment=True,
        kinds=_kinds(Side.ENVIRONMENT, "conflict", "server"),
    ),
    Label(
        "stale_observation",
        DecidedBy.REVIEW,
        "a tool showed what was true before the agent's last change",
        blames_environment=True,
    ),
    Label("reset_leak", DecidedBy.REVIEW, "the world began with something another rollout left", blames_environment=True),
    Label(
        "grader_crash",
        DecidedBy.OUTCOME,
        "failed on the grader's side: a check or judge raised, or gave no usable value",
        blames_environment=True,
        kinds=_GRADER_CRASHES,
    ),
    Label(
        "grader_timeout",
        DecidedBy.OUTCOME,
        "failed on the grader's side: grading overran its deadline",
        blames_environment=True,
        kinds=_kinds(Side.GRADER, "timeout"),
    ),
    Label("grader_flaky", DecidedBy.REVIEW, "grading the same evidence again gave another score", blames_environment=True),
    Label(
        "judge_unparseable",
        DecidedBy.OUTCOME,
        "failed on the grader's side: a judge's verdict was none of the choices",
        blames_environment=True,
        kinds=_kinds(Side.GRADER, "unparsable"),
    ),
    Label(
        "infra",
        DecidedBy.OUTCOME,
        "failed on the side of sandbox, harness or model endpoint: network, memory, image, rate limit",
        blames_environment=True,
        kinds=_SANDBOX_FAILURES | _HARNESS_FAILURES | _MODEL_FAILURES,
    ),
    Label("spec_ambiguous", DecidedBy.REVIEW, "the prompt allows an answer that the rubric does not"),
    Label("hack_suspected", DecidedBy.REVIEW, "the score was reached without doing the task"),
    Label("contaminated", DecidedBy.REVIEW, "the agent knew or found the key"),
)

_BY_FAILURE = {failure: label.name for label in LABELS for failure in label.kinds}
_BY_SIDE = {
    Side.ENVIRONMENT: "env_crash",
    Side.SANDBOX: "infra",
    Side.MODEL: "infra",
    Side.GRADER: "grader_crash",
    Side.HARNESS: "infra",
}
"""For kinds that are not in the table: a plug-in may raise its own."""


def label_named(name: str) -> Label:
    """The label with this name; `ConfigError` with the list if there is none."""
    for label in LABELS:
        if label.name == name:
            return label
    raise ConfigError(f"no label `{name}`; there are: {', '.join(label.name for label in LABELS)}")


def label_of(trace: Trace) -> str | None:
    """The label of a finished trace; None if an operator cancelled it."""
    outcome = trace.outcome
    if isinstance(outcome, Scored):
        return label_of_scored(passed=outcome.score.passed, end=trace.end, unreadable=_ends_unreadable(trace))
    if isinstance(outcome, Failed):
        if outcome.side is Side.ENVIRONMENT and _waits_for_tool(trace):
            return "tool_error"
        return label_of_failure(outcome.side, outcome.kind)
    if outcome is None:
        raise ValueError(f"trace {trace.task}/{trace.rollout} is not finished")
    return None


def label_of_row(row: TraceRow) -> str | None:
    """The label as far as a row shows it: `model_format` and crashed tools need the trace."""
    if row.outcome == "scored":
        return label_of_scored(passed=row.passed is True, end=End(row.end))
    if row.side is not None:
        return label_of_failure(Side(row.side), row.kind or "")
    return None


def label_of_failure(side: Side, kind: str) -> str:
    """The label of a failure; for a kind that is not in the table, the default of its side."""
    return _BY_FAILURE.get((side, kind), _BY_SIDE[side])


def label_of_scored(*, passed: bool, end: End | None, unreadable: bool = False) -> str:
    """The label of a rollout with a score; `unreadable` if none of its last tool calls could be parsed."""
    if passed:
        return "ok"
    if end is End.REFUSED:
        return "model_refused"
    if unreadable:
        return "model_format"
    return "budget_exhausted" if end in _BUDGETS else "model_wrong"


def _ends_unreadable(trace: Trace) -> bool:
    """True if the last turn has tool calls and none could be parsed."""
    last = next((node for node in reversed(trace.nodes) if node.is_turn), None)
    calls = last.message.calls if last else ()
    return bool(calls) and all(call.malformed is not None for call in calls)


def _waits_for_tool(trace: Trace) -> bool:
    """True if the last message is a tool call without a result."""
    return bool(trace.nodes) and bool(trace.nodes[-1].message.calls)
