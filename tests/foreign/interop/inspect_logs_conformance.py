"""Logs that Inspect itself wrote, read without it: `make test-interop KIND=inspect_ai`."""

import math
from pathlib import Path

import inspect_samples as evals
import pytest
from inspect_ai import eval as run_eval
from inspect_ai.log import read_eval_log
from inspect_ai.model import get_model
from inspect_ai.scorer import value_to_float
from inspect_samples import call, say

from sandlot.core.errors import ConfigError
from sandlot.core.trace import Failed
from sandlot.interop.logged_runs import import_run

TOOLS = [call("add", x=1, y=1), say("2"), call("add", x=-1, y=5), call("add", z=1), say("none"), *[call("add", x=1, y=1)] * 20]
EVALS = {
    "plain": (evals.plain, [say("2"), say("4"), say("7")] * 2, {"epochs": 2}),
    "two_scorers": (evals.two_scorers, [say("2")] * 3, {}),
    "missing": (evals.missing, [say("2")] * 3, {}),
    "scorer_breaks": (evals.scorer_breaks, [say("2")] * 3, {}),
    "solver_breaks": (evals.solver_breaks, [say("2"), say("6")], {}),
    "model_breaks": (evals.plain, [say("2")], {}),
    "tools": (evals.tools, TOOLS, {"max_samples": 1}),
    "token_limit": (evals.tools, [call("add", x=1, y=1)] * 60, {"token_limit": 40}),
    "image": (evals.image, [say("black")], {}),
}


def log_of(name, folder, kind="eval"):
    task, outputs, options = EVALS[name]
    model = get_model("mockllm/model", custom_outputs=list(outputs), memoize=False)
    settings = {"log_dir": str(folder), "log_format": kind, "display": "none", "fail_on_error": False, **options}
    (log,) = run_eval(task(), model=model, **settings)
    return Path(log.location.removeprefix("file://"))


@pytest.mark.parametrize("kind", ["eval", "json"])
@pytest.mark.parametrize("name", EVALS)
def test_every_sample_is_a_rollout_with_the_same_score_and_messages(name, kind, tmp_path):
    path = log_of(name, tmp_path / "logs", kind)
    theirs = read_eval_log(str(path), resolve_attachments=True)
    run = import_run("inspect-log", str(path), tmp_path / "run")
    assert (len(run), run.verdict) == (len(theirs.samples), "complete")
    to_float = value_to_float()
    for sample in theirs.samples:
        trace = next(
            each for each in run if (each.evidence.state["metadata"], each.rollout) == (sample.metadata, sample.epoch - 1)
        )
        assert [message.text for message in sample.messages if message.role != "tool"] == [
            node.message.text for node in trace.nodes if node.message.role != "tool"
        ]
        results = [result for node in trace.nodes for result in node.message.results]
        told = [message for message in sample.messages if message.role == "tool"]
        assert [result.error for result in results] == [message.error is not None for message in told]
        assert trace.answer == sample.messages[-1].text or sample.messages[-1].role != "assistant"
        if sample.error is not None:
            assert isinstance(trace.outcome, Failed)
            continue
        values = [
            each
            for score in sample.scores.values()
            for each in (score.value.values() if isinstance(score.value, dict) else [score.value])
        ]
        numbers = [to_float(value) for value in values]
        if any(math.isnan(number) for number in numbers):
            assert trace.outcome.kind == "no_score"
        else:
            assert trace.reward == pytest.approx(sum(numbers) / len(numbers))


def test_errors_blame_the_side_that_broke(tmp_path):
    sides = {}
    for name in ("scorer_breaks", "solver_breaks", "model_breaks"):
        run = import_run("inspect-log", str(log_of(name, tmp_path / name)), tmp_path / f"{name}-run")
        sides[name] = sorted({str(row.side) for row in run.rows if row.outcome == "failed"})
        assert {row.score for row in run.rows if row.outcome == "failed"} == {None}
    assert sides == {"scorer_breaks": ["grader"], "solver_breaks": ["environment"], "model_breaks": ["model"]}


def test_a_limit_is_an_end_and_the_sample_is_scored(tmp_path):
    ends = {}
    for name in ("tools", "token_limit"):
        run = import_run("inspect-log", str(log_of(name, tmp_path / name)), tmp_path / f"{name}-run")
        ends[name] = [(row.end, row.score) for row in run.rows]
    assert ends["tools"][-1] == ("turn_limit", 0.0)
    assert set(ends["token_limit"]) == {("token_limit", 0.0)}


def test_an_image_is_in_the_run(tmp_path):
    run = import_run("inspect-log", str(log_of("image", tmp_path)), tmp_path / "run")
    (trace,) = run
    part = trace.nodes[1].message.parts[1]
    assert run.reader.blobs.read(part.artifact) == evals.png()


def test_values_on_another_scale_are_refused(tmp_path):
    model = get_model("mockllm/model", custom_outputs=[say("2"), say("four"), say("seven of them")], memoize=False)
    (log,) = run_eval(evals.lengths(), model=model, log_dir=str(tmp_path), display="none")
    path = log.location.removeprefix("file://")
    with pytest.raises(ConfigError, match="is no share of full marks"):
        import_run("inspect-log", path, tmp_path / "run")
    run = import_run("inspect-log", f"{path}?score=0..20", tmp_path / "run")
    assert sorted(row.score for row in run.rows) == pytest.approx([0.05, 0.2, 0.65])
