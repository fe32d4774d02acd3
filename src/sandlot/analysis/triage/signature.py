"""The signature of a failure: rollouts with the same label, cause and last tool failed in the same way.

The cause of a failure is its side, its kind and its message without parts that change from one time to the next. The cause of
lost points is the few checks that lost most: with all checks of a large rubric, every rollout would have its own signature.
"""

import re

import msgspec

from sandlot.analysis.taxonomy import label_of
from sandlot.core.rubric import CheckVerdict, RubricScore
from sandlot.core.text import one_line, printable
from sandlot.core.trace import Failed, Scored, Trace

_READ_CHARS = 4000
"""Maximum characters of a message."""
_CAUSE_CHARS = 200
_MOST_CHECKS = 3
NONE = "(none)"

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CHANGING = (
    (re.compile(r"\bsandlot_env_[0-9a-f]{12}\."), ""),  # the private package of an author's files
    (re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F-]{22}\b"), "<id>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<hex>"),
    (re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{8,}\b"), "<hex>"),
    (re.compile(r"/tmp/[^\s'\"`:]+"), "/tmp/<path>"),  # noqa: S108 - in messages, where it differs between rollouts
    (re.compile(r"\d+"), "#"),
    (re.compile(r"\s+"), " "),
)


class FailureSignature(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """What rollouts that failed in the same way have in common."""

    label: str
    kind: str
    """`side/kind` of a failure; the end of a scored rollout."""
    cause: str
    """The normalised message, or the checks that lost the most points."""
    last_tool: str
    """The tool called last."""


def signature_of(trace: Trace) -> FailureSignature | None:
    """The signature of a trace; None for full marks and for cancelled rollouts."""
    outcome = trace.outcome
    label = label_of(trace)
    if label is None or label == "ok":
        return None
    if isinstance(outcome, Failed):
        kind, cause = f"{outcome.side}/{one_line(outcome.kind, _CAUSE_CHARS)}", normalised(outcome.message, task=trace.task)
    else:
        assert isinstance(outcome, Scored)
        kind, cause = str(trace.end), lost_points(outcome.score)
    return FailureSignature(label=label, kind=kind, cause=cause, last_tool=_last_tool(trace))


def normalised(message: str, *, task: str = "") -> str:
    """A message without numbers, addresses, temporary paths and the name of the task."""
    text = printable(_COLOURS.sub("", message[:_READ_CHARS]))
    if task:
        text = re.sub(rf"(?<![\w.-]){re.escape(task)}(?![\w-])", "TASK", text)
    for pattern, instead in _CHANGING:
        text = pattern.sub(instead, text)
    return text.strip()[:_CAUSE_CHARS]


def lost_points(score: RubricScore) -> str:
    """The checks that lost the most points, or the gate that was not met."""
    if score.gate is not None:
        return f"gate `{one_line(score.gate, _CAUSE_CHARS)}` not met"
    missed = [
        (max(check.worth, 0.0) - check.points, check.id)
        for check in score.checks
        if check.verdict is not CheckVerdict.SUPPRESSED and check.points < max(check.worth, 0.0)
    ]
    if not missed:
        return "points lost to penalties"
    costly = {check.id for check in score.checks if check.worth < 0}
    missed.sort(key=lambda pair: (-pair[0], pair[1]))
    most = [name for _, name in missed[:_MOST_CHECKS]]
    more = " and more" if len(missed) > _MOST_CHECKS else ""
    said = [
        f"{', '.join(f'`{one_line(name, _CAUSE_CHARS)}`' for name in names)}{verb}"
        for names, verb in (
            ([name for name in most if name not in costly], " not met"),
            ([name for name in most if name in costly], " cost points"),
        )
        if names
    ]
    return "; ".join(said) + more


def _last_tool(trace: Trace) -> str:
    """The name of the tool called last."""
    for node in reversed(trace.nodes):
        if node.is_turn and node.message.calls:
            return one_line(node.message.calls[-1].name, _CAUSE_CHARS) or NONE
    return NONE
