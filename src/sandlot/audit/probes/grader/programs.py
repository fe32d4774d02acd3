"""Golden answers that are Python: the same program written otherwise, and programs that do something else."""

import ast
import re

from sandlot.core.syntax import parse_python

_LEAST = 2
"""Fewest statements of a function whose body may be left out: with one, an empty body may be right."""


def program_in(value: str) -> ast.Module | None:
    """The Python program in a text, if it defines a function; code in other languages does not parse."""
    if not re.search(r"(?m)^\s*(?:async )?def \w+\(", value):
        return None
    try:
        tree = parse_python(value)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if _functions(tree) else None


def same_program(value: str) -> list[tuple[str, str, bool]]:
    """The kind and text of each program that does the same, and whether that is certain."""
    tree = program_in(value)
    if tree is None:
        return []
    found = [("a comment before it", f"# a solution\n{value}", True), ("an empty line after it", f"{value}\n\n", True)]
    found.append(("spelled by `ast.unparse`", ast.unparse(tree), "#" not in value))
    if (renamed := _renamed(value, tree)) is not None:
        found.append(("another name for a local variable", renamed, True))
    if not value.lstrip().startswith(("import", "from")):
        found.append(("an import before it", f"import math\n\n{value}", True))
    return found


def other_program(value: str) -> list[tuple[str, str, bool]]:
    """The kind and text of each program that does something else, and whether that is certain."""
    tree = program_in(value)
    if tree is None:
        return []
    real = any(len(function.body) >= _LEAST or _returns_value(function) for function in _functions(tree))
    found = [("a body that does nothing", _with_bodies(value, "pass"), real)]
    found.append(("a body that returns what equals everything", _with_bodies(value, _EQUAL), real))
    found.append(("a body that ends the process", _with_bodies(value, "import os\nos._exit(0)"), real))
    found.append(("a body that raises `SystemExit(0)`", _with_bodies(value, "raise SystemExit(0)"), real))
    found.append(("the name alone", f"{_functions(tree)[0].name} = lambda *a, **k: None", real))
    return found


_EQUAL = (
    "class Equal:\n    __eq__ = lambda self, other: True\n    __ne__ = lambda self, other: False\n    __hash__ = lambda self: 0\n"
    "return Equal()"
)


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def _returns_value(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(function))


def _with_bodies(value: str, body: str) -> str:
    """The program with another body in each of its functions."""
    tree = parse_python(value)
    for function in _functions(tree):
        function.body = parse_python(body.replace("return Equal()", "0")).body
        if body is _EQUAL:
            function.body[-1] = ast.Return(ast.Call(ast.Name("Equal", ast.Load()), [], []))
    return ast.unparse(ast.fix_missing_locations(tree))


def _renamed(value: str, tree: ast.Module) -> str | None:
    """The program with another name for one local variable; None if there is none that is safe to rename."""
    function = _functions(tree)[0]
    stored = [node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    scoped = any(isinstance(node, ast.Global | ast.Nonlocal) for node in ast.walk(tree))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    outside = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - {*stored}
    parameters = {
        argument.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.arguments)
        for argument in ast.walk(node)
        if isinstance(argument, ast.arg)
    }
    keywords = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
    for name in dict.fromkeys(stored):
        used = {name} & (outside | parameters | keywords) or any(name in text for text in texts)
        if not scoped and not used and len(name) > 0 and re.search(rf"\b{name}_renamed\b", value) is None:
            for node in ast.walk(tree):
                if isinstance(node, ast.Name) and node.id == name:
                    node.id = f"{name}_renamed"
            return ast.unparse(tree)
    return None
