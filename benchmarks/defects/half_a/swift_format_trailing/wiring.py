from standins import stand_in

stand_in("swift.llm", "swift.llm.infer", "swift.utils")

import orm

REWARD = orm.Format()


def grade(answer, row):
    return REWARD([answer])[0]
