"""How a task and an answer become the arguments of a grader.

    answer={answer} expected={golden} entry={task}        by name
    {answer} {golden}                                     by position
    answer={answer} tolerance=0.01 mode=exact             with constants: JSON where it is JSON, else text

`{answer}` is the answer to grade, `{golden}` and `{prompt}` are from the task file, `{task}` is the whole line, and any other
name is a field of the line: `{metadata}`, `{metadata.seed}`.
"""

import shlex
from collections.abc import Sequence
from typing import Any

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.types import Json

DEFAULT = "{answer} {golden}"


class Argument(msgspec.Struct, frozen=True, kw_only=True):
    """One argument, and where its value comes from."""

    name: str | None
    """None for an argument by position."""
    field: str | None
    """The name in braces; None for a constant."""
    value: Any = None


def read_mapping(text: str) -> tuple[Argument, ...]:
    """Parse a mapping into all arguments of a call."""
    arguments = tuple(_argument(word) for word in shlex.split(text))
    if not any(argument.field == "answer" for argument in arguments):
        raise ConfigError("no argument is `{answer}`, so the grader would not get the answer; add `{answer}`")
    return arguments


def fill_arguments(arguments: Sequence[Argument], line: Json, golden: Any, prompt: str, answer: str) -> tuple[list[Any], Json]:
    """The arguments by position, and those by name, for one answer."""
    known: Json = line | {"answer": answer, "golden": golden, "prompt": prompt, "task": line}
    pairs = [(argument.name, _value(argument, known)) for argument in arguments]
    return [value for name, value in pairs if name is None], {name: value for name, value in pairs if name is not None}


def _argument(word: str) -> Argument:
    name, mark, rest = word.partition("=")
    if not mark or not name.isidentifier():
        name, rest = "", word
    if rest.startswith("{") and rest.endswith("}") and rest[1:-1].replace(".", "").replace("_", "").isalnum():
        return Argument(name=name or None, field=rest[1:-1])
    try:
        return Argument(name=name or None, field=None, value=msgspec.json.decode(rest))
    except msgspec.DecodeError:
        return Argument(name=name or None, field=None, value=rest)


def _value(argument: Argument, known: Json) -> Any:
    if argument.field is None:
        return argument.value
    value: Any = known
    for part in argument.field.split("."):
        if not isinstance(value, dict) or part not in value:
            there = ", ".join(f"`{name}`" for name in sorted(known))
            raise ConfigError(f"`{{{argument.field}}}` is not a field of the task; there are: {there}")
        value = value[part]  # pyright: ignore[reportUnknownVariableType] - the author's data
    return value  # pyright: ignore[reportUnknownVariableType]
