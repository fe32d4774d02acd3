from types import SimpleNamespace

from standins import stand_in

stand_in("swift.infer_engine")
stand_in("transformers.utils", strtobool=lambda text: text == "True")

import orm

REWARD = orm.MathORM()


def grade(answer, row):
    request = SimpleNamespace(messages=[{"role": "assistant", "content": answer}])
    return REWARD([request], [row["golden"]])[0]
