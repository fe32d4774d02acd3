"""The judge is a stand-in that reasons, grades, and closes with a remark, as chat models do."""

import re

from inspect_ai.scorer._model import DEFAULT_GRADE_PATTERN


def judge(answer, row):
    right = " ".join(answer.split()).casefold().rstrip(".") == row["golden"].casefold()
    return f"The expert answer is {row['golden']}. Comparing the two.\n\nGRADE: {'C' if right else 'I'}\n\nI hope this helps."


def grade(answer, row):
    match = re.search(DEFAULT_GRADE_PATTERN, judge(answer, row))
    return float(match is not None and match.group(1).upper() == "C")
