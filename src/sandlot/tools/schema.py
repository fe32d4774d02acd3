"""The signature of a tool: its JSON Schema and the check of a call's arguments, both from the same type hints.

A function's parameters become the fields of one msgspec record. msgspec writes the record's JSON Schema and checks calls against
the record, so the schema shown to the agent and the check cannot differ. Defaults stay with the function: a parameter that the
agent leaves out is not passed. A function that cannot be described is refused when it is loaded, with file, line and parameter.
"""

import inspect
import re
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, cast

import msgspec

from sandlot.core.concurrency.author import location_of
from sandlot.core.errors import ConfigError, ToolError
from sandlot.core.types import Json

_SUPPORTED = "str, int, float, bool, list[...], dict[str, ...], Optional, Literal, Enum, a dataclass or a msgspec.Struct"
_WORLD = "world"
"""A first parameter of this name gets the world and is not part of the schema."""

_DEFS = "#/$defs/"
_ARGUMENT_LINE = re.compile(r"(?P<indent>\s*)(?P<name>\w+)\s*(\([^)]*\))?\s*:\s+(?P<text>\S.*)")
_AT = re.compile(r"(?P<what>.*) - at `(key in )?\$(?P<path>.*)`\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolSignature:
    """The parameters of a tool, as an agent sees them."""

    description: str
    parameters: Json
    wants_world: bool
    record: type[msgspec.Struct]

    def check(self, arguments: Json) -> dict[str, Any]:
        """The typed keyword arguments; `ToolError` says which argument is wrong and what was expected."""
        try:
            record = msgspec.convert(arguments, self.record)
        except msgspec.ValidationError as error:
            raise ToolError(f"{_readable(str(error))}. Arguments: {self.usage()}") from error
        values = ((name, getattr(record, name)) for name in record.__struct_fields__)
        return {name: value for name, value in values if value is not msgspec.UNSET}

    def usage(self) -> str:
        """The arguments in one line: `sql (string), limit (integer, optional)`."""
        required, defs = self.parameters.get("required", []), self.parameters.get("$defs", {})
        shown = (
            f"{name} ({_type_text(schema, defs)}{'' if name in required else ', optional'})"
            for name, schema in self.parameters["properties"].items()
        )
        return ", ".join(shown) or "none"


def signature_of(function: Callable[..., Any], *, given: str = _WORLD) -> ToolSignature:
    """Read a function's hints and docstring; `ConfigError` with file, line, parameter and fix if it cannot be a tool.

    A first parameter named `given` is not the agent's: the world, or an app.
    """
    parameters = list(inspect.signature(function).parameters.values())
    wants_world = bool(parameters) and parameters[0].name == given
    if wants_world:
        parameters = parameters[1:]
    hints = {parameter.name: _hint(function, parameter) for parameter in parameters}
    fields = [_field(parameter, hints[parameter.name]) for parameter in parameters]
    record = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
    doc = inspect.getdoc(function) or ""
    described = _argument_lines(doc, set(hints)) | {name: text for name, hint in hints.items() if (text := _annotated_text(hint))}
    return ToolSignature(
        description=" ".join(doc.split("\n\n")[0].split()),
        parameters=_schema(record, parameters, described),
        wants_world=wants_world,
        record=record,
    )


def _hint(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The resolved type of one parameter; `ConfigError` if it has no JSON Schema."""

    def refused(why: str) -> ConfigError:
        return ConfigError(f"{location_of(function)}: parameter `{parameter.name}` of tool `{function.__name__}` {why}")

    if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY}:
        raise refused(f"is `{parameter}`; tools are called by name, so give each argument its own parameter")
    if parameter.name == _WORLD:
        raise refused("must be the first parameter to get the world")
    if parameter.annotation is parameter.empty:
        raise refused(f"has no type; write `{parameter.name}: str` or another of {_SUPPORTED}")
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        hint = typing.get_type_hints(holder, globalns=names, include_extras=True)[parameter.name]
    except (NameError, SyntaxError, TypeError, AttributeError) as error:
        raise refused(
            f"has type `{parameter.annotation}`, which cannot be resolved: {error}; import it at the top of the file"
        ) from error
    try:
        msgspec.json.schema_components([hint])
    except (TypeError, ValueError, RecursionError) as error:
        why = str(error).splitlines()[-1]
        raise refused(f"has type `{_hint_text(hint)}`, which has no JSON Schema: {why}; use {_SUPPORTED}") from error
    return hint


def _field(parameter: inspect.Parameter, hint: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.default is parameter.empty:
        return parameter.name, hint
    return parameter.name, typing.Union[hint, msgspec.UnsetType], msgspec.UNSET  # noqa: UP007 - a hint may be a string form that has no `|`


def _schema(record: type[msgspec.Struct], parameters: list[inspect.Parameter], described: dict[str, str]) -> Json:
    (reference,), components = msgspec.json.schema_components([record], ref_template=_DEFS + "{name}")
    schema: Json = components.pop(reference["$ref"].removeprefix(_DEFS))
    schema.pop("title")
    for parameter in parameters:
        field: Json = schema["properties"][parameter.name]
        if text := described.get(parameter.name):
            field.setdefault("description", text)
        if parameter.default is not parameter.empty and (default := _default(parameter.default)) is not msgspec.UNSET:
            field["default"] = default
    if components:
        schema["$defs"] = components
    return schema


def _default(value: Any) -> Any:
    """A default as JSON data; UNSET if it cannot be written as JSON."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, OverflowError):
        return msgspec.UNSET


def _annotated_text(hint: Any) -> str | None:
    """The text in `Annotated[type, "text"]`."""
    if typing.get_origin(hint) is not Annotated:
        return None
    return next((each for each in cast("tuple[Any, ...]", hint.__metadata__) if isinstance(each, str)), None)


def _argument_lines(doc: str, names: set[str]) -> dict[str, str]:
    """`name: text` and `name (type): text` lines of a docstring, with their indented continuations."""
    found: dict[str, str] = {}
    current, indent = None, 0
    for line in doc.splitlines()[1:]:
        match = _ARGUMENT_LINE.fullmatch(line)
        if match and match["name"] in names:
            current, indent = match["name"], len(match["indent"])
            found[current] = match["text"].strip()
        elif current and line.strip() and len(line) - len(line.lstrip()) > indent:
            found[current] += " " + line.strip()
        else:
            current = None
    return found


def _readable(message: str) -> str:
    """A validation error as a sentence that starts with the argument's name."""
    match = _AT.fullmatch(message)
    if match:
        path = match["path"].removeprefix(".")
        return f"argument `{path}`: {match['what'][:1].lower()}{match['what'][1:]}"
    message = message.replace("Object missing required field", "missing argument")
    return message.replace("Object contains unknown field", "unknown argument")


def _type_text(schema: Json, defs: Json) -> str:
    schema = defs.get(str(schema.get("$ref", "")).removeprefix(_DEFS), schema)
    if "enum" in schema:
        return "one of " + ", ".join(map(repr, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_type_text(each, defs) for each in schema["anyOf"])
    return str(schema.get("type", "any"))


def _hint_text(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) else str(hint)
