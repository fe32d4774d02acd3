from gym_of_reasoning import grade, make

__all__ = ["grade", "rows"]


def rows():
    return make("number_sorting")


def shows(answer, row):
    import json

    numbers = json.loads(row["golden"].replace("'", '"'))
    return grade("[" + ",".join(numbers) + "]", row) < 0.9
