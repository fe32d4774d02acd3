"""Changing the checks of a rubric's text: the result is what was asked for, and what did not change keeps its bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.errors import ConfigError
from sandlot.grade.editing import CheckEdit, edit_checks

TEXT = """{
  "format": 1,
  "checks": [
    {"kind": "python", "id": "a",   "ref": "checks:a", "points": 1.50, "tags": ["x"]},

    {"kind": "judge", "id": "b", "prompt": "caf\\u00e9 is open", "points": 2},
    {"kind": "python", "id": "c", "ref": "checks:c"}
  ],
  "clip": [0, 1]
}
"""
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
checks = st.lists(st.dictionaries(st.text(max_size=4), values, max_size=5), max_size=5)


def edits(text, **changes):
    """Every check of a text, with fields of some replaced."""
    return [CheckEdit(place, {**check, **changes.get(check["id"], {})}) for place, check in enumerate(json.loads(text)["checks"])]


def test_nothing_to_change_changes_no_byte():
    assert edit_checks(TEXT, edits(TEXT)) == TEXT


def test_one_changed_field_changes_only_its_own_bytes():
    assert edit_checks(TEXT, edits(TEXT, a={"points": 4})) == TEXT.replace("1.50", "4")
    assert edit_checks(TEXT, edits(TEXT, c={"gate": True})) == TEXT.replace('"checks:c"}', '"checks:c", "gate": true}')
    assert edit_checks(TEXT.replace("\n", "\r\n"), edits(TEXT, b={"points": 3})) == TEXT.replace(
        '"points": 2', '"points": 3'
    ).replace("\n", "\r\n")


def test_a_check_is_added_and_removed_in_the_form_of_its_neighbours():
    first, _, third = edits(TEXT)
    added = CheckEdit(None, {"kind": "judge", "id": "d", "prompt": "é"})
    text = edit_checks(TEXT, [first, third, added])
    assert '"tags": ["x"]},\n\n    {"kind": "python", "id": "c", "ref": "checks:c"},\n\n    {"kind": "judge", "id": "d"' in text
    assert text.endswith('"prompt": "é"}\n  ],\n  "clip": [0, 1]\n}\n')
    tall = json.dumps(json.loads(TEXT), indent=2)
    grown = edit_checks(tall, [*edits(tall), added])
    assert grown.endswith(tall[tall.index('"checks:c"') + len('"checks:c"') + len("\n    }") :])
    assert '    {\n      "kind": "judge",\n      "id": "d",\n      "prompt": "é"\n    }\n  ]' in grown


@given(checks, st.data(), st.sampled_from([None, 2, "\t"]))
def test_the_result_is_always_what_was_asked_for(old, data, indent):
    text = json.dumps({"checks": old, "rest": [1, {"checks": 2}]}, indent=indent, ensure_ascii=data.draw(st.booleans()))
    kept = data.draw(st.permutations(range(len(old))).map(lambda order: order[: data.draw(st.integers(0, len(old)))]))
    wanted = [
        CheckEdit(place, data.draw(st.just(old[place]) | st.dictionaries(st.text(max_size=4), values, max_size=5)))
        for place in kept
    ]
    wanted += [CheckEdit(None, check) for check in data.draw(checks)]
    result = json.loads(edit_checks(text, wanted))
    assert json.dumps(result) == json.dumps({"checks": [_as_kept(old, edit) for edit in wanted], "rest": [1, {"checks": 2}]})


def _as_kept(old, edit):
    """The fields in the order of the file: old ones first."""
    before = old[edit.was] if edit.was is not None else {}
    kept = {
        name: value if value == edit.check[name] else edit.check[name] for name, value in before.items() if name in edit.check
    }
    return kept | {name: value for name, value in edit.check.items() if name not in before}


@pytest.mark.parametrize("places", [[0, 0], [3], [-1]])
def test_places_that_are_not_in_the_file_are_refused(places):
    with pytest.raises(ConfigError, match="3 in the file"):
        edit_checks(TEXT, [CheckEdit(place, {}) for place in places])
    with pytest.raises(ConfigError, match="no `checks`"):
        edit_checks("{}", [])
