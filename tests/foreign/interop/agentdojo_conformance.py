"""AgentDojo's own verdicts and ours on the same conduct: `make test-interop KIND=agentdojo`."""

import warnings
from types import SimpleNamespace

import anyio
import pytest
from agentdojo.agent_pipeline.ground_truth_pipeline import GroundTruthPipeline
from agentdojo.task_suite.load_suites import get_suite, get_suites

import sandlot
from sandlot.core.errors import ConfigError
from sandlot.core.trace import Message, ToolCall
from sandlot.core.types import Role
from sandlot.env.importing import import_environment
from sandlot.interop.packages.agentdojo_world import fresh_environment, verdict_on

VERSION = "v1.2.2"
DONE_BY_DOING_NOTHING = {f"banking-user_task_{number}" for number in (5, 6, 8, 9, 10)}
"""AgentDojo's own checks of these tasks are met by the environment as it is at the start."""
READ_FROM_CALLS = {"slack-user_task_11"}
"""Its verdict looks at the calls."""


def taken(source, folder, **options):
    report = import_environment("agentdojo", source, folder / "dojo", **options)
    return report, sandlot.load(folder / "dojo")


def evidence(calls, answer):
    return SimpleNamespace(state={"calls": calls}, answer=answer)


def conduct_of(task, suite, name):
    """The calls of a ground truth in this task's environment, with whether each is an error, and its last words."""
    environment = fresh_environment(task)
    judged = suite.get_injection_task_by_id(name) if name.startswith("injection") else suite.get_user_task_by_id(name)
    calls = [{"name": each.function, "arguments": dict(each.args), "error": False} for each in judged.ground_truth(environment)]
    return calls, judged.GROUND_TRUTH_OUTPUT


def test_all_user_tasks_and_tools_are_taken(tmp_path):
    report, env = taken("all", tmp_path)
    assert (len(report.tasks), report.left_out) == (97, ())
    suites = get_suites(VERSION)
    assert sum(len(suite.user_tasks) for suite in suites.values()) == 97

    async def tools(task):
        async with env.session(task) as session:
            return {spec.name for spec in session.tools}

    for name, suite in suites.items():
        assert anyio.run(tools, f"{name}-user_task_0") == {tool.name for tool in suite.tools}


@pytest.mark.parametrize("name", ["banking", "slack", "travel", "workspace"])
def test_verdicts_on_user_tasks_are_equal(name, tmp_path):
    _, env = taken(name, tmp_path)
    suite = get_suite(VERSION, name)
    idle = set()
    for task in sandlot.tasks_of(env):
        user_task = suite.get_user_task_by_id(task.data["user_task"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs, _ = suite.run_task_with_pipeline(GroundTruthPipeline(user_task), user_task, None, {})
        calls = [{**call, "error": False} for call in task.key["calls"]]
        assert (theirs, verdict_on(evidence(calls, task.key["output"]), task, "utility")) == (True, True), task.id
        if verdict_on(evidence([], ""), task, "utility"):
            idle.add(task.id)
    assert idle == {each for each in DONE_BY_DOING_NOTHING if each.startswith(name)}


def test_an_injection_that_is_carried_out_costs_its_points_as_in_agentdojo(tmp_path):
    report, env = taken("banking?attack=direct", tmp_path, limit=18)
    suite = get_suite(VERSION, "banking")
    assert len(report.tasks) == 18
    for task in sandlot.tasks_of(env):
        injected = suite.get_injection_task_by_id(task.key["injection_task"])
        assert any(injected.GOAL in text for text in task.data["injections"].values())
        user_task = suite.get_user_task_by_id(task.data["user_task"])
        pipeline = GroundTruthPipeline(injected)
        _, theirs = suite.run_task_with_pipeline(pipeline, user_task, injected, task.data["injections"])
        calls, output = conduct_of(task, suite, injected.ID)
        assert verdict_on(evidence(calls, output), task, "security") is theirs is True
        calls, output = conduct_of(task, suite, user_task.ID)
        _, theirs = suite.run_task_with_pipeline(GroundTruthPipeline(user_task), user_task, injected, task.data["injections"])
        assert verdict_on(evidence(calls, output), task, "security") is theirs


def played(env, task, *calls):
    """The results of calls, and the state after them."""

    async def play():
        async with env.session(task) as session:
            await session.reset()
            parts = tuple(ToolCall(f"c{number}", name, arguments) for number, (name, arguments) in enumerate(calls))
            step = await session.step(Message(role=Role.ASSISTANT, parts=parts))
            return step.messages[0].results, session.world.state

    return anyio.run(play)


def test_a_wrong_call_is_an_error_that_the_agent_reads(tmp_path):
    _, env = taken("banking", tmp_path, limit=1)
    found, _ = played(
        env, "banking-user_task_0", ("get_balance", {}), ("send_money", {"recipient": "x"}), ("read_file", {"file_path": "no"})
    )
    assert not found[0].error
    assert found[1].error
    assert "ValidationError" in found[1].text


def test_calls_that_only_read_are_no_progress(tmp_path):
    _, env = taken("banking", tmp_path, limit=1)
    paid = {"recipient": "GB29NWBK60161331926819", "amount": 5.5, "subject": "tea", "date": "2022-01-01"}
    _, state = played(env, "banking-user_task_0", ("get_balance", {}))
    assert state == {"calls": [], "environment": {}}
    _, state = played(env, "banking-user_task_0", ("get_balance", {}), ("send_money", paid), ("get_balance", {}))
    assert state["calls"] == [{"name": "send_money", "arguments": paid, "error": False}]
    assert state["environment"]["bank_account"]["transactions"][-1]["amount"] == 5.5


@pytest.mark.parametrize(("suite", "read"), [("slack", "get_channels"), ("workspace", "get_current_day")])
def test_calls_that_only_read_are_kept_where_the_verdict_looks_at_them(suite, read, tmp_path):
    _, env = taken(suite, tmp_path)
    judged = {task.id for task in sandlot.tasks_of(env) if played(env, task.id, (read, {}))[1]["calls"]}
    assert judged == (READ_FROM_CALLS if suite == "slack" else set())


@pytest.mark.parametrize("source", ["no-such", "banking?attack=no-such", "banking?size=3"])
def test_unknown_names_are_refused(source, tmp_path):
    with pytest.raises(ConfigError):
        taken(source, tmp_path)
