from gym_of_reasoning import grade, make

__all__ = ["grade", "rows"]


def rows():
    return make("color_cube_rotation")


def shows(answer, row):
    return grade(row["golden"] + " \n", row) < 1
