"""tau2 as inspect-evals carries it: the same scripted agent and user get the same scores from Inspect's runner and from ours."""

import functools
import json

import anyio
import pytest
from inspect_ai import eval as run_eval
from inspect_ai._eval.loader import load_tasks
from inspect_ai.dataset import MemoryDataset
from inspect_ai.model import ChatMessageAssistant, ModelOutput, ModelUsage, get_model
from inspect_ai.tool import ToolCall as InspectCall

import sandlot
from sandlot.core.errors import ConfigError
from sandlot.core.limits import Limits
from sandlot.core.persona import AGENT, ROLE_ANSWERED
from sandlot.core.trace import Failed, Text, ToolCall
from sandlot.core.types import End, Role, Side
from sandlot.env.importing import import_environment
from sandlot.harness.tool_loop import ToolLoop
from sandlot.model.policy.player import Move, Player
from sandlot.model.policy.replay import ReplayUsers, replay_policies
from sandlot.model.policy.scripted import ScriptedPolicies, scripted_policies
from sandlot.model.policy.user import ModelUsers
from sandlot.rollout import run_rollout
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.parts import Grading, RolloutParts

SAMPLES = {"airline": 3, "retail": 1, "telecom": 1, "banking": 1}
STOP = "###STOP###"


def criteria(sample):
    found = (sample.metadata or {})["task"]
    found = found if isinstance(found, dict) else found.model_dump()
    return found["evaluation_criteria"]


def solved(sample):
    """The actions that tau2 expects of both, and the words that it looks for."""
    actions = criteria(sample).get("actions") or []
    told = " ".join(criteria(sample).get("communicate_info") or [])
    by = {
        side: [(each["name"], each["arguments"]) for each in actions if each["requestor"] == side]
        for side in ("assistant", "user")
    }
    return {
        "agent": [*by["assistant"], f"All is done. {told}", "Goodbye."],
        "user": ["Hello, I need help.", *by["user"], f"Thank you. {STOP}"],
    }


def nothing(_sample):
    """An agent that only talks."""
    return {"agent": ["How can I help?", "I see."], "user": ["Hello.", "Do it, please.", f"Never mind. {STOP}"]}


def wrong(sample):
    """An agent that transfers everybody, and calls a tool with nonsense."""
    return {
        "agent": [
            ("transfer_to_human_agents", {"summary": "x"}),
            ("get_user_details", {"user_id": "nobody"}),
            "You are transferred.",
        ],
        "user": [f"Hello, I am {sample.id}.", "Is ###TRANSFER### a word?"],
    }


CONDUCTS = {"solved": solved, "nothing": nothing, "wrong": wrong}


def step_of(plan, turn, tools):
    """The next step of a plan: text, or the name of a tool that is offered and its arguments. tau2 prefixes some names."""
    step = plan[min(turn, len(plan) - 1)]
    if isinstance(step, str):
        return step
    name, arguments = step
    found = [tool for tool in tools if tool == name or tool.endswith(f"_{name}")]
    return (found[0], arguments) if found else f"I have no tool {name}."


# -- Inspect's side ------------------------------------------------------------------------------------------------------


def mock_model(plan):
    def reply(messages, tools, tool_choice, config):
        turn = sum(message.role == "assistant" for message in messages)
        step = step_of(plan, turn, [tool.name for tool in tools])
        if isinstance(step, str):
            output = ModelOutput.from_content("mockllm/model", step)
        else:
            call = InspectCall(id=f"c{turn}", function=step[0], arguments=step[1], type="function")
            output = ModelOutput.from_message(ChatMessageAssistant(content="", tool_calls=[call]), "tool_calls")
        output.usage = ModelUsage()
        return output

    return get_model("mockllm/model", custom_outputs=reply, memoize=False)


@functools.cache
def samples_of(domain):
    return list(loaded(domain).dataset)[: SAMPLES[domain]]


def loaded(domain):
    return load_tasks([f"inspect_evals/tau2_{domain}"], {"shuffle": False})[0]


def score_of_inspect(domain, sample, plans, folder):
    task = loaded(domain)
    task.dataset = MemoryDataset([each for each in task.dataset if each.id == sample.id])
    models = {"model": mock_model(plans["agent"]), "model_roles": {"user": mock_model(plans["user"])}}
    (log,) = run_eval(task, **models, log_dir=str(folder), display="none")
    (found,) = log.samples
    assert found.error is None
    (score,) = found.scores.values()
    return {"C": 1.0, "I": 0.0}[score.value], found


# -- our side ------------------------------------------------------------------------------------------------------------


def policies(name, plan):
    def play(view):
        turn = sum(node.message.role is Role.ASSISTANT for node in view.trace.path(view.leaf))
        step = step_of(plan, turn, [tool.name for tool in view.tools])
        return Move((Text(step),) if isinstance(step, str) else (ToolCall(f"t{turn}", *step),))

    return ScriptedPolicies(name, lambda _task, seed: Player(name, play, seed))


def rolled(folder, task, agent, users, limits=None):
    env = sandlot.load(folder)
    if limits is not None:
        env.limits = limits

    async def go():
        parts = RolloutParts(grading=Grading(env=env), policies=agent, harness=ToolLoop(), users=users)
        return await run_rollout(parts, task, run="test", rollout=0, blobs=MemoryBlobs())

    return anyio.run(go)


def played(folder, task, plans, **options):
    return rolled(folder, task, policies("agent", plans["agent"]), ModelUsers(policies("customer", plans["user"])), **options)


@functools.cache
def imported(domain, folder):
    place = folder / domain
    report = import_environment("inspect", f"inspect_evals/tau2_{domain}?shuffle=false", place, limit=SAMPLES[domain])
    assert (len(report.tasks), report.left_out) == (SAMPLES[domain], ())
    return place, {task.data["sample"]: task for task in sandlot.tasks_of(sandlot.load(place))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tau2")


@pytest.mark.parametrize(
    ("domain", "conduct"),
    [("airline", "wrong"), *((domain, conduct) for domain in SAMPLES for conduct in ("solved", "nothing"))],
)
def test_scores_are_equal_on_the_same_conduct_of_agent_and_user(domain, conduct, folder, tmp_path):
    place, tasks = imported(domain, folder)
    for sample in samples_of(domain)[: None if conduct == "solved" else 1]:
        plans = CONDUCTS[conduct](sample)
        theirs, log = score_of_inspect(domain, sample, plans, tmp_path / str(len(plans["user"])))
        trace = played(place, tasks[sample.id], plans)
        assert trace.outcome is not None
        assert (trace.reward, trace.end) == (theirs, End.DONE), (domain, conduct, sample.id, trace.outcome)
        # The role was asked as often as there, and what it said to the agent are messages of the trace.
        asked = [event.model_dump() for event in log.events if event.event == "model" and event.role == "user"]
        answered = [event.detail for event in trace.events if event.kind == ROLE_ANSWERED]
        assert [detail["text"] for detail in answered] == [event["output"]["choices"][0]["message"]["content"] for event in asked]
        said = [node.message.text for node in trace.nodes if node.sampled and node.message.agent == AGENT]
        assert said == [detail["text"] for detail in answered if detail["text"]]
        if conduct == "solved":
            # The first of banking expects an income of 100000, and its tool always stores 100000.0: nothing passes it.
            assert trace.reward == (0.0 if domain == "banking" else 1.0)


SOLUTION = """
from sandlot import Agent, Task


async def solve(agent: Agent, task: Task) -> None:
    wanted = task.key["metadata"]["task"]["evaluation_criteria"]
    for action in wanted["actions"] or []:
        (name,) = [tool.name for tool in agent.tools if tool.name.endswith(action["name"])]
        await agent.call(name, **action["arguments"])
    await agent.say(" ".join(wanted["communicate_info"] or []) + " ###STOP###")
"""


def test_a_solution_of_ones_own_reads_the_metadata_of_the_samples(folder, tmp_path):
    file = tmp_path / "golden.py"
    file.write_text(SOLUTION)
    place = tmp_path / "airline"
    import_environment("inspect", f"inspect_evals/tau2_airline?shuffle=false&solution={file}", place, limit=2)
    run = sandlot.run(place, "scripted:golden", user="scripted:echo", runs=tmp_path / "runs", at_once=2)
    assert [row.score for row in run.rows] == [1.0, 1.0]
    plain, _ = imported("airline", folder)
    assert [task.key.keys() for task in sandlot.tasks_of(sandlot.load(plain))] == [{"target"}] * SAMPLES["airline"]


def test_a_user_whose_model_fails_is_a_failure_and_no_reward(folder):
    """tau2's solver catches every error and asks again; an agent that does nothing would then have full marks in sample 0."""
    place, tasks = imported("airline", folder)
    trace = rolled(place, tasks["0"], policies("agent", ["Hello."]), ModelUsers(scripted_policies("crash")))
    assert isinstance(trace.outcome, Failed)
    assert trace.outcome.side is Side.MODEL
    assert trace.reward is None


def test_a_user_that_ends_before_the_agent_speaks_is_a_failure(folder):
    place, tasks = imported("airline", folder)
    trace = played(place, tasks["0"], {"agent": ["Hello."], "user": [STOP]})
    assert isinstance(trace.outcome, Failed)
    assert (trace.outcome.side, trace.reward) == (Side.MODEL, None)


def test_a_turn_limit_ends_the_sample_and_it_is_scored(folder):
    place, tasks = imported("airline", folder)
    plans = {"agent": ["Hello.", "What?"], "user": ["Hi.", "I said hi."]}
    trace = played(place, tasks["0"], plans, limits=Limits(turns=2, tool_s=330, setup_s=330, provision_s=330))
    assert (trace.end, trace.reward) == (End.TURN_LIMIT, 1.0)  # sample 0 expects no change of the database


def test_a_replay_repeats_what_the_role_said(folder):
    place, tasks = imported("telecom", folder)
    (sample,) = samples_of("telecom")
    task = tasks[sample.id]
    first = played(place, task, solved(sample))
    again = rolled(place, task, replay_policies(lambda _task, _rollout: first), ReplayUsers(lambda _task, _rollout: first))
    assert again.reward == first.reward == 1.0
    assert [node.message.text for node in again.nodes] == [node.message.text for node in first.nodes]
    assert "replay_diverged" not in {event.kind for event in again.events}


def test_without_a_user_it_is_refused_before_the_first_rollout(folder, tmp_path):
    place, _ = imported("airline", folder)
    with pytest.raises(ConfigError, match=r"the role user .* `--user MODEL`"):
        sandlot.run(place, "scripted:noop", runs=tmp_path)
    with pytest.raises(ConfigError, match="scripted:echo"):
        sandlot.run(place, "scripted:noop", user="scripted:persona", runs=tmp_path)


def test_a_run_with_a_scripted_user_of_ours_goes_to_its_end(folder, tmp_path):
    place, _ = imported("airline", folder)
    run = sandlot.run(place, f"scripted:constant:Goodbye. {STOP}", user="scripted:echo", runs=tmp_path, at_once=2)
    assert json.dumps([row.end for row in run.rows]) == '["done", "done", "done"]'
    assert {row.score for row in run.rows} <= {0.0, 1.0}
