"""The folder form of an environment.

environment.toml       name, description, system, image, network, seed, concurrent, on_crash, images, tools,
                       [limits], [[constraints]], [[mcp]]
tasks/*.jsonl|parquet  one row per task; or tasks.py with `def tasks(rng)`
world.py               optional: `def setup(world, task)`, a class `State`, and `SOURCES`, a list of parts with tools of their own
tools.py  checks.py    functions; rubrics name checks as `checks:function`
user.py                optional: `def persona(task)` for a user that a model plays, `def reply(world, text)` for a scripted one,
                       `def colleagues(task)` for colleagues whom a model plays; `USER`, a function from world and task to a
                       `User`, where a program of another framework speaks (importers write it)
solution.py            `async def solve(agent, task)`
rubrics/<name>.json    `default` is used unless a task names another
"""

import functools
import inspect
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import msgspec

from sandlot.checks import LIBRARY
from sandlot.core.crashes import OnCrash
from sandlot.core.errors import ConfigError
from sandlot.core.images import ImagePolicy
from sandlot.core.limits import Constraint, Limits, OnBreach
from sandlot.core.task import Task
from sandlot.env.environment import Environment
from sandlot.env.module import forget_if_changed, load_module, seal_modules
from sandlot.env.taskset import tasks_from, tasks_of
from sandlot.grade.lint import LintFinding, lint_file
from sandlot.grade.loading import load_rubric
from sandlot.tools.bash import BASH
from sandlot.tools.mcp import McpServer

MANIFEST = "environment.toml"


class EnvironmentToml(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file `environment.toml`. Unknown keys are errors."""

    name: str
    description: str = ""
    system: str = ""
    """The system prompt."""
    image: str | None = None
    """The sandbox's image; without one there is no sandbox, and files live in memory."""
    network: str = "none"
    seed: int = 0
    concurrent: bool = True
    """False to run the tool calls of one turn one after the other, for tools that change the same file."""
    on_crash: OnCrash = "grade"
    """When a tool crashes: `grade` what is there, after an error to the agent; `lose` without a point; or `fail`, no reward."""
    images: ImagePolicy | None = None
    """For an environment that shows images, what a model gets that takes text only: `require`, `describe` or `drop`."""
    tools: tuple[str, ...] | None = None
    """The tools: names of functions of `tools.py`, and `bash` for a shell. `[]` gives no tools.

    Without this key: every public function defined in `tools.py`, and `bash` if there is an image.
    """
    limits: Limits = Limits()
    """The `[limits]` table."""
    constraints: tuple[Constraint, ...] = ()
    """`[[constraints]]` tables."""
    mcp: tuple[McpServer, ...] = ()
    """`[[mcp]]` tables: MCP servers whose tools the agent gets."""


def load_folder(folder: Path) -> Environment:
    """Load the environment in a folder. `ConfigError` names the file, the value and the fix."""
    forget_if_changed(folder)
    manifest = _manifest(folder / MANIFEST)
    world = _optional(folder / "world.py")
    env = Environment(
        manifest.name,
        description=manifest.description,
        system=manifest.system,
        image=manifest.image,
        network=manifest.network,
        seed=manifest.seed,
        concurrent=manifest.concurrent,
        on_crash=manifest.on_crash,
        images=manifest.images,
        limits=manifest.limits,
        constraints=manifest.constraints,
        state=getattr(world, "State", dict),
        apps=getattr(world, "APPS", ()),
        tools=None if manifest.tools is None else [name for name in manifest.tools if name == BASH.spec.name],
    )
    env.source = folder
    _add_tasks(env, folder)
    if env.apps and hasattr(world, "base"):
        env.base(world.base)  # type: ignore[union-attr]
    if hasattr(world, "setup"):
        env.setup(world.setup)  # type: ignore[union-attr]
    if hasattr(world, "finish"):
        env.finish(world.finish)  # type: ignore[union-attr]
    for function in _tool_functions(folder, manifest.tools):
        env.tool(function)
    for server in manifest.mcp:
        env.mcp(server)
    for source in getattr(world, "SOURCES", ()):
        env.use(source)
    user = _optional(folder / "user.py")
    if hasattr(user, "persona"):
        env.persona(user.persona)  # type: ignore[union-attr]
    if hasattr(user, "colleagues"):
        env.colleagues(user.colleagues)  # type: ignore[union-attr]
    if hasattr(user, "reply"):
        env.user(user.reply)  # type: ignore[union-attr]
    if hasattr(user, "USER"):
        env.marked.user = user.USER  # type: ignore[union-attr]
    solution = _optional(folder / "solution.py")
    if solution is not None:
        env.solution(_function(solution, "solve", folder / "solution.py"))
    _add_rubrics(env, folder)
    seal_modules(folder)
    return env


def _check_function(folder: Path | None, ref: str) -> Callable[..., Any]:
    """The function that a rubric's `ref` names: `sandlot:name` is built in, `module:function` is in the folder."""
    module_name, _, name = ref.partition(":")
    if not name:
        raise ConfigError(f"check ref `{ref}`: write `module:function`, for example `checks:total_is_right`")
    if module_name == "sandlot":
        if name not in LIBRARY:
            raise ConfigError(f"check ref `{ref}`: no built-in check `{name}`; there are: {', '.join(sorted(LIBRARY))}")
        return LIBRARY[name]
    path = (folder or Path()).joinpath(*module_name.split(".")).with_suffix(".py")
    if folder is None or not path.is_file() or folder.resolve() not in path.resolve().parents:
        raise ConfigError(f"check ref `{ref}`: no file `{path}`; write the function there, or fix the `ref`")
    return _function(load_module(path, shared=True), name, path)


def lint_rubric(path: Path) -> list[LintFinding]:
    """Lint a rubric file. Its references are looked up in its environment, if the file is in the folder of one."""
    folder = path.resolve().parent.parent
    if not (folder / MANIFEST).is_file():
        return lint_file(path)
    tasks = [task for task in tasks_of(load_folder(folder)) if task.rubric == path.stem]
    return lint_file(path, functools.partial(_check_function, folder), tasks)


def _manifest(path: Path) -> EnvironmentToml:
    try:
        return msgspec.convert(tomllib.loads(path.read_text()), EnvironmentToml)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}{_known(str(error))}") from error


def _known(error: str) -> str:
    """The keys or values that are allowed where the error is."""
    if "enum" in error:
        return f"; use {', '.join(OnBreach)}"
    if "field" not in error:  # a value of the wrong type: the message says which is right
        return ""
    tables = {"$.limits": Limits, "$.constraints": Constraint, "$.mcp": McpServer}
    table = next((fields for name, fields in tables.items() if f"`{name}" in error), EnvironmentToml)
    return f"; known keys: {', '.join(field.name for field in msgspec.structs.fields(table))}"


def _add_tasks(env: Environment, folder: Path) -> None:
    files = sorted([*folder.glob("tasks/*.jsonl"), *folder.glob("tasks/*.parquet")])
    generator = _optional(folder / "tasks.py")
    if generator is not None and files:
        raise ConfigError(f"{folder}: tasks are in both `tasks.py` and `{files[0].relative_to(folder)}`; keep one")
    if generator is not None:
        env.tasks(_function(generator, "tasks", folder / "tasks.py"))
    elif files:
        env.marked.tasks = functools.partial(_from_files, files)
    else:
        raise ConfigError(
            f"{folder}: no tasks; write `tasks/train.jsonl` (one task per line) or `tasks.py` with `def tasks(rng)`"
        )


def _from_files(files: list[Path], _: Random) -> Iterator[Task]:
    return tasks_from(*files)


def _tool_functions(folder: Path, names: tuple[str, ...] | None) -> list[Callable[..., Any]]:
    module = _optional(folder / "tools.py")
    if names is not None and not hasattr(module, BASH.spec.name):  # a `bash` in `tools.py` takes the place of the built-in one
        names = tuple(name for name in names if name != BASH.spec.name)
    if module is None:
        if names:
            raise ConfigError(f"{folder / MANIFEST}: tools = {list(names)}, but there is no `tools.py`; write them there")
        return []
    if names is not None:
        return [_function(module, name, folder / "tools.py") for name in names]
    return [
        function
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
    ]


def _add_rubrics(env: Environment, folder: Path) -> None:
    files = sorted(folder.glob("rubrics/*.json"))
    if not files:
        raise ConfigError(f"{folder}: no rubric; write the checks into `rubrics/default.json`")
    resolve = functools.partial(_check_function, folder)
    for path in files:
        rubric = load_rubric(path)
        env.marked.rubrics[path.stem] = rubric
        for check in rubric.checks:
            ref = getattr(check, "ref", None)
            if ref is not None and ref not in env.marked.functions:
                env.marked.functions[ref] = resolve(ref)


def _optional(path: Path) -> ModuleType | None:
    return load_module(path, shared=True) if path.is_file() else None


def _function(module: ModuleType, name: str, path: Path) -> Callable[..., Any]:
    function = getattr(module, name, None)
    if not callable(function):
        there = [other for other, value in vars(module).items() if inspect.isfunction(value) and not other.startswith("_")]
        raise ConfigError(f"{path}: no function `{name}`; functions there: {', '.join(there) or 'none'}")
    return function
