"""Exports folder environments as task folders of Harbor and Terminal-Bench.

The image becomes a Dockerfile, the files that setup writes become part of it, the golden solution is played here and its commands
become a script, and the checks become a small program beside the tests. That is possible where the agent
has only a shell and the checks read only files; anything else is refused with the reason. An environment that was imported from
task folders is written back with its own tests.
"""

import ast
import shlex
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import anyio
import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.ports.importer import LeftOut
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.syntax import parse_python
from sandlot.core.task import Task
from sandlot.core.trace import Trace
from sandlot.env.environment import Environment
from sandlot.env.grading import rubric_for
from sandlot.env.session import open_session
from sandlot.env.taskset import tasks_of
from sandlot.env.world import sandbox_of
from sandlot.interop.exporting import EnvironmentExport
from sandlot.interop.harbor.layouts import HARBOR_LAYOUT, TERMINAL_BENCH_LAYOUT, TaskLayout
from sandlot.run.run import run
from sandlot.sandbox.images.debian import read_recipe
from sandlot.sandbox.images.spec import resolve_spec
from sandlot.sandbox.native.backend import open_native
from sandlot.tools.bash import BASH

_GRADE = Path(__file__).parent / "environment" / "grade.py.txt"
_SCRIPTS = frozenset(("test.sh", "solve.sh", "run-tests.sh", "solution.sh"))
_NOT_FILES = frozenset(("answer", "state", "trace", "record", "apps", "diff", "grading_sandbox"))
"""What checks may read of evidence and a Harbor container does not have."""


@dataclass(frozen=True, slots=True)
class TaskFolderExporter:
    """`Exporter` of one of the two formats."""

    layout: TaskLayout

    @property
    def kind(self) -> str:
        """The format."""
        return self.layout.kind

    def write(self, env: Environment, folder: Path, *, limit: int | None) -> EnvironmentExport:
        """One folder per task. Plays the golden solution of every task."""
        home = _home(env)
        tasks = tasks_of(env)[:limit]
        imported = all("tests_script" in task.key for task in tasks)
        if not imported:
            _require_expressible(env, home, tasks)
        solved = _commands(env, tasks) if not imported else {}
        written: list[str] = []
        left_out: list[LeftOut] = []
        for task in tasks:
            place = folder / task.id
            try:
                if imported:
                    self.layout.write_back(home / "data" / task.id, task, place)
                else:
                    _write_task(self.layout, _Source(env, home, solved), task, place)
            except ConfigError as error:
                shutil.rmtree(place, ignore_errors=True)
                left_out.append(LeftOut(what=task.id, why=str(error)))
                continue
            self.layout.write_manifest(env, task, place)
            _make_runnable(place)
            written.append(task.id)
        return EnvironmentExport(
            kind=self.kind, folder=str(folder), tasks=tuple(written), left_out=tuple(left_out), notes=self.layout.notes
        )


HARBOR_EXPORTER = TaskFolderExporter(HARBOR_LAYOUT)
TERMINAL_BENCH_EXPORTER = TaskFolderExporter(TERMINAL_BENCH_LAYOUT)


@dataclass(frozen=True, slots=True)
class _Source:
    """The environment, its folder, and the commands that solve its tasks."""

    env: Environment
    home: Path
    solved: dict[str, list[str] | str]


def _home(env: Environment) -> Path:
    if env.source is None or not env.source.is_dir():
        raise ConfigError(f"`{env.name}` is not a folder environment: only those have their checks in files of their own")
    return env.source


def _require_expressible(env: Environment, home: Path, tasks: list[Task]) -> None:
    """`ConfigError` names the first thing that a task folder has no place for."""
    extra = [tool.spec.name for tool in env.tools if tool.spec.name != BASH.spec.name]
    parts = {
        "tools of its own: " + ", ".join(extra): bool(extra),
        "apps": bool(env.apps),
        "MCP servers": bool(env.marked.sources),
        "a user": env.marked.user is not None or env.marked.persona is not None,
        "no sandbox: give it one with `--image debian:trixie`": env.image is None,
        "no golden solution": env.marked.solution is None,
    }
    for what, has in parts.items():
        if has:
            raise ConfigError(f"`{env.name}` has {what}, which a task folder cannot express")
    for name in {task.rubric for task in tasks}:
        _require_file_checks(rubric_for(env, next(task for task in tasks if task.rubric == name)), name, home)


def _require_file_checks(rubric: Rubric, name: str, home: Path) -> None:
    if rubric.groups:
        raise ConfigError(f"rubric `{name}` has groups, which the exported grader does not know")
    for check in rubric.checks:
        if not isinstance(check, PythonCheck):
            raise ConfigError(f"check `{check.id}` of rubric `{name}` asks a judge, and the task's container has none")
        module = check.ref.partition(":")[0]
        if module == "sandlot":
            raise ConfigError(f"check `{check.id}` is `{check.ref}` of Sandlot's library, which is not in the task's container")
        used = _used_of_evidence(home.joinpath(*module.split(".")).with_suffix(".py"))
        if used:
            raise ConfigError(f"check `{check.id}` reads `evidence.{used[0]}`; a task's container has only the files")


def _used_of_evidence(file: Path) -> list[str]:
    """What the functions of a file read of evidence besides files."""
    tree = parse_python(file.read_text())
    return sorted(
        {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "evidence"
        }
        & _NOT_FILES
    )


def _commands(env: Environment, tasks: list[Task]) -> dict[str, list[str] | str]:
    """The shell commands of the golden solution of each task, or why it has none."""
    with tempfile.TemporaryDirectory() as runs:
        played = run(env, "scripted:golden", tasks=tuple(task.id for task in tasks), runs=runs)
        return {task.id: _commands_of(played.trace(task.id)) for task in tasks}


def _commands_of(trace: Trace) -> list[str] | str:
    score = getattr(trace.outcome, "score", None)
    if score is None or score.value < 1.0:
        return f"its golden solution does not get full marks here: {trace.outcome}"[:300]
    calls = [call for node in trace.nodes for call in node.message.calls]
    if other := [call.name for call in calls if call.name != BASH.spec.name]:
        return f"its golden solution calls `{other[0]}`, not a shell"
    return [str(call.arguments.get("command", "")) for call in calls]


def _write_task(layout: TaskLayout, source: _Source, task: Task, place: Path) -> None:
    commands = source.solved[task.id]
    if isinstance(commands, str):
        raise ConfigError(commands)
    context, tests, solution = place / layout.context, place / "tests", place / layout.solution
    for folder in (context, tests, solution.parent):
        folder.mkdir(parents=True, exist_ok=True)
    modes = anyio.run(_write_setup_files, source.env, task, context / "files")
    (context / "Dockerfile").write_text(_dockerfile(source, task, context, modes, layout))
    solution.write_text("#!/bin/bash\n" + "".join(f"/bin/sh -c {shlex.quote(each)}\n" for each in commands))
    for name, text in layout.tests.items():
        (place / name).write_text(text)
    shutil.copyfile(_GRADE, tests / "grade.py")
    (tests / "task.json").write_bytes(
        msgspec.json.encode({"id": task.id, "prompt": task.prompt, "data": task.data, "key": task.key})
    )
    (tests / "rubric.json").write_bytes(msgspec.json.encode(rubric_for(source.env, task)))
    for file in sorted(source.home.glob("*.py")):
        if file.name not in {"world.py", "solution.py", "tools.py", "tasks.py", "user.py"}:
            shutil.copyfile(file, tests / file.name)


def _make_runnable(place: Path) -> None:
    for script in place.rglob("*.sh"):
        if script.name in _SCRIPTS:
            script.chmod(0o755)


async def _write_setup_files(env: Environment, task: Task, folder: Path) -> dict[str, int]:
    """The files that setup made, below a folder; the modes of those that are not 644."""
    modes: dict[str, int] = {}
    async with open_native() as backend, open_session(env, task, backend=backend) as session:
        sandbox = sandbox_of(session.world.files)
        assert sandbox is not None
        contents = {path: await sandbox.read(path) for path in await sandbox.changed()}
        for path in contents:
            mode = (await sandbox.stat(path)).mode & 0o777  # type: ignore[attr-defined] - the native backend's
            if mode != 0o644:
                modes[path] = mode
    _write_files(folder, contents)
    return modes


def _write_files(folder: Path, contents: dict[str, bytes]) -> None:
    folder.mkdir()
    for path, data in contents.items():
        target = folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def _dockerfile(source: _Source, task: Task, context: Path, modes: dict[str, int], layout: TaskLayout) -> str:
    image = task.image if task.image and not source.env.in_other_image else source.env.image or ""
    kind, _, rest = resolve_spec(image, source.home).partition(":")
    if kind == "debian":
        recipe = read_recipe(rest)
        packages = " ".join(sorted({*recipe.packages, *layout.packages}))
        lines = [f"FROM debian:{recipe.suite}", _install(packages)]
    elif kind == "containerfile":
        file = Path(rest)
        if not file.is_file():
            file = next(file / name for name in ("Containerfile", "Dockerfile") if (file / name).is_file())
        shutil.copytree(file.parent, context, dirs_exist_ok=True, ignore=shutil.ignore_patterns(file.name))
        lines = [
            file.read_text().rstrip(),
            "USER root",
            f"RUN {layout.asks} || ({_install(' '.join(layout.packages)).removeprefix('RUN ')})",
        ]
    else:
        raise ConfigError(
            f"its image `{image}` exists only on this machine; name another with `--image debian:trixie?PACKAGE,...`"
        )
    lines += ["COPY files/ /", *(f"RUN chmod {mode:o} {shlex.quote(path)}" for path, mode in sorted(modes.items()))]
    return "\n".join(lines) + "\n"


def _install(packages: str) -> str:
    return f"RUN apt-get update && apt-get install -y --no-install-recommends {packages} && rm -rf /var/lib/apt/lists/*"
