"""D01 in code: tools that cache what other tools change.

Two forms: a cache decorator on a function that reads the world, and a computed value that is stored in the state and not cleared
when its source changes.
"""

import ast
import re
from collections.abc import Iterator

from sandlot.audit.probes.static.code import Code, Function, Part, method_called, names_in
from sandlot.audit.probes.static.sharing import root_name, shared_value
from sandlot.audit.probes.static.sighting import Sighting, code_probe, sighting_at

_CACHES = re.compile(
    r"(functools\.)?(lru_cache|cache|cached_property)|cachetools\.\w+|(.*\.)?(ttl_cache|memoize|memoise|alru_cache)"
)
_READS = re.compile(r"open|sqlite3\.connect|(.*\.)?(read_text|read_bytes|execute|fetchall|fetchone)")
_WRITES = frozenset({"append", "pop", "remove", "update"})


def _look(code: Code) -> Iterator[Sighting]:
    """No tool caches what other tools change."""
    tools = code.working_in(Part.TOOL, Part.USER)
    for function in tools:
        for mark in function.node.decorator_list:
            name = function.module.full_name(mark.func if isinstance(mark, ast.Call) else mark)
            if _CACHES.fullmatch(name) and _reads_state(code, function):
                title = f"caches with `{name}` what tools may change"
                fix = "remove the cache, or pass the state's version as an argument"
                yield sighting_at(function, mark, "D01.cache", title, fix)
        for node in function.nodes():
            if isinstance(node, ast.If):
                yield from _kept_values(function, node, tools)


def _reads_state(code: Code, function: Function) -> bool:
    """True if the function gets a world, or reads shared data that can change."""
    if any(parameter.arg == "world" or _names_world(parameter) for parameter in function.parameters):
        return True
    if function.owner is not None and any(_CACHES.fullmatch(ast.unparse(mark)) for mark in function.node.decorator_list):
        return any(
            isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
            for node in function.nodes()
        )
    for node in function.nodes():
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and shared_value(code, function.module, node.id) is not None
        ):
            stored = [each for other in code.working_in(Part.TOOL, Part.SETUP) for each in _stored_in(other)]
            if any(root_name(each) == node.id for each in stored):
                return True
        if isinstance(node, ast.Call) and _READS.fullmatch(function.module.full_name(node.func)):
            return True
    return False


def _names_world(parameter: ast.arg) -> bool:
    return parameter.annotation is not None and ast.unparse(parameter.annotation).strip("'\"").endswith("World")


def _stored_in(function: Function) -> Iterator[ast.Subscript | ast.Attribute]:
    """The entries and attributes that a function sets or deletes."""
    for node in function.nodes():
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node


# -- values cached in the state ----------------------------------------------------------------------------------------


def _kept_values(function: Function, node: ast.If, tools: list[Function]) -> Iterator[Sighting]:
    """`if not cached: cache it`, where the value is computed from state that a tool changes."""
    held = _missing(node.test)
    if held is None or ".state" not in ast.unparse(held):
        return
    place = ast.unparse(held)
    for statement in node.body:
        if isinstance(statement, ast.Assign) and any(_is_at(target, place) for target in statement.targets):
            forgets = any(_forgets(other, place) for other in tools if other is not function)
            if not forgets and _made_from_state(function, statement.value, place) and _someone_writes(tools, function, place):
                title = f"caches its result in `{place}` and does not clear it when the state changes"
                fix = "compute it at every call, or clear it in every tool that writes"
                yield sighting_at(function, node, "D01.kept", title, fix)


def _missing(test: ast.expr) -> ast.expr | None:
    """The tested place: `k not in PLACE`, `not PLACE`, `PLACE is None`."""
    match test:
        case ast.Compare(ops=[ast.NotIn()], comparators=[place]):
            return place
        case ast.UnaryOp(op=ast.Not(), operand=place):
            return place
        case ast.Compare(left=place, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return place
        case _:
            return None


def _is_at(target: ast.expr, place: str) -> bool:
    return ast.unparse(target) == place or (isinstance(target, ast.Subscript) and ast.unparse(target.value) == place)


def _forgets(function: Function, place: str) -> bool:
    """True if the function clears or sets the cached value."""
    if any(_is_at(node, place) for node in _stored_in(function)):
        return True
    for node in function.nodes():
        called = node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        if called is not None and called.attr in {"pop", "clear", "update"} and ast.unparse(called.value) == place:
            return True
    return False


def _made_from_state(function: Function, value: ast.expr, place: str) -> bool:
    """True if part of the cached value was read from elsewhere."""
    names = names_in(value)
    reads = any(isinstance(node, ast.Attribute) and node.attr == "state" for node in ast.walk(value))
    given = [value for name, values in function.assigned().items() if name in names for value in values]
    return reads or any(not isinstance(value, ast.Constant) and ast.unparse(value) != place for value in given)


def _someone_writes(tools: list[Function], reader: Function, place: str) -> bool:
    """True if another tool changes something other than the cached value."""
    others = [tool for tool in tools if tool is not reader]
    stores = any(not _is_at(node, place) for other in others for node in _stored_in(other))
    return stores or any(method_called(node) in _WRITES for other in others for node in other.nodes())


PROBE = code_probe("cached-state", ("D01",), _look)
