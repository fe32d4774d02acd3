"""Calls made from a tool's schema: values it allows, and values it forbids.

Golden's arguments are the base where there are any, so that ids exist. Then one argument at a time takes the values that its
schema allows, edge values first.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from sandlot.audit.probes.scripted.reach import properties_of, required_of
from sandlot.audit.subject import Call
from sandlot.core.ports.world import ToolSpec
from sandlot.core.types import Json
from sandlot.model.policy.random_calls import random_arguments

LONG = "a long text " * 170
_TEXTS = ("", " ", "a", "Zoë Østergård 你好", "0", "-1", "null", "../..", "'; --", LONG)
_INTEGERS = (0, 1, -1, 7, 10**6, 2**31, -(2**53))
_NUMBERS = (0.0, -0.5, 0.1, 1e15)
_A_TOOL = 50


def allowed_calls(spec: ToolSpec, golden: Sequence[Call], seed: int) -> list[Call]:
    """Up to 50 calls that fit the schema: golden's with one argument changed, then random ones."""
    rng = Random(f"{seed} {spec.name}")  # noqa: S311 - seeded, not secret
    own = [call.arguments for call in golden if call.tool == spec.name]
    bases = [declared_arguments(spec, base) for base in own[:2]] or [_known_arguments(spec, golden, rng)]
    calls = [Call(spec.name, base) for base in bases]
    for base in bases:
        for name, schema in properties_of(spec).items():
            calls += [Call(spec.name, {**base, name: value}) for value in _values(schema)]
    calls += [Call(spec.name, random_arguments(spec.parameters, rng)) for _ in range(10)]
    unlike = [call for place, call in enumerate(calls) if call not in calls[:place]]
    return unlike if len(unlike) <= _A_TOOL else unlike[:10] + rng.sample(unlike[10:], _A_TOOL - 10)


def declared_arguments(spec: ToolSpec, arguments: Json) -> Json:
    """Those of golden's arguments that the schema declares."""
    return {name: value for name, value in arguments.items() if name in properties_of(spec)}


def _known_arguments(spec: ToolSpec, golden: Sequence[Call], rng: Random) -> Json:
    """Arguments for a tool golden never calls: values it used under the same names, else random ones."""
    drawn = random_arguments(spec.parameters, rng)
    used = {name: value for call in golden for name, value in call.arguments.items()}
    return {name: used.get(name, value) for name, value in drawn.items()}


def _values(schema: Json) -> list[Any]:
    """Values that an argument's schema allows, edge values first."""
    if "const" in schema or schema.get("enum"):
        return list(schema.get("enum") or [schema["const"]])
    several = schema.get("anyOf") or schema.get("oneOf")
    if several:
        return [value for inner in several for value in _values(inner)]
    texts = [text for text in _TEXTS if schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", len(text))]
    plain: dict[str, list[Any]] = {
        "string": texts,
        "integer": [number for number in _INTEGERS if _within(number, schema)],
        "number": [number for number in _NUMBERS if _within(number, schema)],
        "boolean": [True, False],
        "null": [None],
    }
    return plain.get(str(schema.get("type")), [])


def _within(number: float, schema: Json) -> bool:
    low, high = schema.get("minimum", number), schema.get("maximum", number)
    return low <= number <= high and number not in {schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")}


def forbidden_calls(spec: ToolSpec, base: Json) -> Iterator[tuple[str, Call]]:
    """Calls that clearly break the schema, each with what is wrong."""
    for name in required_of(spec):
        yield f"without `{name}`", Call(spec.name, {each: value for each, value in base.items() if each != name})
    for name, schema in properties_of(spec).items():
        if schema.get("type") in {"string", "integer", "number", "boolean"}:
            yield f"`{name}` is an object", Call(spec.name, {**base, name: {"no": ["such", "thing"]}})
        if schema.get("enum") and all(isinstance(value, str) for value in schema["enum"]):
            yield f"`{name}` is not an allowed value", Call(spec.name, {**base, name: "none-of-these"})
