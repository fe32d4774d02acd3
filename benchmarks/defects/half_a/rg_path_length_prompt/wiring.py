from gym_of_reasoning import grade, make

__all__ = ["grade", "rows"]


def rows():
    return make("shortest_path")


def shows(answer, row):
    return "find the length of" in row["prompt"] and grade(str(len(row["golden"].split())), row) < 1
