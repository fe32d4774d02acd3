from types import SimpleNamespace

from standins import stand_in

stand_in("evalscope.api.evaluator")

import multi_choices


def grade(answer, row):
    state = SimpleNamespace(choices=row["choices"], output=SimpleNamespace(completion=answer))
    return float(multi_choices.parse_answers(state) == {row["golden"][-1]})
