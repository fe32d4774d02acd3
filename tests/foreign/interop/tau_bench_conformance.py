"""tau-bench's own code and ours on the same conduct: `make test-interop KIND=tau_bench`."""

import os
import sys
import types
from importlib import import_module

import pytest

import sandlot
from sandlot.env.importing import import_environment
from sandlot.interop.tau_bench.world import CLOSING

FOLDER = os.environ["SANDLOT_TAU_BENCH"]
CLASSES = {"retail": "MockRetailDomainEnv", "airline": "MockAirlineDomainEnv"}
LIMIT = int(os.environ.get("SANDLOT_TAU_BENCH_TASKS", "12"))


class EndingUser:
    """A user that ends the conversation at the agent's closing words."""

    def reset(self, instruction=None):
        return "Hello! I need some help."

    def step(self, content):
        return "###STOP###" if content in {CLOSING, ""} else "Go on."

    def get_total_cost(self):
        return 0.0


@pytest.fixture(scope="module", params=["retail", "airline"])
def domain(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tau") / request.param
    report = import_environment("tau-bench", f"{FOLDER}?domain={request.param}", folder, limit=LIMIT)
    assert (len(report.tasks), report.left_out) == (LIMIT, ())
    return sandlot.load(folder), _theirs(request.param)


def _theirs(name):
    module = types.ModuleType("litellm")
    module.completion = None
    sys.modules["litellm"] = module
    if FOLDER not in sys.path:
        sys.path.insert(0, FOLDER)
    env = getattr(import_module(f"tau_bench.envs.{name}"), CLASSES[name])(user_strategy="human", task_index=0)
    env.user = EndingUser()
    return env


def _their_reward(env, task, *, golden):
    action = import_module("tau_bench.types").Action
    env.reset(task_index=task.data["index"])
    said = [". ".join(task.key["outputs"])] if task.key["outputs"] else []
    steps = [action(**each) for each in task.key["actions"]] if golden else []
    steps += [action(name="respond", kwargs={"content": text}) for text in ([*said, CLOSING] if golden else [""])]
    for step in steps:
        response = env.step(step)
        if response.done:
            return response.reward
    raise AssertionError("the conversation did not end")


@pytest.mark.parametrize("model", ["scripted:golden", f"scripted:constant:{CLOSING}"], ids=["golden", "nothing"])
def test_rewards_are_equal(domain, model, tmp_path):
    env, theirs = domain
    run = sandlot.run(env, model, user="scripted:persona", runs=tmp_path / "runs", at_once=8)
    ours = {trace.task: trace.reward for trace in run}
    expected = {task.id: _their_reward(theirs, task, golden=model == "scripted:golden") for task in sandlot.tasks_of(env)}
    assert ours == expected
    passed = {task.id for task in sandlot.tasks_of(env) if "passed-by-nothing" in task.tags}
    if model == "scripted:golden":
        assert set(ours.values()) == {1.0}
    else:
        assert {task for task, reward in ours.items() if reward == 1.0} == passed


def test_a_calculation_without_end_fails_and_other_rollouts_go_on(domain, tmp_path):
    env, _ = domain
    first, second = [task.id for task in sandlot.tasks_of(env)[:2]]

    async def solve(agent, task):
        if task.id == first:
            await agent.call("calculate", expression="9**9**9**9")
        else:
            await agent.say(CLOSING)

    env.marked.solution = solve
    run = sandlot.run(env, "scripted:golden", user="scripted:persona", runs=tmp_path / "runs", tasks=[first, second])
    assert run.trace(first).outcome.side == "environment"
    assert run.trace(second).reward is not None
