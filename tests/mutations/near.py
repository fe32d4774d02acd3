"""Test files that are near a mutation, found without running anything: those that name its module, its function's first."""

import ast
import re
from pathlib import Path

from sandlot.core.syntax import parse_python

_MOST = 12


def near_files(copy: Path, patch: str) -> list[str]:
    """Up to a dozen files, the most likely first; the whole room if no file names the module or the function."""
    path, line = _place_of(patch)
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    room, function = f"tests/unit/{module.split('.')[1]}", _function_at(copy / "src" / path, line)
    rank: dict[str, tuple[bool, bool, bool, int]] = {}
    for file in [*sorted((copy / "tests").rglob("test_*.py")), *sorted((copy / "environments").rglob("test_*.py"))]:
        name, text = str(file.relative_to(copy)), file.read_text()
        names_module = bool(re.search(rf"\b{re.escape(module)}\b", text))
        names_function = bool(function) and bool(re.search(rf"\b{re.escape(function)}\b", text))
        in_room = name.startswith(room)
        if "/system/" not in name and "/foreign/" not in name and (names_module or (names_function and in_room)):
            own = file.stem.removeprefix("test_") in module
            rank[name] = (not (names_module and names_function), not in_room, not own, text.count("\n"))
    return sorted(rank, key=rank.__getitem__)[:_MOST] or ([room] if (copy / room).is_dir() else [])


def _place_of(patch: str) -> tuple[str, int]:
    """The file below `src/` that a patch changes first, and the line."""
    path = re.search(r"^\+\+\+ b/src/(.+)$", patch, re.MULTILINE)
    hunk = re.search(r"^@@ -(\d+).*\n((?: .*\n)*)", patch, re.MULTILINE)
    return (path[1] if path else ""), (int(hunk[1]) + hunk[2].count("\n") if hunk else 0)


def _function_at(file: Path, line: int) -> str:
    """The name of the innermost public function or method at a line, else of the class; nothing in other files than Python's."""
    if file.suffix != ".py":
        return ""
    holding = [
        node
        for node in ast.walk(parse_python(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    public = [node for node in holding if not node.name.startswith("_")]
    return max(public or holding, key=lambda node: node.lineno).name if holding else ""
