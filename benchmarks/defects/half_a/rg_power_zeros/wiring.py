from gym_of_reasoning import grade, make

__all__ = ["grade", "rows"]


def rows():
    return make("power_function")


def shows(answer, row):
    return grade("343", {**row, "golden": "343.000"}) < 1
