from standins import load, stand_in

stand_in("rllm.rewards.math_utils")
utils = load("rllm/rewards/math_utils/utils.py", "rllm.rewards.math_utils.utils")


def grade(answer, row):
    """Right as in RewardMathFn: by either of its two comparisons of the boxed answer."""
    given = utils.extract_answer(answer)
    return float(
        given is not None and (utils.grade_answer_mathd(given, row["key"]) or utils.grade_answer_sympy(given, row["key"]))
    )
