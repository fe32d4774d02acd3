import grader


def grade(answer, row):
    return float(grader.math_equal(answer, row["golden"]))
