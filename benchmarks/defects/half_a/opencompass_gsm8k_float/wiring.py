from standins import load, stand_in


class Registry:
    def register_module(self, *args, **kwargs):
        return lambda each: each


stand_in("datasets")
stand_in("opencompass.openicl", "opencompass.openicl.icl_evaluator", BaseEvaluator=object)
stand_in("opencompass.registry", ICL_EVALUATORS=Registry(), LOAD_DATASET=Registry(), TEXT_POSTPROCESSORS=Registry())
stand_in("opencompass.utils")
stand_in("opencompass.datasets.base", BaseDataset=object)

gsm8k = load("opencompass/datasets/gsm8k.py", "opencompass.datasets.gsm8k")


def grade(answer, row):
    return gsm8k.Gsm8kEvaluator().score([gsm8k.gsm8k_postprocess(answer)], [row["key"]])["accuracy"] / 100
