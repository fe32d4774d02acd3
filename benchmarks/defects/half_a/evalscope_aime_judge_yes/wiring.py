"""The judge is a stand-in that quotes the answer, reasons, and ends with its verdict on a line of its own."""

from types import SimpleNamespace

from standins import stand_in

stand_in("evalscope.api.benchmark", DefaultDataAdapter=object)
stand_in(
    "evalscope.api.dataset", "evalscope.api.evaluator", "evalscope.api.registry", "evalscope.constants", "evalscope.utils.logger"
)
stand_in("evalscope.api.metric", Score=lambda **fields: SimpleNamespace(metadata={}, **fields))

import aime_adapter


class Judge:
    model_id = "stand-in"

    def __init__(self, answer, golden):
        self.answer, self.golden = answer, golden

    def judge(self, prompt):
        right = self.answer.strip() == self.golden
        return f"Expression 1 is {self.golden} and expression 2 is: {self.answer}\n\n{'Yes' if right else 'No'}"


def grade(answer, row):
    adapter = object.__new__(aime_adapter.AIME24Adapter)
    adapter.llm_judge, adapter.judge_strategy = Judge(answer, row["golden"]), "llm"
    return float(adapter.llm_match_score(answer, answer, row["golden"], None).value["acc"])
