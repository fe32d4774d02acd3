from standins import load, stand_in

stand_in("simple_evals.common", "simple_evals.mmlu_eval", "simple_evals.types", "pandas")

stand_in("simple_evals.types", Eval=object)
mgsm = load("mgsm_eval.py", "simple_evals.mgsm_eval")


def grade(answer, row):
    return float(mgsm.score_mgsm(row["target"], mgsm.parse_answer(answer, "Answer")))
