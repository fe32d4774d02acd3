from standins import stand_in

stand_in("swift.llm", "swift.llm.infer", "swift.utils")
stand_in("importlib_stub")

import orm

REWARD = orm.MathAccuracy()


def grade(answer, row):
    return REWARD([answer], [row["solution"]])[0]
