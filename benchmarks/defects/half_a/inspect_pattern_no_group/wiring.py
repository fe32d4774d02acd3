from inspect_ai.scorer import pattern
from inspect_scorers import scored

SCORER = pattern(r"ANSWER:(?:\s*([A-D]))?", match_all=True)


def grade(answer, row):
    return scored(SCORER, answer, row["golden"].removeprefix("ANSWER: "), row["prompt"])
