"""D05 in code: state that outlives a rollout.

Module-level values may be read; a rollout that *changes* them changes them for the next rollout.
"""

import ast
import re
from collections.abc import Iterator

from sandlot.audit.finding import Severity
from sandlot.audit.probes.static.code import LIVE, Code, Function, Module, Part
from sandlot.audit.probes.static.sighting import Sighting, code_probe, sighting_at

_CHANGES = frozenset(
    {"append", "extend", "insert", "add", "update", "setdefault", "pop", "popitem", "remove", "discard", "clear", "appendleft"}
    | {"popleft", "sort", "reverse", "subtract"}
)
_MAKERS = frozenset({"dict", "list", "set", "defaultdict", "Counter", "deque", "OrderedDict", "bytearray", "count", "iter"})
_HARMLESS = re.compile(
    r"(.*\.)?(Environment|compile|Path|PurePath|PurePosixPath|frozenset|tuple|getLogger|namedtuple|TypeVar|NewType|Limits|McpServer|"
    r"MappingProxyType|Fraction|Decimal|Lock|RLock|Semaphore|range|str|int|float|date|datetime|timedelta)"
)
_COPIED_BY_BASES = frozenset({"Struct", "BaseModel", "TypedDict", "NamedTuple", "Enum", "StrEnum", "Protocol"})

_FRESH = "create it in setup, in `world.state`, from the task's data"


def _look(code: Code) -> Iterator[Sighting]:
    """No rollout changes state that other rollouts share."""
    for function in code.working_in(*LIVE):
        own = _locals(function)
        for node in function.nodes():
            yield from _changed(code, function, node, own)
            yield from _aliased(code, function, node, own)
            yield from _borrowed(code, function, node)
        yield from _defaults(function)
    for module in code.imported():
        yield from _class_attributes(module)


# -- modules -----------------------------------------------------------------------------------------------------------


def _locals(function: Function) -> set[str]:
    """Local names of the function, which hide module-level ones."""
    shared = {name for node in function.nodes() if isinstance(node, ast.Global) for name in node.names}
    bound = {node.id for node in function.nodes() if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return ({parameter.arg for parameter in function.parameters} | bound) - shared


def _changed(code: Code, function: Function, node: ast.AST, own: set[str]) -> Iterator[Sighting]:
    for target, memo in _targets(function, node):
        name = root_name(target)
        if name is None or name in own:
            continue
        value = shared_value(code, function.module, name)
        if value is None:
            continue
        title = f"changes `{name}`, which all rollouts share"
        yield sighting_at(function, node, "D05.module", title, _FRESH, Severity.LOW if memo else Severity.HIGH)


def _targets(function: Function, node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """What a statement changes in place, and whether it only fills a cache."""
    match node:
        case ast.Assign() | ast.AugAssign() | ast.Delete() | ast.AnnAssign():
            targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
            for target in targets:
                if isinstance(target, ast.Subscript | ast.Attribute):
                    yield target, isinstance(node, ast.Assign) and _is_memo(function, target)
                elif isinstance(target, ast.Name) and any(
                    isinstance(other, ast.Global) and target.id in other.names for other in function.nodes()
                ):
                    yield target, False
        case ast.Call(func=ast.Attribute()) if isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            yield node.func.value, False
        case ast.Call(func=ast.Name(id="next")) if node.args:
            yield node.args[0], False
        case _:
            return


def _is_memo(function: Function, target: ast.expr) -> bool:
    """`if key not in KNOWN: KNOWN[key] = ...`, which is harmless if the value depends only on the key."""
    if not isinstance(target, ast.Subscript):
        return False
    held = ast.unparse(target.value)
    return any(
        isinstance(node, ast.Compare)
        and any(isinstance(op, ast.NotIn | ast.In) for op in node.ops)
        and any(ast.unparse(right) == held for right in node.comparators)
        for node in function.nodes()
    )


def root_name(node: ast.expr) -> str | None:
    """`table` for `table["x"].y`; None if it does not begin with a name."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def shared_value(code: Code, module: Module, name: str) -> ast.expr | None:
    """The value of a module-level name, if it is mutable."""
    value = module.values.get(name)
    full = module.imports.get(name, "")
    if value is None and full:
        before, _, last = full.rpartition(".")
        other = code.modules.get(before)
        value = other.values.get(last) if other is not None else None
        module = other or module
    if isinstance(value, ast.Dict | ast.List | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp):
        return value
    if isinstance(value, ast.Call):
        called = module.full_name(value.func)
        last = called.rpartition(".")[2]
        own_class = isinstance(value.func, ast.Name) and value.func.id in module.classes
        if last in _MAKERS or (own_class and not _HARMLESS.fullmatch(called)) or called in {"itertools.count", "random.Random"}:
            return value
    return None


def _aliased(code: Code, function: Function, node: ast.AST, own: set[str]) -> Iterator[Sighting]:
    """`world.state = TABLE`: all rollouts share one table."""
    if not isinstance(node, ast.Assign) or not any(_is_state(target) for target in node.targets):
        return
    handed = [node.value]
    if isinstance(node.value, ast.Dict):
        handed += node.value.values
    for value in handed:
        copied = _shallow(value)
        inner = copied if copied is not None else value
        name = inner.id if isinstance(inner, ast.Name) else None
        held = shared_value(code, function.module, name) if name and name not in own else None
        if held is None:
            continue
        nested = isinstance(held, ast.Dict) and any(isinstance(each, ast.Dict | ast.List | ast.Set) for each in held.values)
        nested = nested or (
            isinstance(held, ast.List) and any(isinstance(each, ast.Dict | ast.List | ast.Set) for each in held.elts)
        )
        if copied is None or nested:
            title = f"uses `{name}` as the state of a rollout" + ("" if copied is None else ", with a shallow copy")
            yield sighting_at(function, node, "D05.alias", title, "use a deep copy, or build it in setup")


def _is_state(target: ast.expr) -> bool:
    while isinstance(target, ast.Subscript):
        target = target.value
    return isinstance(target, ast.Attribute) and target.attr == "state"


def _borrowed(code: Code, function: Function, node: ast.AST) -> Iterator[Sighting]:
    """`world.state["x"] = task.data["x"]`, where a tool changes it in place and so changes the task."""
    if not isinstance(node, ast.Assign):
        return
    for target in (target for target in node.targets if _is_state(target)):
        parts = [(target, node.value)]
        if isinstance(node.value, ast.Dict):
            parts = [
                (ast.Subscript(value=target, slice=key), value)
                for key, value in zip(node.value.keys, node.value.values, strict=True)
                if key is not None
            ]
        for place, value in parts:
            if _is_task_data(value) and any(_changes_within(tool, ast.unparse(place)) for tool in code.working_in(Part.TOOL)):
                title = f"puts `{ast.unparse(value)}` into the state without a copy, and a tool changes it for the next rollout"
                yield sighting_at(function, node, "D05.alias", title, "use `copy.deepcopy` of it")


def _is_task_data(value: ast.expr) -> bool:
    while isinstance(value, ast.Subscript):
        value = value.value
    return isinstance(value, ast.Attribute) and value.attr == "data" and ast.unparse(value.value).endswith("task")


def _changes_within(function: Function, place: str) -> bool:
    """True if it changes something inside the place, directly or through a local name."""
    assigned = function.assigned()
    inside = {name for name, values in assigned.items() if any(ast.unparse(value).startswith(place) for value in values)}
    for node in function.nodes():
        for target, _ in _targets(function, node):
            whole = isinstance(node, ast.Assign | ast.AugAssign) and ast.unparse(target) == place  # assigned anew, not changed
            if not whole and (ast.unparse(target).startswith(place) or root_name(target) in inside):
                return True
    return False


def _shallow(value: ast.expr) -> ast.expr | None:
    match value:
        case ast.Call(func=ast.Name(id="dict" | "list" | "set"), args=[only]):
            return only
        case ast.Call(func=ast.Attribute(attr="copy", value=inner), args=[]):
            return inner
        case ast.Call(func=ast.Attribute(attr="copy"), args=[only]):
            return only
        case _:
            return None


# -- classes and defaults ------------------------------------------------------------------------------------------------


def _class_attributes(module: Module) -> Iterator[Sighting]:
    for kind in module.classes.values():
        bases = {module.full_name(base).rpartition(".")[2] for base in kind.bases}
        if bases & _COPIED_BY_BASES or kind.decorator_list:
            continue
        shared = {
            target.id
            for statement in kind.body
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Dict | ast.List | ast.Set)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }
        changed = {name for node in ast.walk(kind) for name in _self_changes(node)}
        renewed = {
            target.attr
            for node in ast.walk(kind)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Attribute)
        }
        for name in sorted((shared & changed) - renewed):
            title = f"`{kind.name}.{name}` is shared by all instances, which change it"
            fix = "create it in `__init__`, or with `field(default_factory=...)`"
            yield sighting_at(module, kind, "D05.class", title, fix)


def _self_changes(node: ast.AST) -> Iterator[str]:
    inner: ast.expr | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
        inner = node.func.value
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        inner = node.value
    while isinstance(inner, ast.Subscript):
        inner = inner.value
    if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
        yield inner.attr


def _defaults(function: Function) -> Iterator[Sighting]:
    """Mutable defaults that are changed, and keep the change for the next call."""
    given = function.node.args
    pairs = [*zip([*given.posonlyargs, *given.args][::-1], given.defaults[::-1], strict=False)]
    pairs += [(name, value) for name, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is not None]
    mutable = {name.arg for name, value in pairs if isinstance(value, ast.Dict | ast.List | ast.Set)}
    for node in function.nodes():
        for target, _ in _targets(function, node):
            if root_name(target) in mutable:
                title = f"changes its default argument `{root_name(target)}`, which keeps the change for the next call"
                yield sighting_at(function, node, "D05.default", title, "use None as the default and create it inside")


PROBE = code_probe("shared-state", ("D05",), _look)
