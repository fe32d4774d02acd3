from gym_of_reasoning import grade, make

__all__ = ["grade", "rows"]


def rows():
    return make("countdown", size=5, min_numbers=12, max_numbers=13)


def shows(answer, row):
    return any(grade(each["golden"], each) < 1 for each in rows())
