from inspect_ai.scorer import match
from inspect_scorers import scored

SCORER = match(numeric=True)


def grade(answer, row):
    return scored(SCORER, answer, row["golden"], row["prompt"])
