"""A change of one file: parts of its text replaced, and modules imported."""

import ast
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sandlot.core.syntax import parse_python


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replaces the bytes from `start` to `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class CodeChange:
    """One possible change of one file."""

    file: str
    """Its path relative to the author's folder."""
    what: str
    """What it does, in a few words."""
    edits: tuple[TextEdit, ...]
    imports: tuple[str, ...] = ()
    """Lines such as `import re` that the new text needs."""

    def apply(self, text: str) -> str | None:
        """The new text; None if the change does not fit, changes nothing, or is not Python."""
        data = text.encode()
        for edit in sorted(self.edits, key=lambda edit: edit.start, reverse=True):
            data = data[: edit.start] + edit.text.encode() + data[edit.end :]
        changed = data.decode()
        if self.file.endswith(".py"):
            changed = _with_imports(changed, self.imports)
            try:
                parse_python(changed)
            except (SyntaxError, ValueError, RecursionError):
                return None
        return changed if changed != text else None


class SourceText:
    """Python source with its syntax tree, in which nodes are found as bytes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = parse_python(text)
        self._lines = [0]
        for line in text.encode().splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """First and last byte of a node."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[node.end_lineno - 1] + node.end_col_offset

    def of(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node, as the author wrote it."""
        start, end = self.span(node)
        return self.text.encode()[start:end].decode()

    def replace(self, node: ast.expr | ast.stmt, text: str) -> TextEdit:
        """An edit that puts `text` in the place of a node."""
        return TextEdit(*self.span(node), text)

    def line_start(self, node: ast.stmt) -> int:
        """The first byte of the line where a statement begins."""
        return self._lines[node.lineno - 1]


def _with_imports(text: str, imports: Sequence[str]) -> str:
    """The text with each of the `imports` that it has not yet, before its first import or after its docstring."""
    wanted = [line for line in imports if line not in text.splitlines()]
    if not wanted:
        return text
    body = parse_python(text).body
    first = next((node for node in body if isinstance(node, ast.Import | ast.ImportFrom)), None)
    future = [node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    lines = text.splitlines(keepends=True)
    if future:
        place = future[-1].end_lineno or 0
        return "".join([*lines[:place], *(f"{line}\n" for line in wanted), *lines[place:]])
    doc = body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    place = first.lineno - 1 if first else (body[0].end_lineno or 0) if doc else 0
    gap = [] if first else ["\n"]
    return "".join(
        [*lines[:place], *(gap if doc else []), *(f"{line}\n" for line in wanted), *(gap if not doc else []), *lines[place:]]
    )


def unified_diff(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The difference of files by path, as `git apply` and `patch -p1` read it; empty if there is none."""
    shown: list[str] = []
    for file in sorted(after):
        old, new = before.get(file, ""), after[file]
        if old != new:
            lines = difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{file}", f"b/{file}")
            shown += [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]
    return "".join(shown)
