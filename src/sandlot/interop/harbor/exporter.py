"""Exports folder environments as Harbor task folders.

The image becomes a Dockerfile, the files that setup writes become part of it, the golden solution is played here and its commands
become `solve.sh`, and the checks become a small program beside `test.sh`. That is possible where the agent
has only a shell and the checks read only files; anything else is refused with the reason. An environment that was imported from
task folders is written back with its own tests.
"""

import ast
import shlex
import shutil
import tempfile
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
from sandlot.interop.folder_writer import to_toml
from sandlot.run.run import run
from sandlot.sandbox.images.debian import read_recipe
from sandlot.sandbox.images.spec import resolve_spec
from sandlot.sandbox.native.backend import open_native
from sandlot.tools.bash import BASH

_GRADE = Path(__file__).parent / "environment" / "grade.py.txt"
_NOT_FILES = frozenset(("answer", "state", "trace", "record", "apps", "diff", "grading_sandbox"))
"""What checks may read of evidence and a Harbor container does not have."""
_TEST = "#!/bin/bash\nmkdir -p /logs/verifier\nexec python3 /tests/grade.py\n"
_PYTEST = """#!/bin/bash
mkdir -p /logs/verifier
bash /tests/run-tests.sh
[ $? -eq 0 ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
"""


class HarborExporter:
    """`Exporter` of Harbor task folders."""

    kind = "harbor"

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
                    _write_back(home / "data" / task.id, task, place)
                else:
                    _write_task(env, home, task, place, solved)
            except ConfigError as error:
                shutil.rmtree(place, ignore_errors=True)
                left_out.append(LeftOut(what=task.id, why=str(error)))
                continue
            _write_common(env, task, place)
            written.append(task.id)
        return EnvironmentExport(kind=self.kind, folder=str(folder), tasks=tuple(written), left_out=tuple(left_out))


def _home(env: Environment) -> Path:
    if env.source is None or not env.source.is_dir():
        raise ConfigError(f"`{env.name}` is not a folder environment: only those have their checks in files of their own")
    return env.source


def _require_expressible(env: Environment, home: Path, tasks: list[Task]) -> None:
    """`ConfigError` names the first thing that Harbor has no place for."""
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
            raise ConfigError(f"`{env.name}` has {what}, which a Harbor task cannot express")
    for name in {task.rubric for task in tasks}:
        _require_file_checks(rubric_for(env, next(task for task in tasks if task.rubric == name)), name, home)


def _require_file_checks(rubric: Rubric, name: str, home: Path) -> None:
    if rubric.groups:
        raise ConfigError(f"rubric `{name}` has groups, which the exported grader does not know")
    for check in rubric.checks:
        if not isinstance(check, PythonCheck):
            raise ConfigError(f"check `{check.id}` of rubric `{name}` asks a judge, and Harbor's container has none")
        module = check.ref.partition(":")[0]
        if module == "sandlot":
            raise ConfigError(f"check `{check.id}` is `{check.ref}` of Sandlot's library, which is not in Harbor's container")
        used = _used_of_evidence(home.joinpath(*module.split(".")).with_suffix(".py"))
        if used:
            raise ConfigError(f"check `{check.id}` reads `evidence.{used[0]}`; a Harbor container has only the files")


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


def _write_task(env: Environment, home: Path, task: Task, place: Path, solved: dict[str, list[str] | str]) -> None:
    commands = solved[task.id]
    if isinstance(commands, str):
        raise ConfigError(commands)
    environment, tests, solution = place / "environment", place / "tests", place / "solution"
    for folder in (environment, tests, solution):
        folder.mkdir(parents=True)
    modes = anyio.run(_write_setup_files, env, task, environment / "files")
    (environment / "Dockerfile").write_text(_dockerfile(env, home, task, environment, modes))
    (solution / "solve.sh").write_text("#!/bin/bash\n" + "".join(f"/bin/sh -c {shlex.quote(each)}\n" for each in commands))
    (tests / "test.sh").write_text(_TEST)
    shutil.copyfile(_GRADE, tests / "grade.py")
    (tests / "task.json").write_bytes(
        msgspec.json.encode({"id": task.id, "prompt": task.prompt, "data": task.data, "key": task.key})
    )
    (tests / "rubric.json").write_bytes(msgspec.json.encode(rubric_for(env, task)))
    for file in sorted(home.glob("*.py")):
        if file.name not in {"world.py", "solution.py", "tools.py", "tasks.py", "user.py"}:
            shutil.copyfile(file, tests / file.name)


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


def _dockerfile(env: Environment, home: Path, task: Task, environment: Path, modes: dict[str, int]) -> str:
    image = task.image if task.image and not env.in_other_image else env.image or ""
    kind, _, rest = resolve_spec(image, home).partition(":")
    if kind == "debian":
        recipe = read_recipe(rest)
        packages = " ".join(sorted({*recipe.packages, "python3"}))
        lines = [f"FROM debian:{recipe.suite}", _install(packages)]
    elif kind == "containerfile":
        source = Path(rest)
        file = (
            source
            if source.is_file()
            else next(source / name for name in ("Containerfile", "Dockerfile") if (source / name).is_file())
        )
        shutil.copytree(file.parent, environment, dirs_exist_ok=True, ignore=shutil.ignore_patterns(file.name))
        lines = [
            file.read_text().rstrip(),
            "USER root",
            f"RUN command -v python3 || ({_install('python3').removeprefix('RUN ')})",
        ]
    else:
        raise ConfigError(
            f"its image `{image}` exists only on this machine; name another with `--image debian:trixie?PACKAGE,...`"
        )
    lines += ["COPY files/ /", *(f"RUN chmod {mode:o} {shlex.quote(path)}" for path, mode in sorted(modes.items()))]
    return "\n".join(lines) + "\n"


def _install(packages: str) -> str:
    return f"RUN apt-get update && apt-get install -y --no-install-recommends {packages} && rm -rf /var/lib/apt/lists/*"


def _write_back(data: Path, task: Task, place: Path) -> None:
    """A task that came from a task folder: its own files."""
    if not (data / "tests").is_dir():
        raise ConfigError(f"there is no folder `{data / 'tests'}`")
    place.mkdir()
    for name in ("environment", "tests", "solution"):
        if (data / name).is_dir():
            shutil.copytree(data / name, place / name)
    (place / "environment" / "Containerfile").rename(place / "environment" / "Dockerfile")
    if task.key["reward"] == "pytest":
        (place / "tests" / "test.sh").write_text(_PYTEST)
        if (place / "solution").is_dir():
            (place / "solution" / task.key["solution_script"]).rename(place / "solution" / "solve.sh")


def _write_common(env: Environment, task: Task, place: Path) -> None:
    limits = env.limits.but(task.limits)
    system = f"{env.system}\n\n" if env.system else ""
    (place / "instruction.md").write_text(f"{system}{task.prompt}\n")
    for script in (place / "tests" / "test.sh", place / "solution" / "solve.sh"):
        if script.is_file():
            script.chmod(0o755)
    config = {
        "version": "1.0",
        "metadata": {"tags": list(task.tags), "origin": f"sandlot environment {env.name}, task {task.id}"},
        "verifier": {"timeout_sec": float(task.key.get("tests_s", limits.grade_s))},
        "agent": {"timeout_sec": float(limits.time_s)},
        "environment": {
            "network_mode": "no-network",
            "build_timeout_sec": 1200.0,
            "cpus": 1,
            "memory_mb": 2048,
            "storage_mb": 4096,
        },
    }
    (place / "task.toml").write_text(to_toml(config))
