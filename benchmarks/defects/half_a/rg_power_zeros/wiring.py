from gym_of_reasoning import grade, make

__all__ = ["grade", "rows"]


def rows():
    return make("power_function")


def shows(answer, row):
    import gym_of_reasoning

    data = gym_of_reasoning._dataset(row["dataset"], row["config"])
    return data.score_answer(answer="1.000e+00", entry={"answer": "1.0", "metadata": {}}) < 1
