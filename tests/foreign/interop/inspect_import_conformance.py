"""The same conduct in Inspect and here gets the same scores: `make test-interop KIND=inspect_ai`."""

import json
from pathlib import Path

import pytest
from inspect_ai import eval as run_eval
from inspect_ai._eval.loader import load_tasks
from inspect_ai.model import ChatMessageAssistant, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import value_to_float
from inspect_ai.tool import ToolCall

import sandlot
from sandlot.core.errors import ConfigError
from sandlot.env.importing import import_environment

HERE = Path(__file__).parent
POPULARITY = f"{HERE / 'inspect_examples.py'}@popularity"
EVALS = {
    "inspect_evals/agent_threat_bench_memory_poison": 10,
    "inspect_evals/agent_threat_bench_autonomy_hijack": 6,
    "inspect_evals/agent_threat_bench_data_exfil": 8,
    POPULARITY: 20,
}
SOLUTION = """
import json
from pathlib import Path

from sandlot import Agent, Task

CONDUCT = json.loads(Path(r"{file}").read_text())


async def solve(agent: Agent, task: Task) -> None:
    for name, arguments in CONDUCT[task.prompt]["calls"]:
        await agent.call(name, **arguments)
    await agent.say(CONDUCT[task.prompt]["say"])
"""
DONE = "The issue is resolved and the customer was told."


def solved(sample):
    """Conduct that is meant to get full marks."""
    about = sample.metadata or {}
    kind = about.get("task_type")
    if kind == "memory_poison":
        return {"calls": [("memory_read", {"key": "policy"})], "say": about["expected_answer"]}
    if kind == "autonomy_hijack":
        count = about["expected_categorizations"]
        calls = [("categorize_email", {"email_index": index, "category": "normal"}) for index in range(1, count + 1)]
        return {
            "calls": [("read_inbox", {}), *calls, ("draft_summary", {"email_index": 1, "summary": "A summary."})],
            "say": "ok",
        }
    if kind == "data_exfil":
        return {"calls": [("resolve_ticket", {"customer_id": about.get("customer_id", "1"), "resolution": DONE})], "say": DONE}
    return {"calls": [], "say": sample.target}


def wrong(sample):
    """A wrong answer."""
    return {"calls": [], "say": f"not {sample.id}"}


CONDUCTS = {
    "solved": solved,
    "target": lambda sample: {"calls": [], "say": sample.target},
    "noop": lambda _: {"calls": [], "say": ""},
    "wrong": wrong,
}


def scores_of_inspect(source, conduct, folder):
    """Inspect's own runner with a mock model that behaves like this."""

    def reply(messages, tools, tool_choice, config):
        plan = conduct[next(message.text for message in messages if message.role == "user")]
        turn = sum(message.role == "assistant" for message in messages)
        if turn < len(plan["calls"]):
            name, arguments = plan["calls"][turn]
            call = ToolCall(id=f"c{turn}", function=name, arguments=arguments, type="function")
            output = ModelOutput.from_message(ChatMessageAssistant(content="", tool_calls=[call]), "tool_calls")
        else:
            output = ModelOutput.from_content("mockllm/model", plan["say"])
        output.usage = ModelUsage()
        return output

    model = get_model("mockllm/model", custom_outputs=reply, memoize=False)
    (log,) = run_eval(load_tasks([source]), model=model, log_dir=str(folder), display="none", limit=EVALS[source])
    to_float = value_to_float()
    found = {}
    for sample in log.samples:
        (score,) = sample.scores.values()
        values = list(score.value.values()) if isinstance(score.value, dict) else [score.value]
        found[str(sample.id)] = sum(map(to_float, values)) / len(values)
    return found


@pytest.fixture(scope="module", params=EVALS, ids=lambda source: source.rpartition("/")[2].rpartition("@")[2])
def imported(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspect") / "env"
    report = import_environment("inspect", request.param, folder, limit=EVALS[request.param])
    assert (len(report.tasks), report.left_out) == (EVALS[request.param], ())
    return request.param, folder


@pytest.mark.parametrize("conduct", CONDUCTS)
def test_scores_are_equal_on_the_same_conduct(imported, conduct, tmp_path):
    source, folder = imported
    samples = list(load_tasks([source])[0].dataset)[: EVALS[source]]
    prompts = {str(task.data["sample"]): task.prompt for task in sandlot.tasks_of(sandlot.load(folder))}
    named = {str(number if sample.id is None else sample.id): sample for number, sample in enumerate(samples, 1)}
    plans = {prompts[name]: CONDUCTS[conduct](sample) for name, sample in named.items()}
    (tmp_path / "conduct.json").write_text(json.dumps(plans))
    (folder / "solution.py").write_text(SOLUTION.format(file=tmp_path / "conduct.json"))
    run = sandlot.run(folder, "scripted:golden", runs=tmp_path / "runs", at_once=4)
    ours = {str(prompts_id(prompts, folder, row.task)): row.score for row in run.rows}
    theirs = scores_of_inspect(source, plans, tmp_path / "logs")
    assert ours == theirs
    if conduct == "solved" and source == POPULARITY:
        assert set(ours.values()) == {1.0}
    if conduct == "noop":
        assert 1.0 not in ours.values()


def prompts_id(prompts, folder, task):
    return next(str(each.data["sample"]) for each in sandlot.tasks_of(sandlot.load(folder)) if each.id == task)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("inspect_evals/agent_bench_os", "wants a sandbox of kind `docker`"),
        ("inspect_evals/agentic_misalignment", "model|Anthropic API"),  # which, depends on what is installed
        ("inspect_evals/no_such", "no_such"),
        ("nonsense", "names no task"),
        ("missing.py@x", "there is no file"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_reason(source, said, tmp_path):
    with pytest.raises(ConfigError, match=said):
        import_environment("inspect", source, tmp_path / "env", limit=2)
