"""The author's code, parsed and never run: functions, and in which part of a rollout each of them runs.

Decorators say what a function is for (`@env.check`, `@env.tool`, ...; in a folder environment, its file and the rubric that names
it). Functions that it calls run in the same part. Probes search only where a pattern matters: randomness in a golden solution is
harmless.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sandlot.audit.case import Case
from sandlot.audit.subject import Description
from sandlot.core.groups import group_by_key
from sandlot.core.rubric import PythonCheck
from sandlot.core.syntax import parse_python

_Definition = ast.FunctionDef | ast.AsyncFunctionDef


class Part(StrEnum):
    """The part of a rollout in which a function runs."""

    TASKS = "tasks"
    SETUP = "setup"
    TOOL = "tool"
    USER = "user"
    CHECK = "check"
    SOLUTION = "solution"


LIVE = frozenset({Part.SETUP, Part.TOOL, Part.USER, Part.CHECK})
"""Parts that run in every rollout."""
_MARKS = {
    "tasks": Part.TASKS,
    "setup": Part.SETUP,
    "tool": Part.TOOL,
    "user": Part.USER,
    "check": Part.CHECK,
    "solution": Part.SOLUTION,
    "adversary": Part.SOLUTION,
    "control": Part.SOLUTION,
}
_DEEPEST = 200
"""Deeper code is generated; walking it would exhaust the stack."""
_HANDED_ON = 4
"""Through how many modules, such as the `__init__` of packages, a name is followed to where it is defined."""
_FOLDER = {("world", "setup"): Part.SETUP, ("tasks", "tasks"): Part.TASKS, ("solution", "solve"): Part.SOLUTION}
_GYMNASIUM = {"reset": Part.SETUP, "step": Part.TOOL}


@dataclass(eq=False, slots=True)
class Function:
    """One function or method of the sources."""

    module: "Module"
    name: str
    node: _Definition
    owner: str | None = None
    """The class it is a method of."""
    parts: set[Part] = field(default_factory=set[Part])
    """Where it runs: by its decorator, or because a function there calls it."""
    marked: frozenset[Part] = frozenset()

    @property
    def where(self) -> str:
        """`file:line`."""
        return f"{self.module.path}:{self.node.lineno}"

    @property
    def parameters(self) -> list[ast.arg]:
        """All parameters, in order."""
        given = self.node.args
        return [*given.posonlyargs, *given.args, *given.kwonlyargs]

    def nodes(self) -> Iterator[ast.AST]:
        """Every node of its body, nested functions included."""
        for statement in self.node.body:
            yield from ast.walk(statement)

    def assigned(self) -> dict[str, list[ast.expr]]:
        """The values of plain assignments to each name, in order."""
        pairs = [(target, node.value) for node in self.nodes() if isinstance(node, ast.Assign) for target in node.targets]
        return group_by_key((target.id, value) for target, value in pairs if isinstance(target, ast.Name))


@dataclass(eq=False, slots=True)
class Module:
    """One source file."""

    path: str
    tree: ast.Module
    imports: dict[str, str] = field(default_factory=dict[str, str])
    """Local name to full name: `np` to `numpy`, `now` to `datetime.datetime.now`."""
    values: dict[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    """Last value assigned to each name at module level."""
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    """By name; methods as `Class.method`."""
    classes: dict[str, ast.ClassDef] = field(default_factory=dict[str, ast.ClassDef])

    @property
    def dotted(self) -> str:
        """The module's name as imported from the environment's folder."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def full_name(self, node: ast.expr) -> str:
        """The full name of an expression, imports resolved; empty if it is not a name."""
        if isinstance(node, ast.Name):
            return self.imports.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            before = self.full_name(node.value)
            return f"{before}.{node.attr}" if before else ""
        return ""


def read_code(case: Case) -> "Code":
    """The code of a case's subject, parsed once for all probes: a repository in the environment may have a thousand files."""
    if "code" not in case.shared:
        case.shared["code"] = Code(case.description)
    return case.shared["code"]


class Code:
    """All modules of the author, with each function's parts."""

    def __init__(self, description: Description) -> None:
        self.kind = description.kind
        self.modules = {module.dotted: module for module in _modules(description.sources)}
        self.functions = [function for module in self.modules.values() for function in module.functions.values()]
        self._methods = group_by_key((each.node.name, each) for each in self.functions if each.owner is not None)
        self._mark(description)
        self._spread()

    def working_in(self, *parts: Part) -> list[Function]:
        """Functions that run in one of these parts."""
        return [function for function in self.functions if function.parts & set(parts)]

    def imported(self) -> list[Module]:
        """Modules that the environment loads: those with a function that runs, and what they import."""
        found: dict[str, Module] = {f.module.dotted: f.module for f in self.functions if f.parts}
        waiting = list(found.values())
        while waiting:
            module = waiting.pop()
            for name in module.imports.values():
                other = self._module_of(name)
                if other is not None and other.dotted not in found:
                    found[other.dotted] = other
                    waiting.append(other)
        return list(found.values())

    def callee(self, module: Module, node: ast.expr) -> list[Function]:
        """The author's functions that an expression may refer to."""
        if isinstance(node, ast.Name) and node.id in module.functions:
            return [module.functions[node.id]]
        name = module.full_name(node)
        other = self._module_of(name)
        for _ in range(_HANDED_ON):
            handed = other.imports.get(name.rpartition(".")[2]) if other is not None else None
            if other is None or handed is None or name.rpartition(".")[2] in {*other.functions, *other.classes}:
                break
            name, other = handed, self._module_of(handed)
        if other is not None:
            rest = name.removeprefix(other.dotted).lstrip(".") if name.startswith(other.dotted) else name.rpartition(".")[2]
            if rest in other.functions:
                return [other.functions[rest]]
            if rest in other.classes:
                return [f for f in other.functions.values() if f.owner == rest and f.node.name in {"__init__", "__post_init__"}]
        if isinstance(node, ast.Attribute):
            return self._methods.get(node.attr, [])
        return []

    def value_of(self, module: Module, name: str) -> ast.expr | None:
        """The module-level value of a name, here or in the author's module it is imported from."""
        return self._defined(module, name)[1]

    def _module_of(self, name: str) -> Module | None:
        """The author's module that a full name begins with; the longest match."""
        pieces = name.lstrip(".").split(".")
        for length in range(len(pieces), 0, -1):
            if ".".join(pieces[:length]) in self.modules:
                return self.modules[".".join(pieces[:length])]
        return None

    # -- parts -------------------------------------------------------------------------------------------------------

    def _mark(self, description: Description) -> None:
        tools = {tool.name for tool in description.tools}
        graders = self._graders(description.name) if description.kind == "grader" else []
        for function in self.functions:
            marks = set(_marks_of(function))
            stem = function.module.dotted.rpartition(".")[2]
            if (stem, function.name) in _FOLDER and "environment.toml" in description.sources:
                marks.add(_FOLDER[stem, function.name])
            if stem == "tools" and function.name in tools:
                marks.add(Part.TOOL)
            if function in graders:
                marks.add(Part.CHECK)
            if description.kind == "gymnasium" and function.node.name in _GYMNASIUM:
                marks |= {_GYMNASIUM[function.node.name], Part.CHECK}
            function.marked = frozenset(marks)
            function.parts = set(marks)
        for check in (check for rubric in description.rubrics.values() for check in rubric.checks):
            found = self._referred(check.ref) if isinstance(check, PythonCheck) else None
            if found is not None:
                found.marked |= {Part.CHECK}
                found.parts.add(Part.CHECK)
        for tool in self._given_tools():
            tool.marked |= {Part.TOOL}
            tool.parts.add(Part.TOOL)

    def _graders(self, named: str) -> list[Function]:
        """The function `module:function`, also if the module only imports it; else all functions of that name."""
        module, _, name = named.partition(":")
        found = self.callee(self.modules[module], ast.Name(name, ast.Load())) if module in self.modules else []
        last = re.split(r"[:.]", named)[-1]
        return found or [function for function in self.functions if function.node.name == last]

    def _referred(self, ref: str) -> Function | None:
        module, _, name = ref.partition(":")
        return self.modules[module].functions.get(name) if module in self.modules else None

    def _given_tools(self) -> Iterator[Function]:
        """Functions named in `@environment(..., tools=[...])`."""
        for function in self.functions:
            for mark in function.node.decorator_list:
                for keyword in mark.keywords if isinstance(mark, ast.Call) else ():
                    if keyword.arg == "tools":
                        for node in ast.walk(keyword.value):
                            yield from self.callee(function.module, node) if isinstance(node, ast.expr) else ()

    def _spread(self) -> None:
        """Give every function the parts of the functions that use it, also through tables of functions."""
        waiting = [function for function in self.functions if function.parts]
        while waiting:
            function = waiting.pop()
            for other in self._used_by(function):
                if not function.parts <= other.parts:
                    other.parts |= function.parts
                    waiting.append(other)

    def _used_by(self, function: Function) -> Iterator[Function]:
        module = function.module
        for node in function.nodes():
            if isinstance(node, ast.Name | ast.Attribute):
                yield from self.callee(module, node)
            if isinstance(node, ast.Name):
                yield from self._inside(*self._defined(module, node.id))

    def _defined(self, module: Module, name: str) -> tuple[Module, ast.expr | None]:
        """The module and value where a module-level name is defined."""
        if name in module.values:
            return module, module.values[name]
        full = module.imports.get(name, "")
        other = self._module_of(full)
        return (other, other.values.get(full.rpartition(".")[2])) if other is not None else (module, None)

    def _inside(self, module: Module, value: ast.expr | None) -> Iterator[Function]:
        if isinstance(value, ast.Dict | ast.List | ast.Tuple | ast.Set):
            for node in ast.walk(value):
                if isinstance(node, ast.Name | ast.Attribute):
                    yield from self.callee(module, node)


def _marks_of(function: Function) -> Iterator[Part]:
    for mark in function.node.decorator_list:
        target = mark.func if isinstance(mark, ast.Call) else mark
        if isinstance(target, ast.Attribute) and target.attr in _MARKS:
            yield _MARKS[target.attr]
        elif function.module.full_name(target).startswith("sandlot.") and function.module.full_name(target).endswith(
            "environment"
        ):
            yield from (Part.TASKS, Part.SETUP, Part.CHECK)


def _modules(sources: Mapping[str, str]) -> Iterator[Module]:
    for path, text in sorted(sources.items()):
        if not path.endswith(".py"):
            continue
        try:
            tree = parse_python(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # not valid Python, so it cannot be loaded
        if _depth(tree) > _DEEPEST:
            continue
        module = Module(path, tree)
        _fill(module)
        yield module


def _depth(tree: ast.AST) -> int:
    depth, level = 0, [tree]
    while level:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def _fill(module: Module) -> None:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            module.imports |= {name.asname or name.name.partition(".")[0]: _imported(name) for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            module.imports |= {name.asname or name.name: _imported_from(module, node, name.name) for name in node.names}
    _define(module, module.tree.body, None)
    for name, value in _assignments(module.tree.body):
        module.values[name] = value


def _imported(name: ast.alias) -> str:
    return name.name if name.asname else name.name.partition(".")[0]


def _imported_from(module: Module, node: ast.ImportFrom, name: str) -> str:
    above = module.path.split("/")[: -node.level] if node.level else []
    return ".".join([*above, *([node.module] if node.module else []), name])


def _define(module: Module, body: Iterable[ast.stmt], owner: str | None) -> None:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{owner}.{node.name}" if owner else node.name
            module.functions[name] = Function(module, name, node, owner)
        elif isinstance(node, ast.ClassDef):
            module.classes[node.name] = node
            _define(module, node.body, node.name)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            _define(module, node.body, owner)


def _assignments(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Names and values of plain assignments, in order."""
    for node in body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _assignments(node.body)


def last_name(node: ast.expr) -> str:
    """`run` for both `run` and `subprocess.run`; empty if it is not a name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def method_called(node: ast.AST) -> str:
    """`append` for `names.append(x)`; empty if it is not a call of a method."""
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def names_in(node: ast.AST) -> set[str]:
    """All names in an expression."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
