"""What a summary names is the same however the rollouts happened to end."""

from itertools import permutations

import msgspec

from builders.traces import make_row, make_trace
from sandlot.cli.views.summary import Notable


def test_the_rollout_to_look_at_does_not_depend_on_the_order_they_ended_in():
    lost = [msgspec.structs.replace(make_row(make_trace(task, number)), score=0.0) for task, number in (("a", 2), ("b", 0))]
    rows = [make_row(make_trace("a", 0)), *lost]
    found = [Notable.of(order).lowest for order in permutations(rows)]
    assert {(row.task, row.rollout) for row in found if row} == {("a", 2)}
