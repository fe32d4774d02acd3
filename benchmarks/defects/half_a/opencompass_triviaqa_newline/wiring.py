from standins import load, stand_in


class Registry:
    def register_module(self, *args, **kwargs):
        return lambda each: each


stand_in("datasets")
stand_in("opencompass.openicl", "opencompass.openicl.icl_evaluator", BaseEvaluator=object)
stand_in("opencompass.registry", ICL_EVALUATORS=Registry(), LOAD_DATASET=Registry(), TEXT_POSTPROCESSORS=Registry())
stand_in("opencompass.utils")
stand_in("opencompass.datasets.base", BaseDataset=object)

processors = load("opencompass/utils/text_postprocessors.py", "opencompass.utils.text_postprocessors")
triviaqa = load("opencompass/datasets/triviaqa.py", "opencompass.datasets.triviaqa")


def grade(answer, row):
    return triviaqa.TriviaQAEvaluator().score([answer], [[row["golden"]]])["score"] / 100
