"""What a `setup.py` says to `setup()`, read from its text: it is never run.

Understood are literals, names of the file's own top level that hold them, and sums of both. All else is left out, so that what
is read may be less than what the script would say.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from sandlot.core.syntax import parse_python

_MAX_BYTES = 2**18
_MAX_LENGTH = 10_000
"""Of a sum: each line of a script could double what it has."""


class _UnknownError(Exception):
    """An expression that would have to be run."""


def setup_arguments(path: Path) -> dict[str, Any]:
    """The keyword arguments of the call of `setup` by name; empty if there is none that can be read."""
    try:
        return _arguments(parse_python(path.read_text(encoding="utf-8"))) if path.stat().st_size <= _MAX_BYTES else {}
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return {}


def strings(value: Any) -> Iterator[str]:
    """The lines of a list of requirements, or of one text with a requirement on each line."""
    if isinstance(value, str):
        yield from value.splitlines()
    elif isinstance(value, list):
        yield from (each for each in cast("list[Any]", value) if isinstance(each, str))


def _arguments(tree: ast.Module) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            _assign(statement, names)
    found: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "setup":
            found |= _keywords(node, names)
    return found


def _assign(statement: ast.Assign, names: dict[str, Any]) -> None:
    try:
        value = _value(statement.value, names)
    except _UnknownError:
        value = None
    for target in statement.targets:
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and isinstance(target.slice, ast.Constant):
            known = names.get(target.value.id)
            if isinstance(known, dict):
                known[target.slice.value] = value


def _keywords(call: ast.Call, names: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments that can be read, those of `**name` too."""
    found: dict[str, Any] = {}
    for keyword in call.keywords:
        try:
            value = _value(keyword.value, names)
        except _UnknownError:
            continue
        if keyword.arg:
            found[keyword.arg] = value
        elif isinstance(value, dict):
            found |= value
    return found


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.List() | ast.Tuple() | ast.Set():
            return list(_elements(node.elts, names))
        case ast.Dict():
            return {
                each.value: found
                for each, inner in zip(node.keys, node.values, strict=True)
                if isinstance(each, ast.Constant)
                for found in _elements([inner], names)
            }
        case ast.Name() if node.id in names:
            return names[node.id]
        case ast.Call(func=ast.Name("dict"), args=[]):
            return _keywords(node, names)
        case _:
            return _computed(node, names)


def _computed(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
            return _item(_value(inner, names), key)
        case ast.BinOp(op=ast.Add()):
            return _sum(_value(node.left, names), _value(node.right, names))
        case _:
            raise _UnknownError


def _elements(nodes: list[ast.expr], names: Mapping[str, Any]) -> Iterator[Any]:
    """Those that can be read."""
    for node in nodes:
        try:
            if isinstance(node, ast.Starred):
                yield from strings(_value(node.value, names))
            else:
                yield _value(node, names)
        except _UnknownError:
            continue


def _item(value: Any, key: Any) -> Any:
    if isinstance(value, dict) and key in value:
        return cast("dict[Any, Any]", value)[key]
    raise _UnknownError


def _sum(left: Any, right: Any) -> Any:
    if {type(left), type(right)} not in ({list}, {str}) or len(left) + len(right) > _MAX_LENGTH:
        raise _UnknownError
    return left + right
