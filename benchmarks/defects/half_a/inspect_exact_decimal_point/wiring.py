from inspect_ai.scorer import exact
from inspect_scorers import scored

SCORER = exact()


def grade(answer, row):
    return scored(SCORER, answer, row["golden"], row["prompt"])
