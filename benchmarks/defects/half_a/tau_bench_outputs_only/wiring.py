"""The retail environment driven by a list of actions; the user is a stand-in that always says the same."""

import json

from standins import stand_in


class User:
    def reset(self, instruction=None):
        return instruction

    def step(self, content):
        return "I see."

    def get_total_cost(self):
        return 0.0


stand_in("litellm")
import tau_bench.envs.base as base

base.load_user = lambda **kwargs: User()
from tau_bench.envs.retail.data import load_data
from tau_bench.envs.retail.tasks_test import TASKS_TEST
from tau_bench.envs.retail.tools import ALL_TOOLS
from tau_bench.types import Action


def golden_of(task):
    actions = [{"name": each.name, "kwargs": each.kwargs} for each in task.actions]
    return [*actions, {"name": "respond", "kwargs": {"content": "Done. " + " ".join(task.outputs)}}]


def rows():
    chosen = [
        (index, task)
        for index, task in enumerate(TASKS_TEST)
        if task.outputs and any(word in each.name for each in task.actions for word in ("cancel", "modify", "return", "exchange"))
    ]
    for index, task in chosen[:5]:
        yield {
            "id": f"retail-{index}",
            "prompt": task.instruction + " Reply with a JSON list of tool calls, each with name and kwargs.",
            "golden": json.dumps(golden_of(task)),
            "index": index,
        }


def grade(answer, row):
    env = base.Env(load_data, ALL_TOOLS, TASKS_TEST, "", [], "llm", "none", None, row["index"])
    env.terminate_tools = ["transfer_to_human_agents"]
    env.reset(row["index"])
    try:
        actions = json.loads(answer)
        for each in actions:
            env.step(Action(name=each["name"], kwargs=each["kwargs"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return 0.0
    return float(env.calculate_reward().reward)


def shows(answer, row):
    """Only the words are said; nothing is done."""
    return grade(json.dumps(json.loads(row["golden"])[-1:]), row) == 1
