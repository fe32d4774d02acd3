"""Charts as data: bounded, and without values that JSON does not know."""

import math

import msgspec

from sandlot.web.charts import Chart, line_of


def test_a_long_series_is_averaged_and_keeps_its_last_place():
    line = line_of("reward", [(step, float(step % 2)) for step in range(1, 10_001)], [(0.0, 1.0)] * 10_000)
    assert len(line.points) == len(line.band) <= 600
    assert line.points[-1][0] == 10_000
    assert {round(y, 1) for _, y in line.points} <= {0.4, 0.5, 0.6}
    assert set(line.band) == {(0.0, 1.0)}


def test_values_that_are_no_numbers_are_left_out_of_the_json():
    line = line_of("loss", [(1, math.nan), (2, math.inf), (3, None), (4, 2.5)], [(math.nan, 1.0)] * 4)
    assert [y for _, y in line.points] == [None, None, None, 2.5]
    sent = msgspec.json.decode(msgspec.json.encode(Chart(title="t", series=[line])))
    assert sent["series"][0]["band"][0] == [None, 1.0]
