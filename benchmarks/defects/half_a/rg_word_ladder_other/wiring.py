from gym_of_reasoning import grade, make

__all__ = ["grade", "rows"]


def rows():
    return make("word_ladder", size=6)


def shows(answer, row):
    """A ladder with one more valid step, or in small letters."""
    return grade(row["golden"].lower(), row) < 1
