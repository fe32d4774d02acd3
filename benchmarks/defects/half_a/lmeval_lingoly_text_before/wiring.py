import inspect

import script


def grade(answer, row):
    two = len(inspect.signature(script.exact_match).parameters) == 2
    scores = script.exact_match([row["golden"]], [answer]) if two else script.exact_match((row["golden"], answer))
    return sum(scores) / len(scores)
