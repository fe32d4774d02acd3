from standins import load, stand_in


class Registry:
    def register_module(self, *args, **kwargs):
        return lambda each: each


stand_in("datasets")
stand_in("opencompass.openicl.icl_evaluator", BaseEvaluator=object)
stand_in("opencompass.registry", ICL_EVALUATORS=Registry(), LOAD_DATASET=Registry(), TEXT_POSTPROCESSORS=Registry())
stand_in("opencompass.utils", "opencompass.datasets.base")
stand_in("opencompass.datasets.base", BaseDataset=object)
bbh = load("opencompass/datasets/bbh.py", "opencompass.datasets.bbh")


def grade(answer, row):
    return bbh.BBHEvaluator().score([answer], [row["key"]])["score"] / 100
