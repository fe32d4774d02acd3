"""Data flow: which names of the author's code may hold an agent's text or a task's key.

A name may hold the value of any of its assignments, in any order; a parameter, the value from any caller. This is more than is
true in one run, so findings from it are leads.
"""

import ast
import re
from collections.abc import Iterator
from enum import Flag, auto

from sandlot.audit.probes.static.code import Code, Function, Part, method_called


class Holds(Flag):
    """What an expression may hold."""

    NOTHING = 0
    EVIDENCE = auto()
    """The evidence object that a check gets."""
    TEXT = auto()
    """Text from the agent."""
    DATA = auto()
    """A value computed from that text, or from files the agent left."""
    KEY = auto()
    """The task's key, which only checks know."""


AGENT = Holds.TEXT | Holds.DATA
_SAME_TEXT = frozenset(
    {"lower", "upper", "strip", "lstrip", "rstrip", "casefold", "replace", "removeprefix", "removesuffix", "decode", "title"}
)
_TEXT_OF = frozenset({"str", "re.sub", "unicodedata.normalize", "html.unescape"})
_ANSWERS = re.compile(r"^(?:\w*answer|response|completion|output|prediction|predicted|pred|submission|solution_str|text)$")
_NO_TEXT = frozenset({"World", "Task", "int", "float", "bool"})
"""Types of a tool's parameters that hold no text of the agent."""
_ROUNDS = 4


class Flow:
    """What each name of each function may hold."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._names: dict[Function, dict[str, Holds]] = {
            function: dict(_graded(function) if code.kind == "grader" else _given(function)) for function in code.functions
        }
        self._returns: dict[Function, Holds] = {}
        for _ in range(_ROUNDS):
            for function in code.functions:
                if function.parts:  # what nothing in a rollout calls holds nothing of it
                    self._settle(function)

    def of(self, function: Function, node: ast.AST | None) -> Holds:  # noqa: PLR0911 - one for each kind of expression
        """What an expression of this function may hold."""
        match node:
            case None | ast.Constant():
                return Holds.NOTHING
            case ast.Name():
                return self._names[function].get(node.id, Holds.NOTHING)
            case ast.Attribute():
                return self._attribute(function, node)
            case ast.Call():
                return self._call(function, node)
            case ast.Subscript():
                inner = self.of(function, node.value)
                return inner if isinstance(node.slice, ast.Slice) or Holds.TEXT not in inner else _as_data(inner)
            case ast.Yield():
                asks = isinstance(node.value, ast.Call) and function.module.full_name(node.value.func).endswith("Ask")
                return Holds.TEXT if asks else Holds.NOTHING
            case ast.JoinedStr() | ast.BinOp():
                return self._all(function, node)
            case ast.Await() | ast.NamedExpr() | ast.FormattedValue() | ast.Starred():
                return self.of(function, node.value)
            case ast.Compare() | ast.Lambda():
                return Holds.NOTHING  # a verdict, not text
            case _:
                return _as_data(self._all(function, node))

    def _attribute(self, function: Function, node: ast.Attribute) -> Holds:
        inner = self.of(function, node.value)
        if node.attr == "key" and not inner & (AGENT | Holds.EVIDENCE):
            return Holds.KEY
        if Holds.EVIDENCE in inner:
            return Holds.TEXT if node.attr == "answer" else Holds.DATA
        return _as_data(inner)

    def _call(self, function: Function, node: ast.Call) -> Holds:
        given = Holds.NOTHING
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            given |= self.of(function, argument)
        if isinstance(node.func, ast.Attribute):
            inner = self.of(function, node.func.value)
            if Holds.EVIDENCE in inner:
                return Holds.TEXT if node.func.attr in {"read", "read_text"} else Holds.DATA
            if node.func.attr in _SAME_TEXT:
                return inner
            given |= inner
        if function.module.full_name(node.func) in _TEXT_OF or method_called(node) == "join":
            return Holds.TEXT | given if given & AGENT else given
        own = self._code.callee(function.module, node.func)
        if own:
            returned = Holds.NOTHING
            for callee in own:
                returned |= self._returns.get(callee, Holds.NOTHING)
            return returned
        return _as_data(given)

    def _all(self, function: Function, node: ast.AST) -> Holds:
        found = Holds.NOTHING
        for child in ast.iter_child_nodes(node):
            found |= self.of(function, child)
        return found

    # -- one round -----------------------------------------------------------------------------------------------------

    def _settle(self, function: Function) -> None:
        names = self._names[function]
        returned = Holds.NOTHING
        for node in function.nodes():
            for target, value in _bindings(node):
                held = self.of(function, value)
                looped = isinstance(node, ast.For | ast.AsyncFor | ast.comprehension)
                for name in _names_in(target):
                    names[name] = names.get(name, Holds.NOTHING) | (_as_data(held) if looped else held)
            if isinstance(node, ast.Return):
                returned |= self.of(function, node.value)
            if isinstance(node, ast.Call):
                self._hand_over(function, node)
        self._returns[function] = returned & ~Holds.EVIDENCE

    def _hand_over(self, function: Function, node: ast.Call) -> None:
        for callee in self._code.callee(function.module, node.func):
            if callee.marked & {Part.SOLUTION, Part.TASKS}:
                continue
            parameters = callee.parameters[1:] if callee.owner and callee.parameters else callee.parameters
            handed = [(parameter.arg, value) for parameter, value in zip(parameters, node.args, strict=False)]
            handed += [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg]
            for name, value in handed:
                names = self._names[callee]
                names[name] = names.get(name, Holds.NOTHING) | self.of(function, value)


def _as_data(held: Holds) -> Holds:
    return (held & ~Holds.TEXT) | Holds.DATA if Holds.TEXT in held else held & ~Holds.EVIDENCE


def _given(function: Function) -> Iterator[tuple[str, Holds]]:
    """What Sandlot passes to marked functions."""
    names = [parameter.arg for parameter in function.parameters]
    if Part.CHECK in function.marked and names and not function.owner:
        bare = [name for name in names if name not in {"task", "self", "judge"}]
        first = "evidence" if "evidence" in names else (bare[0] if bare else None)
        if first is not None and not any(isinstance(node, ast.Yield) for node in function.nodes()):
            yield first, Holds.EVIDENCE
    if Part.TOOL in function.marked:
        for parameter in function.parameters:
            if parameter.arg not in {"world", "task", "self"} and _annotation(parameter) not in _NO_TEXT:
                yield parameter.arg, Holds.TEXT


def _graded(function: Function) -> Iterator[tuple[str, Holds]]:
    """A grader function gets the answer and the key, by these names or in this order."""
    if Part.CHECK not in function.marked:
        return
    names = [parameter.arg for parameter in function.parameters if parameter.arg not in {"self", "cls"}]
    answers = [name for name in names if _ANSWERS.search(name)] or names[:1]
    for name in names:
        yield name, Holds.TEXT if name in answers else Holds.KEY


def _annotation(parameter: ast.arg) -> str:
    return ast.unparse(parameter.annotation).rpartition(".")[2].strip("'\"") if parameter.annotation is not None else ""


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    match node:
        case ast.Assign():
            for target in node.targets:
                yield target, node.value
        case ast.AnnAssign() if node.value is not None:
            yield node.target, node.value
        case ast.AugAssign() | ast.NamedExpr():
            yield node.target, node.value
        case ast.For() | ast.AsyncFor() | ast.comprehension():
            yield node.target, node.iter
        case ast.withitem() if node.optional_vars is not None:
            yield node.optional_vars, node.context_expr
        case _:
            return


def _names_in(target: ast.expr) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
