"""Tables, beyond the examples of the checks."""

import pytest

from sandlot.checks import table_equals, table_share

ROWS = [{"id": "a", "amount": 1}, {"id": "b", "amount": 2}]


@pytest.mark.parametrize(("more", "share"), [({}, 0.0), ({"other_columns": True}, 1.0)])
def test_a_column_that_was_not_asked_for_is_refused_unless_it_is_allowed(more, share, evidence_of):
    evidence = evidence_of({"/t.csv": b"id,amount,note\na,1,x\nb,2,y\n"})
    found, why = table_share(evidence, "/t.csv", ROWS, **more)
    assert found == share
    assert ("columns not asked for" in why) == (not more)
    assert table_equals(evidence, "/t.csv", ROWS, **more)[0] is (share == 1.0)


@pytest.mark.parametrize(("more", "share"), [({}, 1.0), ({"ordered": True}, 0.0)])
def test_rows_may_be_in_any_order_unless_it_is_asked_for(more, share, evidence_of):
    assert table_share(evidence_of({"/t.csv": b"id,amount\nb,2\na,1\n"}), "/t.csv", ROWS, **more)[0] == share


def test_rows_with_a_key_that_changed_places_count_for_nothing_where_the_order_is_asked_for(evidence_of):
    evidence = evidence_of({"/t.csv": b"id,amount\nc,3\nb,2\na,1\n"})
    rows = [*ROWS, {"id": "c", "amount": 3}]
    assert table_share(evidence, "/t.csv", rows, key="id")[0] == 1.0
    share, why = table_share(evidence, "/t.csv", rows, key="id", ordered=True)
    assert (share, why) == (1 / 3, "1 of 3 rows are right; row 1 is not in its place; row 3 is not in its place")
