"""Golden answers that are Python: the same program written otherwise, and programs that do something else."""

import ast
import re
import textwrap

from sandlot.core.syntax import parse_python

_WRITES = frozenset({"print", "sys.stdout.write"})
_LEAST = 2
"""Fewest statements of a function whose body may be left out: with one, an empty body may be right."""


def program_in(value: str) -> ast.Module | None:
    """The Python program in a text, if it defines a function or prints; code in other languages does not parse."""
    if not re.search(r"(?m)^\s*(?:async )?def \w+\(|\bprint\(|\bsys\.stdout\b", value):
        return None
    try:
        tree = parse_python(value)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if _functions(tree) or _prints(tree) else None


def _prints(tree: ast.Module) -> bool:
    """True for a script: a program that writes its result at the top level."""
    shown = [node for node in tree.body if isinstance(node, ast.Expr | ast.For | ast.While | ast.If | ast.With)]
    return any(isinstance(node, ast.Call) and ast.unparse(node.func) in _WRITES for each in shown for node in ast.walk(each))


def same_program(value: str) -> list[tuple[str, str, bool]]:
    """The kind and text of each program that does the same, and whether that is certain."""
    tree = program_in(value)
    if tree is None:
        return []
    if _prints(tree):
        return _same_script(value, tree)
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
    if _prints(tree):
        ends = "import os\nos._exit(0)"
        return [("a program that prints nothing", "pass", True), ("a program that ends at once", ends, True)]
    real = any(len(function.body) >= _LEAST or _returns_value(function) for function in _functions(tree))
    found = [("a body that does nothing", _with_bodies(value, "pass"), real)]
    found.append(("a body that returns what equals everything", _with_bodies(value, _EQUAL), real))
    found.append(("a body that ends the process", _with_bodies(value, "import os\nos._exit(0)"), real))
    found.append(("a body that raises `SystemExit(0)`", _with_bodies(value, "raise SystemExit(0)"), real))
    found.append(("the name alone", f"{_functions(tree)[0].name} = lambda *a, **k: None", real))
    return found


def _same_script(value: str, tree: ast.Module) -> list[tuple[str, str, bool]]:
    """A script that reads and ends in other ways."""
    body = value.rstrip("\n")
    found = [
        ("a comment before it", f"# a solution\n{value}", True),
        ("`exit()` at its end", f"{body}\nexit()", True),
        ("`sys.exit(0)` at its end", f"import sys\n{body}\nsys.exit(0)", "__future__" not in value),
    ]
    if re.search(r"(?<![\w.])input\(\)", value):
        by_hand = {
            "`sys.stdin.readline()`": 'sys.stdin.readline().rstrip("\\n")',
            "`sys.stdin.buffer`": 'sys.stdin.buffer.readline().decode().rstrip("\\n")',
        }
        for name, call in by_hand.items():
            read = re.sub(r"(?<![\w.])input\(\)", lambda _found, call=call: call, value)
            found.append((f"its input read by {name}", f"import sys\n{read}", "__future__" not in value))
    if not any(isinstance(node, ast.Global | ast.ImportFrom) for node in ast.walk(tree)) and not re.search(r"\"{3}|'{3}", value):
        inside = f"def main():\n{textwrap.indent(body, '    ')}\n\n\nif __name__ == '__main__':\n    main()\n"
        found.append(("in a function that is called where `__name__` is `__main__`", inside, True))
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
