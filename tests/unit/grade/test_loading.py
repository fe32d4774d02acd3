import json

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandlot.core.errors import ConfigError
from sandlot.core.rubric import JudgeCheck, PythonCheck
from sandlot.grade.loading import line_of, load_rubric, rubric_schema

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy

GOOD = """{
  "format": 1,
  "checks": [
    {"kind": "python", "id": "a", "ref": "checks:cell", "args": {"x": [1, {"y": "$key.a"}]}, "points": 5, "tags": ["t"]},
    {"kind": "judge", "id": "b", "prompt": "It is so.", "view": ["answer", "/out/r.txt"], "points": -2,
     "requires": ["a"], "examples": [{"view": "v", "verdict": "yes"}]}
  ],
  "groups": [{"id": "g", "cap": 3, "checks": ["a"]}],
  "clip": [0, 1]
}
"""


def test_a_rubric_is_read_whole(tmp_path):
    file = tmp_path / "default.json"
    file.write_text("\ufeff" + GOOD)
    rubric = load_rubric(file)
    assert [type(check) for check in rubric.checks] == [PythonCheck, JudgeCheck]
    assert rubric.checks[0].args == {"x": [1, {"y": "$key.a"}]}
    jsonschema.validate(json.loads(GOOD), rubric_schema())


BROKEN = {
    "not JSON": ('"clip": [0, 1]\n', '"clip": [0, 1\n', r":10: not JSON"),
    "an unknown field": ('"points": 5', '"pionts": 5', r":4: .*unknown field `pionts`.*; a check has: kind, id, points"),
    "a wrong type": ('"points": 5', '"points": "5"', r":4: Expected `float`, got `str`, at `\$\.checks\[0\]\.points`"),
    "an unknown kind": ('"kind": "judge"', '"kind": "llm"', r":5: Invalid value 'llm', .*; `kind` is `python` or `judge`"),
    "a missing field": ('"id": "b", ', "", r":5: .*missing required field `id`"),
    "a doubled key": ('"points": 5', '"points": 5, "points": 6', "`points` appears twice"),
    "NaN": ('"points": 5', '"points": NaN', "`NaN` is not valid JSON"),
    "too large a number": ('"points": 5', '"points": 1e999', r":4: check `a`: points are inf"),
    "an unknown requirement": ('"requires": ["a"]', '"requires": ["c"]', r":6: check `b`: requires `c`, .*; checks: `a`, `b`"),
    "requiring itself": ('"requires": ["a"]', '"requires": ["b"]', "in a circle: `b` -> `b`"),
    "two of one name": ('"id": "b"', '"id": "a"', "2 checks have the id `a`"),
    "an unknown member": ('"checks": ["a"]}]', '"checks": ["z"]}]', r":8: group `g` names check `z`"),
    "a negative cap": ('"cap": 3', '"cap": -3', r":8: group `g`: cap is -3"),
    "a turned clip": ('"clip": [0, 1]', '"clip": [1, 0]', r":9: clip is \[1.0, 0.0\]"),
    "another format": ('"format": 1', '"format": 2', r":2: format is 2"),
    "no positive points": ('"points": 5', '"points": -5', "positive points add up to 0"),
    "a bad reference": ('"checks:cell"', '"cell"', r":4: check `a`: ref `cell`; write `module:function`"),
    "a relative view": ('"/out/r.txt"', '"out/r.txt"', r":5: check `b`: view `out/r.txt`; .*`/out/r.txt`"),
    "an odd example": ('"verdict": "yes"', '"verdict": "sure"', r":6: check `b`: an example's verdict is `sure`"),
    "one choice": ('"prompt"', '"choices": ["yes"], "prompt"', r":5: check `b`: choices are \['yes'\]"),
    "no votes": ('"prompt"', '"votes": 0, "prompt"', "0 votes"),
    "a reserved id": ('"id": "b"', '"id": "constraint:b"', "not starting with `constraint:`"),
    "half a character": ('"It is so."', '"\\ud800"', "half of a surrogate pair"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_what_is_wrong_is_named_with_file_and_line(old, new, message, tmp_path):
    assert GOOD.count(old) == 1
    file = tmp_path / "default.json"
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(ConfigError, match=message) as caught:
        load_rubric(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"3",
        b"null",
        b"{}",
        b'{"checks": {}}',
        b'{"checks": [[]]}',
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"checks": []}',
        b'{"checks": [{"kind": 3}]}',
        b'{"checks":[{}]}',
    ],
)
def test_hostile_files_are_config_errors(data, tmp_path):
    file = tmp_path / "x.json"
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=r"x\.json"):
        load_rubric(file)


def test_a_missing_rubric_lists_what_there_is(tmp_path):
    (tmp_path / "default.json").write_text(GOOD)
    with pytest.raises(ConfigError, match=r"no rubric at .*judged.json`; rubrics there: default"):
        load_rubric(tmp_path / "judged.json")


def test_a_folder_is_no_rubric(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_rubric(tmp_path)


@CALM
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=8,
    ),
    st.integers(0, 4),
)
def test_the_line_of_every_place_is_where_its_value_begins(value, indent):
    text = json.dumps(value, indent=indent)

    def visit(inner, path):
        line = text.splitlines()[line_of(text, path) - 1].strip().rstrip(",") if text else ""
        if isinstance(inner, dict | list) and inner:
            items = inner.items() if isinstance(inner, dict) else enumerate(inner)
            for key, item in items:
                visit(item, f"{path}.{key}" if isinstance(inner, dict) else f"{path}[{key}]")
        else:
            assert line.endswith(json.dumps(inner))

    if not any(ord(character) in range(0x1C, 0x20) or ord(character) in {0x85, 0x2028, 0x2029} for character in text):
        visit(value, "$")
