"""Measure how easy the source tree is to find one's way in: `python tests/structure.py [FOLDER]` prints one table.

Everything is read from the syntax tree, nothing is imported. `test_structure.py` holds the limits.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandlot.core.syntax import parse_python

ROOT = Path(__file__).parent.parent / "src" / "sandlot"
LONG_FUNCTION = 60
SMALL_FILE = 30


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    lines: int
    tree: ast.Module


def modules_of(root: Path) -> list[Module]:
    found = []
    for path in sorted(root.rglob("*.py")):
        name = ".".join((root.name, *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        text = path.read_text()
        found.append(Module(name, path, text.count("\n"), parse_python(text)))
    return found


def entries_of(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.name != "__pycache__")


def public_names_of(module: Module) -> list[str]:
    """Functions, classes and constants at the top of a module whose names do not begin with an underscore."""
    names: list[str] = []
    for node in module.tree.body:
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


def repeated_classes(modules: list[Module]) -> dict[str, list[str]]:
    """Public class names that more than one module defines, with the modules."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module.name)
    return {name: where for name, where in sorted(homes.items()) if len(where) > 1}


def functions_of(modules: list[Module]) -> Iterator[tuple[str, int]]:
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{module.name}.{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1


def small_files(modules: list[Module]) -> list[str]:
    return [
        module.name for module in modules if module.lines < SMALL_FILE and module.path.name not in {"__init__.py", "__main__.py"}
    ]


def imports_of(modules: list[Module]) -> dict[str, set[str]]:
    """Which module imports which; imports inside functions and for typing only count too."""
    known = {module.name for module in modules}
    graph: dict[str, set[str]] = {name: set() for name in known}
    for module in modules:
        for node in ast.walk(module.tree):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
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
    lines = sum(module.lines for module in modules)
    public = sum(len(public_names_of(module)) for module in modules)
    return {
        "files": len(modules),
        "lines": lines,
        "entries at the top": len(entries_of(root)),
        "public names per 1,000 lines": round(1000 * public / lines, 1),
        "public class names used twice": len(repeated_classes(modules)),
        "import cycles": len(cycles_of(imports_of(modules))),
        f"functions over {LONG_FUNCTION} lines": sum(size > LONG_FUNCTION for _, size in functions_of(modules)),
        f"files under {SMALL_FILE} lines": len(small_files(modules)),
    }


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    for name, value in table_of(root).items():
        sys.stdout.write(f"{name:32} {value:>10,}\n")


if __name__ == "__main__":
    main()
