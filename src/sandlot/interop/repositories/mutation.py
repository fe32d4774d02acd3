"""Bugs planted in Python source, one small change of its text each. The rest of the file stays as it was written.

Kinds: a comparison turned round, a boundary moved by one, another operator, another constant, a branch removed, a statement
removed, two arguments swapped, a function's body removed.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from sandlot.core.syntax import parse_python


class BugKind(StrEnum):
    """What was done to the source."""

    COMPARISON = "comparison"
    BOUNDARY = "boundary"
    OPERATOR = "operator"
    CONSTANT = "constant"
    BRANCH = "removed-branch"
    STATEMENT = "removed-statement"
    ARGUMENTS = "swapped-arguments"
    BODY = "removed-body"


@dataclass(frozen=True, slots=True)
class Mutation:
    """A replacement of one piece of a file."""

    kind: BugKind
    function: str
    """The qualified name of the function that has the piece; every bug is inside one."""
    line: int
    """The first line of the piece."""
    start: int
    end: int
    """The piece as a range of characters of the file."""
    text: str
    """What stands there instead."""

    def applied(self, source: str) -> str:
        """The file with the bug in it."""
        return source[: self.start] + self.text + source[self.end :]


_TURNED = {
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
    "==": "!=",
    "!=": "==",
    "in": "not in",
    "not in": "in",
    "is": "is not",
    "is not": "is",
}
_MOVED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_OTHER = {"+": "-", "-": "+", "*": "+", "/": "*", "//": "*", "%": "//", "**": "*", "&": "|", "|": "&", "<<": ">>", ">>": "<<"}
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.And: "and",
    ast.Or: "or",
}
_SMALL = 1_000
_MIN_BODY_LINES, _MAX_BODY_LINES = 3, 40


def mutations(source: str) -> list[Mutation]:
    """Every bug that could be planted in a file, in the order of the file; `is_bug` says whether it really is one."""
    try:
        tree = parse_python(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    finder = _Finder(source)
    finder.visit(tree)
    return list(dict.fromkeys(finder.found))


def is_bug(mutation: Mutation, source: str) -> bool:
    """True if the changed text still parses, and to another program."""
    try:
        return ast.dump(parse_python(mutation.applied(source))) != ast.dump(parse_python(source))
    except (SyntaxError, ValueError):
        return False


class _Finder(ast.NodeVisitor):
    """Collects the mutations of one file."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.found: list[Mutation] = []
        self.stack: list[str] = []
        self.in_function = 0
        self.lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    # -- places in the text

    def start(self, node: ast.AST) -> int:
        return self._offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        return self._offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _offset(self, line: int, column: int) -> int:
        """Columns of the tree count bytes."""
        text = self.lines[line - 1]
        return self.starts[line - 1] + (column if text.isascii() else len(text.encode()[:column].decode(errors="ignore")))

    def text(self, node: ast.AST) -> str:
        return self.source[self.start(node) : self.end(node)]

    def add(self, kind: BugKind, line: int, start: int, end: int, text: str) -> None:
        if self.in_function:
            self.found.append(Mutation(kind, ".".join(self.stack), line, start, end, text))

    def between(self, kind: BugKind, left: ast.AST, right: ast.AST, operator: str, new: str) -> None:
        """Replace the operator between two nodes. It is the only operator there: the rest is brackets, comments and blanks."""
        start, end = self.end(left), self.start(right)
        gap = self.source[start:end]
        if "#" in gap or "\\" in gap:
            return
        pattern = r"\s+".join(map(re.escape, operator.split()))
        if operator[0].isalpha():
            pattern = rf"\b{pattern}\b"
        match = re.search(pattern, gap)
        if match:
            self.add(kind, left.end_lineno, start + match.start(), start + match.end(), new)  # type: ignore[attr-defined]

    # -- functions and classes

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.stack.append(node.name)
        for inner in node.body:
            self.visit(inner)
        self.stack.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.stack.append(node.name)
        self.in_function += 1
        self._remove_body(node)
        self._statements(node.body)
        for default in (*node.args.defaults, *(each for each in node.args.kw_defaults if each is not None)):
            self.visit(default)
        for inner in node.body:
            if not _is_docstring(inner):
                self.visit(inner)
        self.in_function -= 1
        self.stack.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Raise(self, node: ast.Raise) -> None:
        """The text of an error is no behaviour."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def _remove_body(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        body = node.body[1:] if _is_docstring(node.body[0]) else node.body
        if not body or node.name.startswith("__") or any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in ast.walk(node)):
            return
        last = body[-1].end_lineno or 0
        if _MIN_BODY_LINES <= last - body[0].lineno + 1 <= _MAX_BODY_LINES and body[0].lineno > node.lineno:
            start = self.start(body[0])
            self.add(BugKind.BODY, body[0].lineno, start, self.end(body[-1]), "raise NotImplementedError")

    def _statements(self, body: list[ast.stmt]) -> None:
        """Statements of a block that can be removed, and of the blocks in it."""
        for node in body:
            for inner in _blocks(node):
                self._statements(inner)
            if isinstance(node, ast.If):
                self._remove_branch(node, body)
            elif _is_effect(node):
                self._remove(BugKind.STATEMENT, node, is_last=_is_alone(node, body))

    def _remove_branch(self, node: ast.If, body: list[ast.stmt]) -> None:
        if self.source[self.start(node) : self.start(node) + 4] == "elif":
            if not node.orelse:
                self._remove(BugKind.BRANCH, node, is_last=False)
            return
        if not node.orelse:
            self._remove(BugKind.BRANCH, node, is_last=_is_alone(node, body))
        elif not (len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)):
            # `else` is removed, from the end of the body on
            start, end = self.end(node.body[-1]), self.end(node.orelse[-1])
            if re.match(r"[ \t]*(#.*)?(\n\s*(#.*)?)*else[ \t]*:", self.source[start:end]):
                self.add(BugKind.BRANCH, node.orelse[0].lineno, start, end, "")

    def _remove(self, kind: BugKind, node: ast.stmt, *, is_last: bool) -> None:
        """Remove whole lines; `pass` stays if the block would be empty."""
        first = self.starts[node.lineno - 1]
        last = self.starts[node.end_lineno or node.lineno]
        indent = self.source[first : self.start(node)]
        if indent.strip() or self.source[self.end(node) : last].strip():
            return  # other text on these lines
        self.add(kind, node.lineno, first, last, f"{indent}pass\n" if is_last else "")

    # -- expressions

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
            old = _OPERATORS[type(operator)]
            self.between(BugKind.COMPARISON, left, right, old, _TURNED[old])
            if old in _MOVED:
                self.between(BugKind.BOUNDARY, left, right, old, _MOVED[old])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        old = _OPERATORS.get(type(node.op), "")
        text = (each for each in (node.left, node.right) if isinstance(each, (ast.JoinedStr, ast.Constant)))
        is_text = any(isinstance(each, ast.JoinedStr) or isinstance(each.value, (str, bytes)) for each in text)
        if old in _OTHER and not is_text:  # text has no other operator than its own
            self.between(BugKind.OPERATOR, node.left, node.right, old, _OTHER[old])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old = _OPERATORS[type(node.op)]
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(BugKind.OPERATOR, left, right, old, "or" if old == "and" else "and")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.add(BugKind.OPERATOR, node.lineno, self.start(node), self.start(node.operand), "")
        elif isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self.add(BugKind.OPERATOR, node.lineno, self.start(node), self.start(node) + 1, "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if value is True or value is False:
            self.add(BugKind.CONSTANT, node.lineno, self.start(node), self.end(node), repr(not value))
        elif type(value) is int and abs(value) < _SMALL and self.text(node) == str(value):
            self.add(BugKind.CONSTANT, node.lineno, self.start(node), self.end(node), str(value + 1))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Positions inside of f-strings are not exact."""

    def visit_Subscript(self, node: ast.Subscript) -> None:
        pieces = [node.slice.lower, node.slice.upper] if isinstance(node.slice, ast.Slice) else [node.slice]
        for piece in pieces:
            if isinstance(piece, ast.Constant) and type(piece.value) is int and self.text(piece) == str(piece.value):
                self.add(BugKind.BOUNDARY, piece.lineno, self.start(piece), self.end(piece), str(piece.value + 1))
            elif piece is not None and isinstance(node.slice, ast.Slice) and not isinstance(piece, ast.UnaryOp):
                text = self.text(piece) if isinstance(piece, (ast.Name, ast.Attribute, ast.Call)) else f"({self.text(piece)})"
                self.add(BugKind.BOUNDARY, piece.lineno, self.start(piece), self.end(piece), f"{text} + 1")
        self.visit(node.value)
        for piece in pieces:
            if piece is not None and not isinstance(piece, ast.Constant):
                self.visit(piece)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id == "range" and node.args:
            stop = node.args[min(1, len(node.args) - 1)]
            self.add(BugKind.BOUNDARY, stop.lineno, self.start(stop), self.end(stop), f"{self.text(stop)} - 1")
        if len(node.args) >= 2 and not any(isinstance(each, ast.Starred) for each in node.args[:2]):
            first, second = node.args[:2]
            middle = self.source[self.end(first) : self.start(second)]
            swapped = self.text(second) + middle + self.text(first)
            if not isinstance(first, ast.GeneratorExp) and self.text(first) != self.text(second):
                self.add(BugKind.ARGUMENTS, first.lineno, self.start(first), self.end(second), swapped)
        self.generic_visit(node)


def _blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of statements in a statement; functions in it have their own turn."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if block:
            yield block
    for handler in getattr(node, "handlers", ()):
        yield handler.body
    for case in getattr(node, "cases", ()):
        yield case.body


def _is_alone(node: ast.stmt, body: list[ast.stmt]) -> bool:
    return all(each is node or _is_docstring(each) for each in body)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_effect(node: ast.stmt) -> bool:
    """A statement that can be left out without leaving a name undefined."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    if isinstance(node, ast.Assign):
        return all(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets)
    return isinstance(node, (ast.AugAssign, ast.Continue, ast.Break, ast.Delete))
