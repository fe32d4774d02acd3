from standins import load, stand_in


class Numbers(list):
    def mean(self):
        return sum(self) / len(self)


stand_in("torch", tensor=lambda values, **more: Numbers(values))
stand_in("openrlhf")
math_utils = load("openrlhf/utils/math_utils.py", "openrlhf.utils.math_utils")
stand_in("openrlhf.utils", extract_boxed_answer=math_utils.extract_boxed_answer, grade_answer=math_utils.grade_answer)
reward = load("examples/python/math_reward_func.py", "math_reward_func")


def grade(answer, row):
    return float(reward.reward_func([row["prompt"] + answer], [row["prompt"]], [row["key"]])["rewards"][0])
