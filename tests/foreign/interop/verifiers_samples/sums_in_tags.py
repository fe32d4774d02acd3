"""A single-turn environment of verifiers: two reward functions with weights, one of which raises for one answer."""

import verifiers as vf
from datasets import Dataset


def load_environment(count=6):
    rows = [{"question": f"What is {number}+{number}?", "answer": str(2 * number)} for number in range(count)]
    parser = vf.XMLParser(["think", "answer"], answer_field="answer")

    def right(completion, answer):
        given = parser.parse_answer(completion) or ""
        if given == "boom":
            raise ArithmeticError("the scorer cannot read this")
        return 1.0 if given == answer else 0.0

    rubric = vf.Rubric(funcs=[right, parser.get_format_reward_func()], weights=[1.0, 0.25], parser=parser)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(rows[: count - 2]),
        eval_dataset=Dataset.from_list(rows[count - 2 :]),
        system_prompt="Answer in tags.",
        parser=parser,
        rubric=rubric,
    )
