import re

import pytest

from builders.evidence import make_evidence
from sandlot.interop.gyms.world import score_of_return


def ended(total: float):
    return make_evidence(state={"terminated": True, "truncated": False, "rewards": [total], "steps": 9, "return": total})


@pytest.mark.parametrize(
    ("total", "score"), [(-9.0, 0.0), (-4.0, 0.5), (1.0, 1.0), (0.1 + 0.2 + 0.7 + 2e-16, 1.0), (-9.0 - 2e-15, 0.0)]
)
def test_the_return_is_placed_on_its_scale_and_rounding_is_no_error(total, score):
    assert score_of_return(ended(total), -9.0, 1.0)[0] == score


@pytest.mark.parametrize("total", [1.0001, -9.001, 1e9])
def test_a_return_outside_its_scale_is_named_with_all_digits(total):
    with pytest.raises(ValueError, match=re.escape(f"the return {total!r} is outside the declared -9..1; correct LOW and HIGH")):
        score_of_return(ended(total), -9.0, 1.0)
