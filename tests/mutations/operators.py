"""The small ways in which one place of a source file can be made wrong.

A candidate is one edit of the text of a function. Texts, annotations, assertions, what is printed or logged, and what is said
about a value (`__repr__`) are left alone: no test should have to hold them.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from sandlot.core.syntax import parse_python

_COMPARISONS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
}  # fmt: skip
_ARITHMETIC = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*")}
_QUIET = {"log", "logger", "logging", "warnings", "print", "echo", "console"}
_SAID = {"__repr__", "__str__", "__rich__", "__rich_console__"}
_LOOKS = {"indent", "width", "stacklevel", "min_width", "max_width", "padding", "strict"}
"""Keywords whose value no test should hold; `strict` of `zip` only says again what the line before has made sure."""
_COMPILED = {"jit", "compile", "overload"}


@dataclass(frozen=True)
class Candidate:
    """One edit: the bytes from `start` to `end` become `text`."""

    operator: str
    function: str
    line: int
    start: int
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


def candidates_of(source: bytes) -> list[Candidate]:
    """Every edit, in the order of the text."""
    return sorted(_Reader(source).candidates(), key=lambda one: (one.start, one.end, one.operator))


class _Reader:
    def __init__(self, source: bytes) -> None:
        self._source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._tree = parse_python(source)

    def candidates(self) -> Iterator[Candidate]:
        yield from self._functions_in(self._tree, "")

    def _functions_in(self, node: ast.AST, inside: str) -> Iterator[Candidate]:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    if child.name not in _SAID and not _is_compiled(child):
                        yield from self._function(child, f"{inside}{child.name}")
                case ast.ClassDef():
                    if not any("Protocol" in ast.dump(base) for base in child.bases):
                        yield from self._functions_in(child, f"{inside}{child.name}.")
                case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                    pass
                case _:
                    yield from self._functions_in(child, inside)

    def _function(self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Iterator[Candidate]:
        body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
        for default in [*function.args.defaults, *filter(None, function.args.kw_defaults)]:
            if isinstance(default, ast.Constant) and isinstance(default.value, int):
                yield self._edit("default changed", name, default, _other_constant(default.value))
        for statement in body:
            yield from self._statement(statement, name)

    def _statement(self, statement: ast.stmt, name: str) -> Iterator[Candidate]:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from self._function(statement, f"{name}.{statement.name}")
                return
            case ast.Assert() | ast.ClassDef() | ast.Import() | ast.ImportFrom():
                return
            case ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call)):
                if _root_of(call.func) in _QUIET:
                    return
            case _:
                pass
        yield from self._whole(statement, name)
        for field, value in ast.iter_fields(statement):
            if field != "annotation" and not isinstance(statement, ast.Raise):
                for part in value if isinstance(value, list) else [value]:
                    yield from self._part(part, name)

    def _whole(self, statement: ast.stmt, name: str) -> Iterator[Candidate]:
        """What can be done to the statement itself, not to what it is made of."""
        match statement:
            case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())):
                yield self._edit("call deleted", name, statement, "pass")
            case ast.Return(value=ast.expr() as value) if not _is_none(value):
                yield self._edit("None returned", name, value, "None")
            case ast.Raise():
                yield self._edit("raise removed", name, statement, "pass")
            case ast.If(test=test) | ast.While(test=test) if not isinstance(test, ast.Constant):
                yield self._negated(name, test)
            case ast.Try():
                for handler in statement.handlers:
                    if not all(isinstance(one, ast.Pass) for one in handler.body):
                        start, end = self._span(handler.body[0])[0], self._span(handler.body[-1])[1]
                        yield Candidate("except body removed", name, handler.body[0].lineno, start, end, "pass")
            case _:
                pass

    def _part(self, part: object, name: str) -> Iterator[Candidate]:
        match part:
            case ast.stmt():
                yield from self._statement(part, name)
            case ast.expr():
                yield from self._expression(part, name)
            case ast.AST():
                for child in ast.iter_child_nodes(part):
                    yield from self._part(child, name)
            case _:
                pass

    def _expression(self, node: ast.expr, name: str) -> Iterator[Candidate]:
        match node:
            case ast.JoinedStr() | ast.Lambda(args=ast.arguments(defaults=[_, *_])):
                return  # positions inside of f-strings are wrong before Python 3.12
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                old, new = _COMPARISONS[type(operator)]
                yield from self._between("comparison flipped", name, left, right, old, new)
            case ast.BoolOp(op=operator, values=[first, second, *_]):
                old, new = ("and", "or") if isinstance(operator, ast.And) else ("or", "and")
                if len(node.values) == 2:
                    yield from self._between("and/or swapped", name, first, second, old, new)
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _ARITHMETIC and _is_number(node):
                old, new = _ARITHMETIC[type(operator)]
                yield from self._between("arithmetic changed", name, left, right, old, new)
            case ast.IfExp(test=test):
                yield self._negated(name, test)
            case ast.Constant(value=bool() as value):
                yield self._edit("True/False swapped", name, node, str(not value))
            case ast.Constant(value=int() as value):
                yield self._edit("integer off by one", name, node, _other_constant(value))
            case ast.Call() if _root_of(node.func) in _QUIET:
                return
            case _:
                pass
        skipped = node.args[:1] if isinstance(node, ast.Call) and _root_of(node.func) == "cast" else []
        for child in ast.iter_child_nodes(node):
            if child not in skipped and not (isinstance(child, ast.keyword) and child.arg in _LOOKS):
                yield from self._part(child, name)

    def _negated(self, name: str, test: ast.expr) -> Candidate:
        start, end = self._span(test)
        return Candidate("condition negated", name, test.lineno, start, end, f"not ({self._source[start:end].decode()})")

    def _between(self, operator: str, name: str, left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Candidate]:
        """The operator's own text stands between its two sides, beside parentheses and comments."""
        after, before = self._span(left)[1], self._span(right)[0]
        pattern = rf"\b{old.replace(' ', '[ ]+')}\b" if old[0].isalpha() else rf"(?<![*/=<>!]){re.escape(old)}(?![*/=])"
        gap = self._source[after:before].decode()
        if "#" not in gap and (place := re.search(pattern, gap)):
            start = after + len(gap[: place.start()].encode())
            line = left.end_lineno + gap[: place.start()].count("\n")
            yield Candidate(operator, name, line, start, start + len(place[0].encode()), new)

    def _edit(self, operator: str, name: str, node: ast.stmt | ast.expr, text: str) -> Candidate:
        return Candidate(operator, name, node.lineno, *self._span(node), text)

    def _span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[node.end_lineno - 1] + node.end_col_offset


def _other_constant(value: int) -> str:
    return str(not value) if isinstance(value, bool) else str(value + 1)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_compiled(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(word in ast.dump(decorator) for decorator in function.decorator_list for word in _COMPILED)


def _root_of(node: ast.expr) -> str:
    """`log` of `log.info`, `cast` of `cast`, nothing of anything else."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id.strip("_") if isinstance(node, ast.Name) else ""


def _is_number(node: ast.BinOp) -> bool:
    """Arithmetic rather than joined texts, lists or paths, as far as it shows."""
    joined = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp, ast.Set, ast.Dict)
    for part in ast.walk(node):
        if isinstance(part, joined) or (isinstance(part, ast.Constant) and isinstance(part.value, str | bytes)):
            return False
    return not isinstance(node.op, ast.Div) or _looks_counted(node.left) or _looks_counted(node.right)


def _looks_counted(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant | ast.BinOp) or (
        isinstance(node, ast.Call) and _root_of(node.func) in {"len", "sum", "max", "min"}
    )
