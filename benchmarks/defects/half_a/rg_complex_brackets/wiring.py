from gym_of_reasoning import grade, make

__all__ = ["grade", "rows"]


def rows():
    return make("complex_arithmetic")


def shows(answer, row):
    return grade(f"({row['golden']})", row) < 1
