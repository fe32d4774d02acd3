"""Measure how easy the source tree is to find one's way in: `python tests/structure.py [FOLDER]` prints one table.

Everything is read from the syntax tree, nothing is imported. `test_structure.py` and `test_layers.py` hold the limits.
"""

import ast
import gc
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sandlot.core.syntax import parse_python

ROOT = Path(__file__).parent.parent / "src" / "sandlot"
LONG_FUNCTION = 60
SMALL_FILE = 30


@dataclass(frozen=True)
class Module:
    """What a file defines and imports; its syntax tree is not kept."""

    name: str
    path: Path
    lines: int
    public: tuple[str, ...]
    """Functions, classes and constants at the top whose names do not begin with an underscore."""
    classes: tuple[str, ...]
    """The public classes at the top."""
    functions: tuple[tuple[str, int], ...]
    """All functions with their lines, methods and functions inside functions too."""
    imports: tuple[str, ...]
    """`a.b` for `import a.b`, `a.b` for `from a import b`; imports inside functions and for typing only count too."""
    relative: bool
    """True if an import begins with a dot."""


@cache
def module_of(path: Path, root: Path) -> Module:
    name = ".".join((root.name, *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
    text = path.read_text()
    with _no_collection():
        tree = parse_python(text)
        statements = list(_statements(tree))
        return Module(
            name,
            path,
            text.count("\n"),
            tuple(_public_names(tree)),
            tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")),
            tuple(
                (f"{name}.{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
                for node in statements
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            ),
            tuple(_imports(statements)),
            any(isinstance(node, ast.ImportFrom) and node.level > 0 for node in statements),
        )


@contextmanager
def _no_collection() -> Iterator[None]:
    """A tree has no cycles, and its many objects would start a garbage collection again and again: more than half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements and what holds statements, without their expressions: a tenth of what `ast.walk` visits."""
    rest: list[ast.AST] = [tree]
    while rest:
        node = rest.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            held = getattr(node, field, None)
            if isinstance(held, list):
                rest.extend(held)


def _public_names(tree: ast.Module) -> list[str]:
    names: list[str] = []
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.append(node.name)
            case ast.Assign():
                names += [target.id for target in node.targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.append(name)
            case _:
                pass
    return [name for name in names if not name.startswith("_")]


def _imports(statements: list[ast.AST]) -> Iterator[str]:
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules_of(root: Path) -> list[Module]:
    return [module_of(path, root) for path in sorted(root.rglob("*.py"))]


def entries_of(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.name != "__pycache__")


def repeated_classes(modules: list[Module]) -> dict[str, list[str]]:
    """Public class names that more than one module defines, with the modules."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for name in module.classes:
            homes[name].append(module.name)
    return {name: where for name, where in sorted(homes.items()) if len(where) > 1}


def long_functions(modules: list[Module]) -> list[tuple[str, int]]:
    return [found for module in modules for found in module.functions if found[1] > LONG_FUNCTION]


def small_files(modules: list[Module]) -> list[str]:
    return [
        module.name for module in modules if module.lines < SMALL_FILE and module.path.name not in {"__init__.py", "__main__.py"}
    ]


def public_names_per_1000_lines(modules: list[Module]) -> float:
    return 1000 * sum(len(module.public) for module in modules) / sum(module.lines for module in modules)


def imports_of(modules: list[Module]) -> dict[str, set[str]]:
    """Which module imports which."""
    known = {module.name for module in modules}
    graph: dict[str, set[str]] = {name: set() for name in known}
    for module in modules:
        for name in module.imports:
            target = name
            while target and target not in known:
                target = target.rpartition(".")[0]
            if target and target != module.name:
                graph[module.name].add(target)
    return graph


def cycles_of(graph: dict[str, set[str]]) -> list[list[str]]:
    """Sets of modules that import each other in a circle (Tarjan's algorithm). The front door hands names out and is left out."""
    front = min(graph, key=len)
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for target in graph[name] - {front}:
            if target not in number:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], number[target])
        if low[name] == number[name]:
            circle = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(circle) > 1:
                found.append(sorted(circle))

    for name in graph:
        if name not in number and name != front:
            visit(name)
    return found


def table_of(root: Path) -> dict[str, float]:
    modules = modules_of(root)
    return {
        "files": len(modules),
        "lines": sum(module.lines for module in modules),
        "entries at the top": len(entries_of(root)),
        "public names per 1,000 lines": round(public_names_per_1000_lines(modules), 1),
        "public class names used twice": len(repeated_classes(modules)),
        "import cycles": len(cycles_of(imports_of(modules))),
        f"functions over {LONG_FUNCTION} lines": len(long_functions(modules)),
        f"files under {SMALL_FILE} lines": len(small_files(modules)),
    }


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    for name, value in table_of(root).items():
        sys.stdout.write(f"{name:32} {value:>10,}\n")


if __name__ == "__main__":
    main()
