"""BFCL's own checker and ours on the same calls: `make test-interop KIND=bfcl`."""

from types import SimpleNamespace

import pytest
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker, multi_turn_irrelevance_checker

import sandlot
from sandlot.core.errors import ConfigError
from sandlot.env.importing import import_environment
from sandlot.interop.packages.bfcl_world import call_text, is_valid


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bfcl") / "all"
    report = import_environment("bfcl", "all", folder)
    assert (len(report.tasks), report.left_out) == (600, ())
    return sandlot.load(folder)


def test_verdicts_are_equal_on_the_expected_calls_and_without_the_last_one(env):
    for number, task in enumerate(sandlot.tasks_of(env)[::12]):
        whole = [[[call_text(call["name"], call["arguments"])] for call in turn] for turn in task.key["calls"]]
        less = [*whole[:-1], whole[-1][:-1]]
        for turns in (whole, less):
            model = f"theirs{number}{len(turns[-1])}"
            theirs = multi_turn_checker(turns, task.key["ground_truth"], task.data["entry"], "", model)["valid"]
            theirs = theirs and multi_turn_irrelevance_checker(turns, task.key["ground_truth"])["valid"]
            entry = {**task.data["entry"], "id": f"{model}_{task.id}"}  # BFCL keeps its APIs by this name in the process
            ours, _ = is_valid(SimpleNamespace(state={"turns": turns}), SimpleNamespace(data={"entry": entry}, key=task.key))
            if "long_context" not in task.id:  # the name says which scenario is loaded
                assert ours == theirs, task.id
        assert is_valid(SimpleNamespace(state={"turns": whole[:1]}), task)[0] == (len(whole) == 1)


def test_golden_solutions_are_valid_and_doing_nothing_is_not(env, tmp_path):
    picked = [task.id for task in sandlot.tasks_of(env)[::30]]
    for model, score in (("scripted:golden", 1.0), ("scripted:noop", 0.0)):
        run = sandlot.run(env, model, runs=tmp_path / "runs", tasks=picked)
        assert run.summary().score.value == score


def test_an_argument_is_never_code():
    assert call_text("cat", {"file_name": "') or __import__('os').system('x"}) == (
        """cat(file_name="') or __import__('os').system('x")"""
    )
    assert call_text("cat", {"a=1) or exit(": 1}) == "cat()"


def test_unknown_kinds_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="base, long_context"):
        import_environment("bfcl", "miss_func", tmp_path / "x")
