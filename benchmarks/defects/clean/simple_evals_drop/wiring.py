from standins import load, stand_in

stand_in("simple_evals.common", "simple_evals.mmlu_eval", "simple_evals.types", "pandas")

stand_in("simple_evals.types", Eval=object)
drop = load("drop_eval.py", "simple_evals.drop_eval")


def grade(answer, row):
    return float(drop.get_drop_metrics(answer, (row["golden"],))[0])
