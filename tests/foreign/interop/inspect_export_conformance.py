"""Our environments, run by Inspect's own runner: `make test-interop KIND=inspect_ai`."""

from pathlib import Path

import pytest
from inspect_ai import eval as run_eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from sandlot.interop.exporting import export_environment

ENVIRONMENTS = Path(__file__).parents[3] / "environments"
LIMIT = 6


def silent(messages, tools, tool_choice, config):
    """A model of Inspect that says nothing."""
    output = ModelOutput.from_content("mockllm/model", "")
    output.usage = ModelUsage()
    return output


@pytest.mark.parametrize("name", ["arithmetic", "helpdesk", "ledger"])
def test_golden_gets_full_marks_and_silence_gets_none(name, tmp_path):
    written = export_environment("inspect", ENVIRONMENTS / name, tmp_path / "task")
    assert len(written.tasks) >= LIMIT
    settings = {"log_dir": str(tmp_path / "logs"), "display": "none", "limit": LIMIT, "max_samples": 2}
    file = f"{tmp_path}/task/task.py@{name}"
    mock = get_model("mockllm/model", custom_outputs=silent, memoize=False)
    (golden,) = run_eval(file, model=mock, task_args={"player": "scripted:golden"}, **settings)
    (noop,) = run_eval(file, model=mock, **settings)
    for log, value in ((golden, 1.0), (noop, 0.0)):
        assert log.status == "success", log.error
        assert [sample.error for sample in log.samples] == [None] * LIMIT
        assert [sample.scores["sandlot_score"].value for sample in log.samples] == [value] * LIMIT


def test_a_rollout_that_fails_is_an_error_of_the_sample(tmp_path):
    home = tmp_path / "broken"
    home.mkdir()
    (home / "environment.py").write_text(
        "from sandlot import Environment, Task\n\nenv = Environment('broken')\n\n\n"
        "@env.tasks\ndef tasks(rng):\n    yield Task('one', prompt='x')\n\n\n"
        "@env.check(points=1)\ndef breaks(evidence, task):\n    raise ValueError('the check broke')\n"
    )
    export_environment("inspect", home, tmp_path / "task")
    mock = get_model("mockllm/model", custom_outputs=silent, memoize=False)
    (log,) = run_eval(
        f"{tmp_path}/task/task.py@broken", model=mock, log_dir=str(tmp_path / "logs"), display="none", fail_on_error=False
    )
    (sample,) = log.samples
    assert "the check broke" in sample.error.message
    assert not sample.scores
