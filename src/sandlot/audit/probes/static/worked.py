"""Answers that the author computes from other values and stores beside them, read from the function that makes the tasks.

`paid = (damage - excess) * share // 100`, with `paid` in the key and all four names in the data: an agent that sees the data sees
the answer beside its inputs. Values that are drawn, picked or looked up do not count, because finding them may be the task.
"""

import ast
from collections.abc import Iterator

from sandlot.audit.probes.static.code import Code, Function, Part, names_in

_MIN_SOURCES = 2
"""Fewest other values of the data from which the answer is computed."""
_WORK = (ast.BinOp, ast.Compare, ast.IfExp, ast.BoolOp)


def computed_answers(code: Code) -> dict[str, str]:
    """Key fields whose value is also in the data and is computed from other values there, with its name in the code."""
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
            sources = {source for value in values.get(name, ()) if _is_work(value) for source in names_in(value)}
            if name in shown and len(sources & _names_behind(given["data"], values, {name})) >= _MIN_SOURCES:
                yield field, name


def _values(function: Function) -> dict[str, list[ast.expr]]:
    """All values assigned to each name; tuples are unpacked."""
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
    """Fields of a literal key, and the names in their values."""
    for record in values.get(key.id, ()) if isinstance(key, ast.Name) else (key,):
        for field, value in zip(record.keys, record.values, strict=True) if isinstance(record, ast.Dict) else ():
            if isinstance(field, ast.Constant):
                yield from ((str(field.value), name) for name in sorted(names_in(value)))


def _names_behind(node: ast.expr, values: dict[str, list[ast.expr]], without: set[str]) -> set[str]:
    """The names whose values are in a record, directly or through other records."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        for name in names_in(waiting.pop()) - found - without:
            found.add(name)
            waiting += [value for value in values.get(name, ()) if _is_record(value)]
    return found


def _is_record(value: ast.expr) -> bool:
    """True for a literal dict, list or tuple, or two of them joined."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr | ast.Add):
        return _is_record(value.left) or _is_record(value.right)
    return isinstance(value, ast.Dict | ast.List | ast.Tuple)


def _is_work(value: ast.expr) -> bool:
    return not _is_record(value) and any(isinstance(node, _WORK) for node in ast.walk(value))
