"""Answers that an author works out from other values and puts beside them, read from the function that makes the tasks.

`paid = (damage - excess) * share // 100`, with `paid` in the key and all four names in the data: whoever sees the data sees the
answer next to what it was to be worked out from. Values that are drawn, picked or looked up are not of that kind: finding those
may be the task.
"""

import ast
from collections.abc import Iterator

from sandlot.audit.probes.static.code import Code, Function, Part

_MIN_SOURCES = 2
"""Other values of the data that an answer is worked out from, before it is more than a copy."""
_WORK = (ast.BinOp, ast.Compare, ast.IfExp, ast.BoolOp)


def computed_answers(code: Code) -> dict[str, str]:
    """Fields of tasks' keys that hold what is in the data too, and is worked out from other values there; with its name."""
    return {field: name for function in code.working_in(Part.TASKS) for field, name in _computed_in(function)}


def _computed_in(function: Function) -> Iterator[tuple[str, str]]:
    values = _values(function)
    for node in function.nodes():
        if not isinstance(node, ast.Call) or not function.module.full_name(node.func).endswith("Task"):
            continue
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if "key" not in given or "data" not in given:
            continue
        shown = _names_behind(given["data"], values, set())
        for field, name in _fields(given["key"], values):
            sources = {source for value in values.get(name, ()) if _is_work(value) for source in _names(value)}
            if name in shown and len(sources & _names_behind(given["data"], values, {name})) >= _MIN_SOURCES:
                yield field, name


def _values(function: Function) -> dict[str, list[ast.expr]]:
    """Everything each name is given in plain statements; of pairs, each its own."""
    found: dict[str, list[ast.expr]] = {}
    for node in function.nodes():
        for target in node.targets if isinstance(node, ast.Assign) else ():
            assert isinstance(node, ast.Assign)
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for one, value in pairs:
                if isinstance(one, ast.Name):
                    found.setdefault(one.id, []).append(value)
    return found


def _fields(key: ast.expr, values: dict[str, list[ast.expr]]) -> Iterator[tuple[str, str]]:
    """Fields of a key that is written down, and the names that are put into them."""
    for record in values.get(key.id, ()) if isinstance(key, ast.Name) else (key,):
        for field, value in zip(record.keys, record.values, strict=True) if isinstance(record, ast.Dict) else ():
            if isinstance(field, ast.Constant):
                yield from ((str(field.value), name) for name in sorted(_names(value)))


def _names_behind(node: ast.expr, values: dict[str, list[ast.expr]], without: set[str]) -> set[str]:
    """The names a record is made of, and those that are put into it by name; what others are worked out from is not in it."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        for name in _names(waiting.pop()) - found - without:
            found.add(name)
            waiting += [value for value in values.get(name, ()) if _is_record(value)]
    return found


def _is_record(value: ast.expr) -> bool:
    """True for what holds other values as they are: a dict or list written down, or two of them joined."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr | ast.Add):
        return _is_record(value.left) or _is_record(value.right)
    return isinstance(value, ast.Dict | ast.List | ast.Tuple)


def _is_work(value: ast.expr) -> bool:
    return not _is_record(value) and any(isinstance(node, _WORK) for node in ast.walk(value))


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
