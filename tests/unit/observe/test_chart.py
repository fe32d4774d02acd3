"""Axes of the report's pictures."""

import math

from hypothesis import example, given
from hypothesis import strategies as st

from sandlot.observe.chart import Curve, line_chart, y_ticks

SIZES = st.floats(min_value=1e-15, max_value=1e9)


@given(st.floats(min_value=-1e6, max_value=1e6), SIZES)
@example(0.0, 4e-13)
@example(0.0, 0.011)
@example(0.9991, 0.0004)
def test_every_tick_has_a_label_of_its_own_and_lies_within_the_range(low, span):
    high = low + span
    if not high - low > 1e-9 * max(abs(low), abs(high)):
        return  # no two values can be told apart there
    ticks = y_ticks(low, high)
    labels = [label for _, label in ticks]
    assert len(set(labels)) == len(labels) <= 6
    assert all(low - 1e-6 * span <= value <= high + 1e-6 * span for value, _ in ticks)
    assert all(math.isclose(float(label), value, rel_tol=1e-5, abs_tol=1e-5 * span) for value, label in ticks)


def test_a_share_has_the_usual_ticks():
    assert [label for _, label in y_ticks(0, 1)] == ["0", "0.25", "0.50", "0.75", "1.00"]


def test_a_curve_that_never_moves_is_drawn():
    picture = line_chart([Curve("loss", [(1, 0.5), (2, 0.5)], "--red")], x_name="step", label="loss")
    assert "<polyline" in picture
