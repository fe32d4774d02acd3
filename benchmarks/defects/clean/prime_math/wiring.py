from standins import load

normalize = load("training/verl/utils/reward_score/evaluation_utils/math_util/math_normalize.py", "math_normalize")


def boxed(text):
    start = text.rfind("\\boxed{")
    return text[start + 7 : text.rfind("}")] if start >= 0 and text.endswith("}") else None


def grade(answer, row):
    given = boxed(answer.strip())
    return float(given is not None and normalize.normalize_answer(given) == normalize.normalize_answer(row["key"]))
