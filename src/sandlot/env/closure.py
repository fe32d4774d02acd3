"""The files of its folder that an environment uses: modules it imports, and data files they name.

Import statements are read, not run, so one inside a check counts before the check runs. Modules imported while the environment
was loaded count too (`module.py`), which finds computed names. In doubt a file counts: a package counts as a whole, and so does a
file whose name is a string in a module beside it.
"""

import ast
import functools
import os
from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatch
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import distributions
from pathlib import Path

from sandlot.core.syntax import parse_python

ENDINGS = (".py", *EXTENSION_SUFFIXES)
LEFT_OUT = {"audit.toml", "README.md", "README.rst", "README.txt", "README", "docs", "tests", "runs"}
"""Top-level names in an environment's folder that the fingerprint leaves out."""
_IMPORTERS = {"import_module", "__import__"}
_OPENERS = {"Path", "join", "joinpath", "with_name", "open", "tasks_from", "glob", "iterdir", "listdir", "scandir", "read_table"}
"""Calls whose string argument may name a folder, or a file without a suffix."""


def imported_files(entries: Collection[Path], folder: Path) -> set[Path]:
    """These modules and all modules of their folder that they import, directly or indirectly.

    If the folder is a Python package or is inside one, modules of the package count as well.
    """
    roots = _roots(folder)
    above = {folder, *folder.parents}
    own = _installed_together(entries, roots[-1])
    found: set[Path] = set()
    waiting = list(entries)
    while waiting:
        path = waiting.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        if path.suffix == ".py":
            waiting += (other for other in _imports(path, roots, above) if own is None or other in own)
    return found


def named_files(modules: Iterable[Path], root: Path) -> set[Path]:
    """Files below `root` whose names are strings in these modules: data that they may read."""
    found: set[Path] = set()
    for module in modules:
        tree = _tree(module) if module.suffix == ".py" else None
        for text, is_path in _texts(tree) if tree else ():
            for base in {module.parent, root}:
                found.update(_named(base, text, is_path=is_path))
            if text.startswith("."):  # `Path(__file__).with_suffix(".json")`
                found.update(_named(module.parent, f"{module.stem}{text}", is_path=False))
    return found


def _named(base: Path, text: str, *, is_path: bool) -> Iterator[Path]:
    """The files that a string names: one file, all files of a subfolder, or the files that match a pattern."""
    if "*" in text and is_path:
        if "/" not in text:
            beside = (path for path in base.iterdir() if fnmatch(path.name, text) and not path.name.startswith("."))
            yield from (path for path in beside if path.is_file() and path.name not in LEFT_OUT)
            return
        text = text.partition("*")[0].rpartition("/")[0]
    path = _below(base, text)
    if path is None or path.relative_to(base).parts[0] in LEFT_OUT:
        return
    if path.is_file() and (path.suffix or is_path):
        yield path
    elif (is_path or text.endswith("/")) and path.is_dir():
        yield from _files_below(path)


def files_of_folder(folder: Path) -> set[Path]:
    """All files of an environment that is a folder, except those in `LEFT_OUT`."""
    return {path for path in _files_below(folder) if path.relative_to(folder).parts[0] not in LEFT_OUT}


def _files_below(folder: Path) -> Iterator[Path]:
    """All files below a folder, following links that do not lead back up; without hidden and compiled files."""
    seen = {ancestor.resolve() for ancestor in (folder, *folder.absolute().parents)}
    for place, folders, files in os.walk(folder, followlinks=True):
        here = Path(place)
        kept: list[str] = []
        for name in sorted(folders):
            if name.startswith(".") or name == "__pycache__":
                continue
            if (here / name).is_symlink():
                target = (here / name).resolve()
                if target in seen:
                    continue
                seen.add(target)
            kept.append(name)
        folders[:] = kept
        yield from (here / name for name in sorted(files) if not name.startswith(".") and (here / name).is_file())


def _roots(folder: Path) -> list[Path]:
    """The roots of imports: the environment's folder, and the folder that holds its Python package, if any."""
    root = folder
    while (root / "__init__.py").is_file():
        root = root.parent
    return [folder] if root == folder else [folder, root]


def _installed_together(entries: Collection[Path], root: Path) -> set[Path] | None:
    """The files installed together with these modules; None if they are not among installed packages."""
    if next(root.glob("*.dist-info"), None) is None:
        return None
    for found in distributions(path=[str(root)]):
        files = {root / file for file in found.files or ()}
        if not files.isdisjoint(entries):
            return files
    return {path for entry in entries if root != entry.parent for path in _files_below(root / entry.relative_to(root).parts[0])}


def _imports(path: Path, roots: list[Path], above: set[Path]) -> Iterator[Path]:
    """Files that the import statements of a module may refer to, at the top or inside functions."""
    for level, name in _imported_names(path, _stamp_of(path)):
        bases = [path.parents[level - 1]] if 0 < level <= len(path.parents) else roots
        for base in bases:
            yield from _module(base, name.split("."), above)


@functools.lru_cache(maxsize=1024)
def _imported_names(path: Path, stamp: tuple[int, int]) -> tuple[tuple[int, str], ...]:
    """Level and name of everything that a module imports: walking through its tree costs more than the rest of a fingerprint."""
    tree = _tree_of(path, stamp)
    names: list[tuple[int, str]] = []
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            names += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = f"{node.module}." if node.module else ""
            names += [(node.level, f"{base}{alias.name}") for alias in node.names]
        elif isinstance(node, ast.Call) and _called(node) in _IMPORTERS:
            texts = [word.value for word in node.args[:1] if isinstance(word, ast.Constant) and isinstance(word.value, str)]
            names += [(len(text) - len(text.lstrip(".")), text.lstrip(".")) for text in texts]
    return tuple(dict.fromkeys(names))


def _module(root: Path, words: list[str], above: set[Path]) -> Iterator[Path]:
    """The files of `a.b.c` below a folder: the module of each step, and whole packages, except packages we are in."""
    if root in above and (root / "__init__.py").is_file():
        yield root / "__init__.py"
    place = root
    for word in words:
        if not word.isidentifier():
            return
        place = place / word
        yield from (file for ending in ENDINGS if (file := place.with_name(f"{word}{ending}")).is_file())
        if not place.is_dir():
            return
        if (place / "__init__.py").is_file():
            yield from [place / "__init__.py"] if place in above else _files_below(place)


@functools.lru_cache(maxsize=256)
def _tree_of(path: Path, _stamp: tuple[int, int]) -> ast.Module | None:
    try:
        return parse_python(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return None  # it cannot be imported


def _tree(path: Path) -> ast.Module | None:
    return _tree_of(path, _stamp_of(path))


def _stamp_of(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_mtime_ns, state.st_size


def _texts(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Each string of a module, and whether it is used as a path."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, False
        paths = node.args if isinstance(node, ast.Call) and _called(node) in _OPENERS else []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            paths = [node.right]
        yield from ((path.value, True) for path in paths if isinstance(path, ast.Constant) and isinstance(path.value, str))
        rest = node.values[1:] if isinstance(node, ast.JoinedStr) else []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            rest = [node.right]
        # `HERE + "/words.txt"`, `f"{HERE}/words.txt"`
        yield from (
            (text.value.lstrip("/"), False) for text in rest if isinstance(text, ast.Constant) and isinstance(text.value, str)
        )


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _below(base: Path, text: str) -> Path | None:
    """The path that a string names below a folder; None if nothing is there, or it is not below the folder."""
    if not text or len(text) > 200 or "\n" in text or "\0" in text or text.startswith(("/", "~")):
        return None
    path = Path(os.path.normpath(base / text))
    try:
        path.stat()
    except (OSError, ValueError):  # too long for a name, or it cannot be encoded
        return None
    return path if base in path.parents else None
