"""Loading an environment by path or name.

A path that exists (with or without `.py`) comes first, then the name of an installed environment (entry point group
`sandlot.environments`), then of one that comes with Sandlot, then a source of another format as `KIND:SOURCE` (see
`importing.py`). The error suggests similar names.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from itertools import islice
from pathlib import Path
from typing import Any

from sandlot.core.errors import ConfigError, boundary
from sandlot.env.environment import Environment
from sandlot.env.folder import MANIFEST, load_folder
from sandlot.env.importing import imported_folder, meant_source
from sandlot.env.module import forget_if_changed, load_module, seal_modules
from sandlot.env.seats import require_playable

_GROUP = "sandlot.environments"
_HOME = Path(__file__).parents[1]
"""Where Sandlot's own package is."""


@dataclass(frozen=True, slots=True)
class FoundEnvironment:
    """An environment that can be loaded."""

    name: str
    form: str
    place: str


def load(what: str | Path | Environment) -> Environment:
    """Load an environment from a file or folder, or by name. An `Environment` is checked and returned.

    Loading runs the author's Python file on this machine, as an import does: load only what you trust.

    - `what`: `add.py`, `folder/ledger`, or a name such as `ledger`. A path that exists comes first, then installed
      environments, then those that come with Sandlot. Tasks of another format are named as `KIND:SOURCE`, such as
      `harbor:tasks/`: they are imported into the cache.

    `ConfigError` if there is no such environment, or it has no tasks or no checks, or its file cannot be imported.

    ```python
    import sandlot

    env = sandlot.load("arithmetic")
    assert env.name == "arithmetic"
    ```
    """
    if isinstance(what, Environment):
        return _checked(what)
    path = Path(what)
    if (path / MANIFEST).is_file():
        return _checked(load_folder(path.resolve()))
    for file in (path, path / "environment.py", path.parent / f"{path.name}.py"):  # `.` has no name to add `.py` to
        if file.is_file():
            return _checked(_from_file(file.resolve()))
    if path.name == MANIFEST and path.is_file():
        return _checked(load_folder(path.resolve().parent))
    installed = {entry.name: entry for entry in entry_points(group=_GROUP)}
    if str(what) in installed:
        return _checked(_from_entry(installed[str(what)]))
    found = ready_environments().get(str(what)) or imported_folder(str(what))
    if found is not None:
        return load(found)
    if path.is_dir():
        inside = ", ".join(f"`{path / found.name}`" for found in islice(find_environments(path, installed=False), 5))
        fix = f"name one of those in it: {inside}" if inside else "`sandlot new NAME` creates one"
        raise ConfigError(f"`{what}` is a folder without `{MANIFEST}` or `environment.py`, so it is no environment; {fix}")
    if (meant := meant_source(str(what))) is not None:
        raise ConfigError(f"no environment `{what}`, and no kind of source with that name; did you mean `{meant}`?")
    raise ConfigError(
        f"no environment `{what}`: there is no such path and none of that name is installed{_near(str(what), installed)}"
    )


def find_environments(folder: Path = Path("environments"), *, installed: bool = True) -> Iterator[FoundEnvironment]:
    """What `sandlot list` shows: the environments directly below a folder, those installed, and the ready ones."""
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if (path / MANIFEST).is_file():
                yield FoundEnvironment(path.name, "folder", str(path))
            elif (path / "environment.py").is_file():
                yield FoundEnvironment(path.name, "file", str(path / "environment.py"))
            elif path.suffix == ".py" and not path.name.startswith(("_", "conftest", "test_")):
                yield FoundEnvironment(path.stem, "file", str(path))
    for entry in entry_points(group=_GROUP) if installed else ():
        yield FoundEnvironment(entry.name, "installed", entry.value)
    for name, path in ready_environments().items() if installed else ():
        if path.parent.resolve() != folder.resolve():
            yield FoundEnvironment(name, "ready", str(path if (path / MANIFEST).is_file() else path / "environment.py"))


def ready_environments() -> dict[str, Path]:
    """The environments that come with Sandlot, by name: from its package, or from the checkout."""
    checkout = _HOME.parents[1]
    places = [_HOME / "environments", *([checkout / "environments"] if (checkout / "pyproject.toml").is_file() else [])]
    place = next((each for each in places if each.is_dir()), None)
    folders = sorted(place.iterdir()) if place else []
    return {each.name: each for each in folders if (each / MANIFEST).is_file() or (each / "environment.py").is_file()}


def _checked(env: Environment) -> Environment:
    """Return the environment; `ConfigError` if something it needs is missing."""
    place = f"environment `{env.name}` ({env.source or 'not in a file'})"
    if env.marked.tasks is None:
        raise ConfigError(f"{place} has no tasks; mark a generator with `@env.tasks`")
    if env.marked.grade is None and not env.marked.checks and not env.marked.rubrics:
        raise ConfigError(f"{place} has no checks; mark one with `@env.check(points=1)`")
    require_playable(env)
    ids = [constraint.id for constraint in env.constraints]
    if len(ids) != len(set(ids)):
        raise ConfigError(f"{place}: two constraints have the same id, of {ids}; rename one")
    tools = {tool.spec.name for tool in env.tools}
    for constraint in env.constraints:
        if constraint.tool != "*" and constraint.tool not in tools and not env.marked.sources:
            raise ConfigError(
                f"{place}: constraint `{constraint.id}` names the tool `{constraint.tool}`, which does not exist; "
                f"tools: {', '.join(sorted(tools)) or 'none'}"
            )
    return env


def _from_file(path: Path) -> Environment:
    whole = path.name == "environment.py"  # then the environment is the folder
    forget_if_changed(path.parent if whole else path)
    module = load_module(path, shared=whole)
    seal_modules(path.parent if whole else path)
    environments = [value for value in vars(module).values() if isinstance(value, Environment)]
    if len(environments) != 1:
        what = ", ".join(f"`{env.name}`" for env in environments)
        fix = "keep one per file" if what else 'write `env = Environment("name")`'
        raise ConfigError(f"{path}: a file holds one `Environment`; this one has {what or 'none'}; {fix}")
    environments[0].source = path
    return environments[0]


def _from_entry(entry: EntryPoint) -> Environment:
    with boundary(ConfigError, f"installed environment `{entry.name}` = {entry.value}"):
        value: Any = entry.load()
        module = import_module(entry.module)
    if isinstance(value, Environment):
        if module.__file__ is not None:
            value.source = Path(module.__file__)
            value.package = value.source.parent if module.__package__ else None
        return value
    path = getattr(value, "__path__", None)  # a package that is a folder environment
    if path and (Path(path[0]) / MANIFEST).is_file():
        return load_folder(Path(path[0]).resolve())
    raise ConfigError(
        f"installed environment `{entry.name}` = {entry.value} is neither an `Environment` nor a package with `{MANIFEST}`"
    )


def _near(what: str, installed: dict[str, EntryPoint]) -> str:
    path = Path(what)
    below = (path.parent, Path("environments"))
    beside = [str(folder / found.name) for folder in below for found in find_environments(folder, installed=False)]
    candidates = [*beside, *installed, *ready_environments()]
    near = difflib.get_close_matches(what, candidates, n=3, cutoff=0.4) or candidates[:5]
    return "; did you mean " + ", ".join(f"`{name}`" for name in dict.fromkeys(near)) + "?" if near else ""
