"""Where in a file a patch changes something, and how a running program is made to say that it came there."""

import ast
from pathlib import Path

from sandlot.core.syntax import parse_python


def changed_line(old: str, new: str) -> int:
    """The first line of the old text that is different."""
    pairs = zip(old.splitlines(), new.splitlines(), strict=False)
    return next((number for number, (one, other) in enumerate(pairs, 1) if one != other), old.count("\n"))


def add_calls(path: Path, places: dict[str, int]) -> list[str]:
    """Let every place (name -> line) of a file call the recorder; the names of those that stand outside of functions."""
    source = path.read_text()
    tree, lines = parse_python(source), source.splitlines(keepends=True)
    where = {name: _line_before(tree, lines, line) for name, line in places.items()}
    for name, line in sorted(where.items(), key=lambda each: -(each[1] or 0)):
        if line is not None:
            text = lines[line - 1]
            indent = text[: len(text) - len(text.lstrip())]
            lines.insert(line - 1, f"{indent}__import__('sandlot_recorder').at({name!r})\n")
    path.write_text("".join(lines))
    return [name for name, line in where.items() if line is None]


def _line_before(tree: ast.Module, lines: list[str], line: int) -> int | None:
    """The line of the innermost statement of a function that holds this line, and that begins a line of its own."""
    best: int | None = None
    blocks: list[tuple[list[ast.stmt], bool]] = [(tree.body, False)]
    while blocks:
        body, in_function = blocks.pop()
        for statement in body:
            if not _first_line(statement) <= line <= statement.end_lineno:
                continue
            is_function = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
            if in_function and _begins_line(statement, lines):
                best = _first_line(statement)
            if is_function and line < statement.body[0].lineno:
                return _first_statement(statement)
            blocks += [(block, in_function or is_function) for block in _blocks_of(statement)]
    return best


def _first_line(statement: ast.stmt) -> int:
    return min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", []))])


def _first_statement(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int | None:
    has_text = ast.get_docstring(function, clean=False) is not None
    body = function.body[1:] if has_text else function.body
    return _first_line(body[0]) if body else None


def _begins_line(statement: ast.stmt, lines: list[str]) -> bool:
    """`elif` and what follows a colon do not."""
    text = lines[statement.lineno - 1]
    return not text.encode()[: statement.col_offset].strip() and not text.lstrip().startswith("elif")


def _blocks_of(statement: ast.stmt) -> list[list[ast.stmt]]:
    blocks = [getattr(statement, field, []) for field in ("body", "orelse", "finalbody")]
    blocks += [handler.body for handler in getattr(statement, "handlers", [])]
    return blocks + [case.body for case in getattr(statement, "cases", [])]
