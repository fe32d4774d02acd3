import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.core.errors import ConfigError, ToolError
from sandlot.tools.schema import signature_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Line:
    account: str
    amount: float


class Order(msgspec.Struct):
    lines: list[Line]
    note: str = ""


def everything(  # noqa: PLR0917 - one of each
    world,
    text: str,
    count: int,
    share: float,
    sure: bool,
    names: list[str],
    table: dict[str, int],
    order: Order,
    colour: Colour = Colour.RED,
    mode: Literal["fast", "slow"] = "fast",
    maybe: Optional[int] = None,  # noqa: UP045 - the old spelling must work too
    either: int | str = 3,
    extra: Any = None,
    tags: Annotated[list[str], "labels to put on it"] = [],  # noqa: B006 - authors do write this
    level: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1,
):
    """Do everything
    at once.

    Not part of the description.

    Args:
        text: what to say,
            over two lines
        count (int): how often
        names:
    """


def test_a_schema_says_what_the_hints_and_the_docstring_say():
    signature = signature_of(everything)
    schema = signature.parameters
    jsonschema.Draft202012Validator.check_schema(schema)
    properties = schema["properties"]
    assert signature.description == "Do everything at once."
    assert signature.wants_world
    assert "world" not in properties
    assert schema["required"] == ["text", "count", "share", "sure", "names", "table", "order"]
    assert schema["additionalProperties"] is False
    assert properties["text"] == {"type": "string", "description": "what to say, over two lines"}
    assert properties["count"] == {"type": "integer", "description": "how often"}
    assert properties["colour"] == {"$ref": "#/$defs/Colour", "default": "red"}
    assert properties["mode"] == {"enum": ["fast", "slow"], "default": "fast"}
    assert properties["maybe"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert properties["tags"]["description"] == "labels to put on it"
    assert properties["tags"]["default"] == []
    assert properties["level"] == {"type": "integer", "minimum": 1, "maximum": 5, "default": 1}
    assert set(schema["$defs"]) == {"Colour", "Order", "Line"}


FULL = {
    "text": "a",
    "count": 1,
    "share": 1,
    "sure": True,
    "names": [],
    "table": {},
    "order": {"lines": [{"account": "x", "amount": 2}]},
}


def test_checked_arguments_have_their_types_and_leave_out_defaults():
    values = signature_of(everything).check(FULL)
    assert values["order"] == Order(lines=[Line("x", 2.0)])
    assert type(values["share"]) is float
    assert "colour" not in values
    assert signature_of(everything).check(FULL | {"colour": "blue"})["colour"] is Colour.BLUE


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"count": "1"}, "argument `count`: expected `int`, got `str`"),
        ({"count": True}, "argument `count`: expected `int`, got `bool`"),
        ({"count": 1.5}, "argument `count`: expected `int`, got `float`"),
        ({"share": "0.5"}, "argument `share`: expected `float`, got `str`"),
        ({"names": [1]}, "argument `names[0]`: expected `str`, got `int`"),
        ({"order": {"lines": [{"account": "x"}]}}, "argument `order.lines[0]`: object missing required field `amount`"),
        ({"mode": "medium"}, "argument `mode`: invalid enum value 'medium'"),
        ({"level": 9}, "argument `level`: expected `int` <= 5"),
        ({"bogus": 1}, "unknown argument `bogus`"),
        ({"world": {}}, "unknown argument `world`"),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_expected(wrong: dict[str, Any], said: str):
    with pytest.raises(ToolError) as caught:
        signature_of(everything).check(FULL | wrong)
    assert str(caught.value).startswith(said)
    assert "text (string), count (integer)" in str(caught.value)


def test_a_missing_argument_is_named():
    with pytest.raises(ToolError, match="missing argument `text`"):
        signature_of(everything).check({})


@dataclass
class Arguments:
    kind: str


def test_a_type_may_be_called_as_our_own_record_is():
    def search(arguments: Arguments, colour: Colour = Colour.RED):
        pass

    signature = signature_of(search)
    assert set(signature.parameters["properties"]) == {"arguments", "colour"}
    assert signature.check({"arguments": {"kind": "x"}}) == {"arguments": Arguments("x")}
    assert signature.usage() == "arguments (object), colour (one of 'blue', 'red', optional)"


class Node(msgspec.Struct):
    children: "list[Node]" = []


def test_a_type_may_contain_itself():
    def plant(tree: Node):
        pass

    signature = signature_of(plant)
    assert signature.check({"tree": {"children": [{}]}}) == {"tree": Node([Node()])}
    jsonschema.Draft202012Validator(signature.parameters).validate({"tree": {"children": [{}]}})


class Opaque:
    pass


def untyped(sql):
    pass


def opaque(thing: Opaque):
    pass


def unresolved(thing: "NoSuchName"):  # noqa: F821 - the point
    pass


def starred(*things: str):
    pass


def keywords(**things: str):
    pass


def positional(thing: str, /):
    pass


def late_world(sql: str, world: Any):
    pass


def two_records(either: Line | Order):
    pass


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (untyped, "parameter `sql` of tool `untyped` has no type; write `sql: str`"),
        (opaque, "parameter `thing` of tool `opaque` has type `Opaque`, which has no JSON Schema"),
        (unresolved, "name 'NoSuchName' is not defined; import it"),
        (starred, "tools are called by name"),
        (keywords, "tools are called by name"),
        (positional, "tools are called by name"),
        (late_world, "parameter `world` of tool `late_world` must be the first"),
        (two_records, "has no JSON Schema"),
    ],
)
def test_a_function_that_cannot_be_described_is_refused_with_its_place(function: Any, said: str):
    with pytest.raises(ConfigError) as caught:
        signature_of(function)
    assert f"{__file__}:{function.__code__.co_firstlineno}: " in str(caught.value)
    assert said in str(caught.value)


def test_a_hint_only_for_the_type_checker_on_world_is_no_obstacle():
    def query(world: "NotImportedAnywhere", sql: str) -> "NeitherIsThis":  # noqa: F821 - the point
        pass

    assert list(signature_of(query).parameters["properties"]) == ["sql"]


WORDS = st.sampled_from(["", "a", "b", "name", "1"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


def sums(name: str, values: list[int], weight: float = 1.0, mode: Literal["a", "b"] = "a", deep: dict[str, list[bool]] = {}):  # noqa: B006 - as above
    pass


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["name", "values", "weight", "mode", "deep", "other"]), JSON))
def test_what_is_accepted_is_what_the_published_schema_accepts(arguments: dict[str, Any]):
    signature = signature_of(sums)
    try:
        signature.check(arguments)
        accepted = True
    except ToolError:
        accepted = False
    valid = jsonschema.Draft202012Validator(signature.parameters).is_valid(arguments)
    # JSON Schema calls 1.0 an integer; we do not, since the author's code would be handed a float
    assert accepted == valid or (valid and any(isinstance(each, float) for each in arguments.get("values", [])))
