from gym_of_reasoning import grade, make

__all__ = ["grade", "rows"]


def rows():
    return make("number_sorting")


def shows(answer, row):
    import builtins

    grade("[setattr(__import__('builtins'), 'CANARY', 1)]", row)
    return hasattr(builtins, "CANARY")
