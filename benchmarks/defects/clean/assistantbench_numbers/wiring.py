import evaluate_strings


def grade(answer, row):
    return float(evaluate_strings.evaluate_strings(answer, row["golden"]) == 1)
