from standins import load, stand_in


class Registry:
    def register_module(self, *args, **kwargs):
        return lambda each: each


stand_in("datasets", "numpy")
stand_in("opencompass.openicl.icl_evaluator", BaseEvaluator=object)
stand_in("opencompass.registry", ICL_EVALUATORS=Registry(), LOAD_DATASET=Registry())
stand_in("opencompass.utils")
stand_in("opencompass.datasets.base", BaseDataset=object)
try:
    load("opencompass/utils/code_execution.py", "opencompass.utils.code_execution")
except FileNotFoundError:
    pass  # the fix brings this file
mbpp = load("opencompass/datasets/mbpp.py", "opencompass.datasets.mbpp")


def grade(answer, row):
    evaluator = mbpp.MBPPEvaluator()
    key = []
    mbpp._execution(evaluator._process_test("\n".join(row["tests"]), evaluator._process_answer(answer)), 3, key)
    return float(key[0] == "pass")
