"""What each file of the repository needs: the graph behind `selection.py`.

Read from the syntax trees, nothing is imported. A Python file needs what it imports; imports inside functions count too. What
a test names in a text counts as well: `"sandlot.train.trainer"`, a command (`"calibrate"`) where it starts commands, an
environment, a kind of import, a ready check, a file that stands beside the tests. Doors only hand names out: a file that takes
a name from one needs the module behind that name. What a fixture of a `conftest.py` needs is needed by the tests that take it.

Nodes are paths; all files of an environment but its tests are one node, named by its folder.
"""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from sandlot.core.syntax import parse_python

PYTHON_ROOTS = ("src", "tests", "benchmarks", "recipes")
EAGER_DOORS = ("sandlot.ports", "sandlot.cli.main")
"""Doors that import what they hand out. Packages hand names out lazily: what they import for typing is behind them."""
STARTS_COMMANDS = ("drive.command_line", "sandlot.cli.main")
MODULE = re.compile(r"sandlot(?:\.\w+)+(?=$|:)")
WORD = re.compile(r"[A-Za-z_][\w.-]*")
LONG_TEXT = 200


@dataclass(frozen=True)
class File:
    """A Python file, or one fixture of a `conftest.py`."""

    path: str
    imports: frozenset[str]
    behind: frozenset[str]
    """Imported for typing only, in a package that hands names out."""
    texts: frozenset[str]
    arguments: frozenset[str]
    """Names of functions' arguments: a test takes fixtures by them."""


def read_file(path: str, tree: Iterable[ast.AST], package: str) -> File:
    """`package` is the dotted name of the folder, for imports relative to it."""
    imports, behind, texts, arguments = set[str](), set[str](), set[str](), set[str]()
    for node, typing in _walk(tree, typing=False):
        match node:
            case ast.Import() | ast.ImportFrom():
                (behind if typing and path.endswith("__init__.py") else imports).update(imported_names(node, package))
            case ast.Attribute(value=ast.Name(id="sandlot"), attr=name):
                imports.add(f"sandlot.{name}")
            case ast.Constant(value=str(text)):
                texts.update([text] if len(text) < LONG_TEXT else WORD.findall(text))
            case ast.arg(arg=name):
                arguments.add(name)
            case _:
                pass
    return File(path, frozenset(imports), frozenset(behind), frozenset(texts), frozenset(arguments))


def _walk(nodes: Iterable[ast.AST], *, typing: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Each node, and whether it stands under `if TYPE_CHECKING`."""
    for node in nodes:
        inside = typing or (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING")
        yield node, inside
        yield from _walk(ast.iter_child_nodes(node), typing=inside)


def imported_names(node: ast.Import | ast.ImportFrom, package: str) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    folders = package.split(".")
    above = ".".join(folders[: len(folders) - node.level + 1]) if node.level else ""
    home = ".".join(filter(None, (above, node.module)))
    return {f"{home}.{alias.name}" for alias in node.names}


def is_test(path: str) -> bool:
    return PurePosixPath(path).name.startswith("test_") and path.endswith(".py") and "tests" in PurePosixPath(path).parts


def node_of(path: str) -> str:
    """The node a path belongs to: of an environment's files, but for its tests, the environment."""
    parts = PurePosixPath(path).parts
    return f"environments/{parts[1]}" if parts[0] == "environments" and len(parts) > 2 and "tests" not in parts else path


class Reach:
    """The graph of a repository: `edges[node]` is what the node needs."""

    def __init__(self, root: Path, paths: list[str]) -> None:
        self.root = root
        self.paths = paths
        self.modules: dict[str, str] = {}  # dotted name -> path
        self.files: list[File] = []
        self._fixtures: dict[str, list[str]] = {}  # conftest.py -> its functions
        for path in paths:
            if path.endswith(".py"):
                self._read(path)

    def _read(self, path: str) -> None:
        pieces = PurePosixPath(path).with_suffix("").parts
        name = ".".join(pieces[1:] if pieces[0] in PYTHON_ROOTS else pieces).removesuffix(".__init__")
        if pieces[0] in PYTHON_ROOTS and not (
            pieces[0] != "tests" and (self.root / "tests" / name).is_dir()
        ):  # `tests` comes first
            self.modules.setdefault(name, path)
        package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
        body = parse_python((self.root / path).read_text()).body
        if path.endswith("conftest.py"):
            functions = {each.name: each for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
            self._fixtures[path] = [*functions]
            self.files += [read_file(f"{path}::{function}", [tree], package) for function, tree in functions.items()]
            body = [each for each in body if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        self.files.append(read_file(path, body, package))

    @cached_property
    def edges(self) -> dict[str, set[str]]:
        edges: dict[str, set[str]] = defaultdict(set)
        for file in self.files:
            edges[node_of(file.path)] |= self._imported(file) | self._named(file) | self._taken(file)
        for module, path in self.modules.items():
            parent = self.modules.get(module.rpartition(".")[0])
            if parent and parent.endswith("__init__.py"):
                edges[path].add(parent)
        return edges

    def _imported(self, file: File) -> set[str]:
        if self._is_eager_door(file.path):
            return set()
        found = set[str]()
        for name in file.imports:
            home, _, last = name.rpartition(".")
            path = self._behind.get(home, {}).get(last) or self._module_path(name)
            if path and path != file.path:
                found.add(path)
            if name in self._behind:  # the whole of a door, not a name behind it
                found |= set(self._behind[name].values())
        return found

    def _is_eager_door(self, path: str) -> bool:
        return path in {self.modules.get(door) for door in EAGER_DOORS}

    def _module_path(self, name: str) -> str | None:
        while name and name not in self.modules:
            name = name.rpartition(".")[0]
        return self.modules.get(name)

    @cached_property
    def _behind(self) -> dict[str, dict[str, str]]:
        """For each door: the path that each of its names leads to."""
        names = {path: name for name, path in self.modules.items()}
        doors = {names[file.path]: file.behind for file in self.files if file.behind}
        doors |= {names[file.path]: file.imports for file in self.files if self._is_eager_door(file.path)}
        found = {
            door: {each.rpartition(".")[2]: path for each in behind if (path := self._module_path(each))}
            for door, behind in doors.items()
        }
        return found | ({"sandlot.checks": self._checks} if self._checks else {})

    @cached_property
    def _checks(self) -> dict[str, str]:
        """The ready checks and the path of each: the tables of `sandlot.checks`, name to module."""
        if "sandlot.checks" not in self.modules:
            return {}
        tree = parse_python((self.root / self.modules["sandlot.checks"]).read_text())
        tables = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
        pairs = [pair for table in tables for pair in zip(table.keys, table.values, strict=True)]
        named = [
            (key.value, value.value) for key, value in pairs if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
        ]
        return {check: path for check, module in named if (path := self.modules.get(f"sandlot.checks.{module}"))}

    def _named(self, file: File) -> set[str]:
        """What the texts of a file name."""
        found = {path for text in file.texts if (name := MODULE.match(text)) and (path := self.modules.get(name[0]))}
        if file.path.startswith("src/"):
            return found if not file.path.endswith("__init__.py") else set()
        for text in file.texts:
            word = text.partition(":")[0]
            last = PurePosixPath(text).name
            found |= {path for path in (self._checks.get(word.rpartition(".")[2]), self._kinds.get(word)) if path}
            if not file.path.startswith("environments/") or is_test(file.path):
                found |= self._by_name.get(last, set()) - {file.path}
        return found | self._commands_of(file)

    def _commands_of(self, file: File) -> set[str]:
        """The commands that a test starts: those it names, all where it names none."""
        folders = PurePosixPath(file.path).parents
        starters = [path for path, names in self._starting if names & file.arguments and PurePosixPath(path).parent in folders]
        if not is_test(file.path) or not (starters or any(name.startswith(STARTS_COMMANDS) for name in file.imports)):
            return set()
        verbs = {self._verbs[text] for text in file.texts if text in self._verbs}
        return {self.modules["sandlot.cli.main"]} | (verbs or set(self._verbs.values()))

    @cached_property
    def _starting(self) -> list[tuple[str, set[str]]]:
        """Each `conftest.py` that can start commands, with the fixtures that do."""
        able = {file.path for file in self.files if any(name.startswith(STARTS_COMMANDS) for name in file.imports)}
        found = [(path, {name for name in names if {path, f"{path}::{name}"} & able}) for path, names in self._fixtures.items()]
        return [(path, names) for path, names in found if names]

    @cached_property
    def _verbs(self) -> dict[str, str]:
        """The command line's verbs, and the path of each: a file's name, or its `NAMES`."""
        verbs: dict[str, str] = {}
        for module, path in self.modules.items():
            if module.startswith("sandlot.cli.commands."):
                named = [node for node in parse_python((self.root / path).read_text()).body if isinstance(node, ast.Assign)]
                names = [ast.literal_eval(node.value) for node in named if ast.unparse(node.targets[0]) == "NAMES"]
                verbs |= dict.fromkeys(names[0] if names else [module.rpartition(".")[2]], path)
        return verbs

    @cached_property
    def _kinds(self) -> dict[str, str]:
        """The kinds of `sandlot import` and `export`, and the path of each."""
        project = tomllib.loads((self.root / "pyproject.toml").read_text())["project"]
        kinds = [kind for group in project.get("entry-points", {}).values() for kind in group.items()]
        return {kind: path for kind, target in kinds if (path := self._module_path(target.partition(":")[0]))}

    @cached_property
    def _by_name(self) -> dict[str, set[str]]:
        """Environments by name; files of tests, benchmarks, recipes and pages by file name: tests open them by path."""
        named: dict[str, set[str]] = defaultdict(set)
        for path in self.paths:
            pieces = PurePosixPath(path).parts
            if pieces[0] == "environments" and len(pieces) > 2:
                named[pieces[1]].add(f"environments/{pieces[1]}")
            elif pieces[0] in ("tests", "recipes", "benchmarks", "docs") and not is_test(path):
                named[pieces[-1]].add(path)
        return named

    def _taken(self, file: File) -> set[str]:
        """What stands in the `conftest.py` files of a test: their own imports, and the fixtures that it takes."""
        if not is_test(file.path) and "conftest.py::" not in file.path:
            return set()
        found = set[str]()
        for folder in PurePosixPath(file.path.partition("::")[0]).parents:
            conftest = (folder / "conftest.py").as_posix()
            if conftest in self._fixtures:
                taken = file.arguments | file.texts
                found |= {conftest} | {f"{conftest}::{name}" for name in self._fixtures[conftest] if name in taken}
        return found - {file.path}
