import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import rows
from sandlot.analysis import taxonomy
from sandlot.analysis.taxonomy import LABELS, DecidedBy, label_of, label_of_failure, label_of_row
from sandlot.core import errors
from sandlot.core.rubric import RubricScore
from sandlot.core.syntax import parse_python
from sandlot.core.trace import Cancelled, Failed, Message, Node, Scored, Text, ToolCall, ToolResult, Trace
from sandlot.core.types import End, Role, Side

FACTS = [
    "ok",
    "model_wrong",
    "model_refused",
    "model_format",
    "budget_exhausted",
    "env_crash",
    "env_timeout",
    "tool_error",
    "stale_observation",
    "reset_leak",
    "grader_crash",
    "grader_timeout",
    "grader_flaky",
    "judge_unparseable",
    "infra",
    "spec_ambiguous",
    "hack_suspected",
    "contaminated",
]
SOURCE = Path(taxonomy.__file__).parents[1]


def agent(*parts) -> Node:
    return Node(message=Message(role=Role.ASSISTANT, parts=parts), sampled=True)


def trace_of(outcome, end=End.DONE, nodes=()) -> Trace:
    return Trace(run="r", task="t", rollout=0, seed=0, outcome=outcome, end=end, nodes=list(nodes))


def graded(value: float) -> Scored:
    return Scored(RubricScore(points=value, possible=1, value=value))


def test_every_label_of_the_facts_is_there_once():
    assert [label.name for label in LABELS] == FACTS


def test_every_failure_has_one_label():
    counts = Counter(failure for label in LABELS for failure in label.kinds)
    assert set(counts.values()) == {1}


def test_review_labels_are_never_computed():
    computed = {label_of_failure(side, kind) for side, kind in taxonomy._BY_FAILURE} | set(taxonomy._BY_SIDE.values())
    assert not computed & {label.name for label in LABELS if label.decided_by is DecidedBy.REVIEW}


@pytest.mark.parametrize(
    ("end", "value", "label"),
    [
        (End.DONE, 1.0, "ok"),
        (End.TURN_LIMIT, 1.0, "ok"),
        (End.REFUSED, 1.0, "ok"),
        (End.DONE, 0.9, "model_wrong"),
        (End.BREACH, 0.0, "model_wrong"),
        (End.REFUSED, 0.0, "model_refused"),
        (End.TURN_LIMIT, 0.0, "budget_exhausted"),
        (End.TOKEN_LIMIT, 0.5, "budget_exhausted"),
        (End.TIME_LIMIT, 0.0, "budget_exhausted"),
    ],
)
def test_a_scored_rollout_is_labelled_by_its_score_and_its_end(end, value, label):
    assert label_of(trace_of(graded(value), end)) == label
    assert label_of_row(rows.scored(score=value, end=end.value)) == label


@pytest.mark.parametrize(
    ("side", "kind", "label"),
    [
        (Side.ENVIRONMENT, "crash", "env_crash"),
        (Side.ENVIRONMENT, "timeout", "env_timeout"),
        (Side.ENVIRONMENT, "server", "tool_error"),
        (Side.GRADER, "timeout", "grader_timeout"),
        (Side.GRADER, "unparsable", "judge_unparseable"),
        (Side.GRADER, "bad_value", "grader_crash"),
        (Side.SANDBOX, "timeout", "infra"),
        (Side.MODEL, "rate_limit", "infra"),
        (Side.HARNESS, "crash", "infra"),
        (Side.GRADER, "a plug-in's own word", "grader_crash"),
    ],
)
def test_a_failure_is_labelled_by_its_side_and_kind(side, kind, label):
    assert label_of(trace_of(Failed(side, kind), End.CUT)) == label
    assert label_of_row(rows.failed(side=side.value, kind=kind)) == label


def test_calls_that_could_not_be_read_in_the_last_turn_are_a_matter_of_format():
    bad, good = ToolCall("1", "query", malformed="{not json"), ToolCall("2", "query")
    assert label_of(trace_of(graded(0.0), nodes=[agent(bad)])) == "model_format"
    assert label_of(trace_of(graded(0.0), nodes=[agent(bad, good)])) == "model_wrong"
    assert label_of(trace_of(graded(0.0), nodes=[agent(bad), agent(Text("done"))])) == "model_wrong"
    assert label_of(trace_of(graded(1.0), nodes=[agent(bad)])) == "ok"


def test_an_environment_that_breaks_while_a_call_waits_is_a_tool_error():
    call = agent(ToolCall("1", "query"))
    answer = Node(message=Message(role=Role.TOOL, parts=(ToolResult("1", "42"),)))
    assert label_of(trace_of(Failed(Side.ENVIRONMENT, "crash"), End.CUT, [call])) == "tool_error"
    assert label_of(trace_of(Failed(Side.ENVIRONMENT, "crash"), End.CUT, [call, answer])) == "env_crash"
    assert label_of(trace_of(Failed(Side.MODEL, "server"), End.CUT, [call])) == "infra"


def test_a_cancelled_rollout_has_no_label():
    assert label_of(trace_of(Cancelled(), End.CUT)) is None
    assert label_of_row(rows.cancelled()) is None


def test_an_unfinished_trace_is_refused():
    with pytest.raises(ValueError, match="t/0 is not finished"):
        label_of(trace_of(None, None))


@given(st.sampled_from(Side), st.text(max_size=20), st.sampled_from(End))
def test_whatever_fails_gets_a_word_from_the_list_and_never_a_models_word(side, kind, end):
    label = label_of(trace_of(Failed(side, kind), end))
    assert label in FACTS
    assert label != "ok"
    assert not label.startswith("model_")


def nodes_at(lines: set[int], tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that contain one of these lines; all others are not even looked at."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.stmt) or any(node.lineno <= line <= (node.end_lineno or 0) for line in lines):
            yield node
            yield from nodes_at(lines, node)


def kinds_raised() -> set[tuple[Side, str]]:
    """Every (side, kind) that the source writes down in an error's constructor; without a kind it is `crash`."""
    sides = {name: each.side for name, each in vars(errors).items() if isinstance(each, type) and getattr(each, "side", None)}
    found: set[tuple[Side, str]] = set()
    calls = re.compile(rf"\b({'|'.join(sides)})\(")
    for path in SOURCE.rglob("*.py"):
        if path.is_relative_to(SOURCE / "testing"):  # its fakes raise words of their own, as a plug-in may
            continue
        text = path.read_text()
        lines = {text.count("\n", 0, match.start()) + 1 for match in calls.finditer(text)}
        for node in nodes_at(lines, parse_python(text)) if lines else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in sides:
                kinds = [word.value for word in node.keywords if word.arg == "kind"]
                written = kinds[0] if kinds else ast.Constant("crash")
                if isinstance(written, ast.Constant) and isinstance(written.value, str):
                    found.add((sides[node.func.id], written.value))
    return found


def test_every_kind_the_source_raises_stands_in_the_table():
    missing = sorted(kinds_raised() - set(taxonomy._BY_FAILURE))
    assert not missing, f"give these a label in run/taxonomy.py: {missing}"


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("kind", ["crash", "timeout"])
def test_what_boundary_and_deadline_raise_stands_in_the_table(side, kind):
    assert (side, kind) in taxonomy._BY_FAILURE
