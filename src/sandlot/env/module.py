"""Importing an author's Python files without changing `sys.path`.

The files of an environment become a private package, named after the path of its folder or its file. So two environments may both
have a `helper.py`: `import helper` and `from . import helper` give each its own.

An author's module gets its own `__import__`. It looks beside the environment before it looks for an installed module, as Python
does for a script; the standard library comes first. And it lets only one thread import at a time: checks run in several threads,
and threads that import modules in a circle may see a module half initialised.
"""

import builtins
import difflib
import importlib.util
import os
import re
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from sandlot.core.concurrency.author import PRIVATE
from sandlot.core.errors import ConfigError
from sandlot.core.types import digest
from sandlot.env.closure import ENDINGS, LEFT_OUT, imported_files

_WAIT_S = 30.0
"""How long a thread waits for another one's import; then it imports at the same time, as plain Python does."""

_IMPORTING = threading.RLock()


class _Package(ModuleType):
    """The private package of one environment."""

    def __init__(self, name: str, folder: Path, *, whole: bool) -> None:
        super().__init__(name)
        self.__path__ = [str(folder)]
        self.folder = folder
        self.whole = whole
        """True if the environment is the folder, False if it is one file in it."""
        self.builtins = {**vars(builtins), "__import__": self.import_module}
        self.loaded: list[Path] | None = None
        """Files of the modules imported during loading; None until loading is finished."""
        self.sources: dict[Path, str] = {}
        """Digests of the modules' files as imported."""
        self._own: dict[str, bool] = {}

    def import_module(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the names `__import__` has
        locals: Mapping[str, Any] | None = None,  # noqa: A002 - as above
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """The `__import__` of an author's module."""
        top = name.partition(".")[0]
        known = globals or {}
        if level == 0 and known.get("__name__") != f"{self.__name__}.{top}" and self._has(top):
            full = f"{self.__name__}.{name}"
            if fromlist:
                return self.import_module(full, globals, locals, fromlist)
            if not _is_ready(full):
                with _one_at_a_time():
                    importlib.import_module(full)
            return sys.modules[f"{self.__name__}.{top}"]
        full = importlib.util.resolve_name("." * level + name, known.get("__package__") or "") if level else name
        if _is_ready(full, fromlist or ()):
            return __import__(name, globals, locals, fromlist or (), level)
        with _one_at_a_time():
            return __import__(name, globals, locals, fromlist or (), level)

    def _has(self, top: str) -> bool:
        """True if a top-level name is a module of the environment's folder."""
        if top not in self._own:
            self._own[top] = self._look_for(top)
        return self._own[top]

    def _look_for(self, top: str) -> bool:
        if top in sys.stdlib_module_names or top == "sandlot":
            return False
        files = [self.folder / f"{top}{ending}" for ending in ENDINGS] + [self.folder / top / "__init__.py"]
        file = next((path for path in files if path.is_file()), None)
        if file is None:  # a folder without `__init__.py` counts only if no installed module has the name
            return (self.folder / top).is_dir() and importlib.util.find_spec(top) is None
        known = getattr(sys.modules.get(top), "__file__", None)
        return known is None or Path(known).resolve() != file.resolve()  # already imported from the same file: the same module


class _Finder:
    """Finds modules of private packages; they are loaded with their package's `__import__`."""

    @classmethod
    def find_spec(cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a module of a private package; None for any other."""
        if not name.startswith(PRIVATE):
            return None
        package = sys.modules.get(name.partition(".")[0])
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin is None or not isinstance(package, _Package):
            return spec
        _require_covered(package, Path(spec.origin))
        if isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(name, spec.origin)
        return spec


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        """Compile the file as it is now: cached bytecode may be stale after an edit within the same second."""
        package = sys.modules[fullname.partition(".")[0]]
        assert isinstance(package, _Package)
        source = self.get_data(self.path)
        package.sources[Path(self.path)] = digest(source)
        return self.source_to_code(source, self.path)

    def exec_module(self, module: ModuleType) -> None:
        package = sys.modules[module.__name__.partition(".")[0]]
        assert isinstance(package, _Package)
        vars(module)["__builtins__"] = package.builtins
        super().exec_module(module)


def load_module(path: Path, *, shared: bool = False) -> ModuleType:
    """Import a file once per process. `ConfigError` names the author's file and line.

    The file gets its own private package, since other files of the folder may be other environments. With `shared`, the folder is
    one environment, and its files share a package.
    """
    path = path.resolve()
    with _one_at_a_time():
        package = _package(path.parent, path.parent if shared else path)
        name = f"{package.__name__}.{path.stem}"
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, path, loader=_Loader(name, str(path)))
        if spec is None or spec.loader is None or path.suffix != ".py":
            raise ConfigError(f"`{path}` is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            place = _error_place(error, path)
            if isinstance(error, ConfigError):
                if str(path.parent) in str(error):
                    raise
                raise ConfigError(f"{place}: {error}") from error
            raise ConfigError(f"{place}: {type(error).__name__}: {error}{_meant(error)}") from error
    return module


def seal_modules(place: Path) -> None:
    """Call when the environment at this path is loaded: records the modules that were imported."""
    package = sys.modules.get(_name(place.resolve()))
    if isinstance(package, _Package) and package.loaded is None:
        package.loaded = _files_of(package)


def loaded_files(place: Path) -> list[Path]:
    """Files of the modules imported while the environment at this path was loaded."""
    package = sys.modules.get(_name(place.resolve()))
    return (package.loaded or []) if isinstance(package, _Package) else []


def _meant(error: BaseException) -> str:
    """Suggests a name for a typing mistake in `from sandlot import ...`."""
    wanted = re.match(r"cannot import name '(\w+)' from 'sandlot' ", str(error))
    near = difflib.get_close_matches(wanted[1], sys.modules["sandlot"].__all__, n=1) if wanted else []
    return f"; did you mean `{near[0]}`?" if near else ""


def forget_modules(folder: Path) -> None:
    """Unload the modules of a folder's environments, so that the next load reads the files again."""
    folder = folder.resolve()
    for package in [module for module in sys.modules.values() if isinstance(module, _Package) and module.folder == folder]:
        _forget(package)


def forget_if_changed(place: Path) -> None:
    """Unload an environment if one of its files has changed since it was imported, as in a notebook."""
    package = sys.modules.get(_name(place.resolve()))
    if isinstance(package, _Package) and any(
        not file.is_file() or digest(file.read_bytes()) != known for file, known in package.sources.items()
    ):
        _forget(package)


def _forget(package: _Package) -> None:
    with _one_at_a_time():
        for name in [name for name in sys.modules if name == package.__name__ or name.startswith(f"{package.__name__}.")]:
            del sys.modules[name]
        importlib.invalidate_caches()


def _require_covered(package: _Package, file: Path) -> None:
    """`ImportError` for a module imported after loading under a computed name: the fingerprint does not cover it."""
    if package.loaded is None or (package.whole and file.relative_to(package.folder).parts[0] not in LEFT_OUT):
        return
    if file not in imported_files(package.loaded, package.folder):
        raise ImportError(
            f"`{file}` is imported under a computed name after the environment was loaded, so the fingerprint does not cover it;"
            f" write `from . import {file.stem}` at the top of the file that needs it"
        )


def _files_of(package: _Package) -> list[Path]:
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(f"{package.__name__}.")]
    return sorted(Path(file) for module in modules if (file := getattr(module, "__file__", None)))


def _name(place: Path) -> str:
    return f"{PRIVATE}{digest(str(place).encode())[:12]}"


def _package(folder: Path, place: Path) -> _Package:
    """The private package of the environment at a path: its folder or its file."""
    name = _name(place)
    package = sys.modules.get(name)
    if not isinstance(package, _Package):
        if _Finder not in sys.meta_path:
            sys.meta_path.insert(0, _Finder)
            os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
        sys.modules[name] = package = _Package(name, folder, whole=place == folder)
    return package


# -- one import at a time ----------------------------------------------------------------------------------------------


@contextmanager
def _one_at_a_time() -> Generator[None]:
    got = _IMPORTING.acquire(timeout=_WAIT_S)
    try:
        yield
    finally:
        if got:
            _IMPORTING.release()


def _is_ready(name: str, wanted: Sequence[str] = ()) -> bool:
    """True if a module is fully imported and has these names: then importing it runs nothing."""
    module = sys.modules.get(name)
    if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
        return False
    return all(word in vars(module) for word in wanted)


class _Forking(threading.local):
    """Whether this thread holds the lock during a fork: a child must not inherit an import that never finishes."""

    got = False


_FORKING = _Forking()


def _before_fork() -> None:
    _FORKING.got = _IMPORTING.acquire(timeout=_WAIT_S)


def _after_fork() -> None:
    if _FORKING.got:
        _FORKING.got = False
        _IMPORTING.release()


def _error_place(error: BaseException, path: Path) -> str:
    """`file:line` of the innermost frame of the error in the author's folder."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    place = str(path)
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename.startswith(str(path.parent)):
            place = f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno}"
        step = step.tb_next
    return place
