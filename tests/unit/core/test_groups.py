"""Values grouped by key."""

from sandlot.core.groups import group_by_key


def test_keys_and_values_keep_their_order():
    found = group_by_key([("b", 1), ("a", 2), ("b", 3)])
    assert list(found.items()) == [("b", [1, 3]), ("a", [2])]


def test_a_missing_key_stays_missing():
    found = group_by_key(iter([(1, "x")]))
    assert found.get(2) is None
    assert list(found) == [1]
