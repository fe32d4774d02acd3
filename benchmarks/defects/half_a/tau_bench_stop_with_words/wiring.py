"""The retail environment driven by a list of actions; the user is a stand-in that always says the same."""

import json

import sys
import types

from standins import stand_in


class User:
    def reset(self, instruction=None):
        return instruction

    def step(self, content):
        return "Thank you! ###STOP###"

    def get_total_cost(self):
        return 0.0


stand_in("litellm")
sys.modules["tau_bench.envs.user"] = types.ModuleType("tau_bench.envs.user")  # it needs a newer Python
sys.modules["tau_bench.envs.user"].load_user = sys.modules["tau_bench.envs.user"].UserStrategy = None
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
    chosen = list(enumerate(TASKS_TEST))
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
            last = env.step(Action(name=each["name"], kwargs=each["kwargs"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return 0.0
    return float(last.reward) if actions else 0.0


def shows(answer, row):
    return grade(row["golden"], row) == 0
