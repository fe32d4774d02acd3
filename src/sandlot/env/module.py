"""Loading an author's Python files without touching `sys.path`.

A folder becomes a private package under a name made from its path, so two environments may both have a `checks.py`, and files of
one folder import each other relatively.
"""

import difflib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

from sandlot.errors import ConfigError
from sandlot.types import digest


def load_module(path: Path) -> ModuleType:
    """The module in this file, run once in this process; errors name the author's file and line."""
    path = path.resolve()
    package = _package(path.parent)
    name = f"{package}.{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"`{path}` is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        place = _blamed(error, path)
        if isinstance(error, ConfigError):
            if str(path.parent) in str(error):
                raise
            raise ConfigError(f"{place}: {error}") from error
        raise ConfigError(f"{place}: {type(error).__name__}: {error}{_meant(error)}") from error
    return module


def _meant(error: BaseException) -> str:
    """The nearest name of the front door, for a typing mistake in `from sandlot import ...`."""
    wanted = re.match(r"cannot import name '(\w+)' from 'sandlot' ", str(error))
    near = difflib.get_close_matches(wanted[1], sys.modules["sandlot"].__all__, n=1) if wanted else []
    return f"; did you mean `{near[0]}`?" if near else ""


def forget_modules(folder: Path) -> None:
    """Unload a folder's modules, so that the next load sees the files as they are now."""
    package = _package(folder.resolve())
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]


def _package(folder: Path) -> str:
    name = f"sandlot_env_{digest(str(folder).encode())[:12]}"
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    return name


def _blamed(error: BaseException, path: Path) -> str:
    """`file:line` of the last place in the author's folder that the error passed through."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    place = str(path)
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename.startswith(str(path.parent)):
            place = f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno}"
        step = step.tb_next
    return place
