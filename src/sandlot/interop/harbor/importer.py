"""Imports task folders of Harbor and Terminal-Bench.

Each task keeps its own image (a Containerfile), tests and solution, as files below `data/TASK/` of the environment. The image is
built here, so that a task whose image cannot be had is left out with the reason. What the tests install at run time is added to
the image as marked lines, since grading has no network.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.ports.importer import ImportedTask, ImportReport, LeftOut
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.core.types import Split
from sandlot.interop.folder_writer import EnvironmentDraft, environment_name, task_id, write_environment
from sandlot.interop.harbor.fetches import fetch_reason
from sandlot.interop.harbor.source import (
    HARBOR,
    TERMINAL_BENCH,
    TaskFolder,
    find_tasks,
    licence_of,
    read_harbor,
    read_terminal_bench,
    script_of,
    test_requirements,
)
from sandlot.interop.untrusted import copy_tree, read_bytes, read_text, source_digest
from sandlot.sandbox.containerfile.parse import LAYER_MARK
from sandlot.sandbox.images.containerfile import containerfile_notes

_CODE = Path(__file__).parent / "environment"
"""Python files of imported environments, not of this package: they import from the front door."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_VENV = "/opt/sandlot-tests"
_ADDED = "# -- added by `sandlot import`: what the tests install, since grading has no network --"
_NOTES = (
    "there is no network during a rollout or its grading; a task that needs one cannot be solved",
    "processes that the agent leaves running have ended when the tests run",
)


@dataclass(frozen=True, slots=True)
class TaskFolderImporter:
    """`Importer` of one of the two formats."""

    kind: str
    manifest: str
    read: Callable[[Path], TaskFolder]

    def digest(self, source: str) -> str:
        """A hash of all files of the source."""
        return source_digest(source)

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment and build the images of its tasks."""
        place = Path(source)
        tasks: list[Task] = []
        taken: list[ImportedTask] = []
        left_out: list[LeftOut] = []
        notes: dict[str, None] = dict.fromkeys(_NOTES)
        for each in find_tasks(place, self.manifest):
            if limit is not None and len(tasks) >= limit:
                left_out.append(LeftOut(what=each.name, why=f"beyond the limit of {limit} tasks"))
                continue
            name = task_id(each.name)
            if name in {task.id for task in tasks}:
                left_out.append(LeftOut(what=each.name, why=f"another folder is the task `{name}` already; rename one of them"))
                continue
            try:
                found = self.read(each)
                tasks.append(_write_task(name, found, folder))
            except ConfigError as error:
                _remove(folder / "data" / name)
                left_out.append(LeftOut(what=each.name, why=str(error)))
                continue
            taken.append(ImportedTask(id=name, origin=str(each), licence=licence_of(each)))
            about = containerfile_notes(folder / "data" / name / "environment")
            notes |= dict.fromkeys(f"{name}: {note}" for note in (*found.notes, *about))
        if tasks:
            write_environment(folder, _draft(environment_name(place.resolve().name), self.kind, tasks))
        return ImportReport(
            kind=self.kind, source=source, tasks=tuple(taken), left_out=tuple(left_out), notes=tuple(notes), version="1"
        )


HARBOR_IMPORTER = TaskFolderImporter("harbor", HARBOR, read_harbor)
TERMINAL_BENCH_IMPORTER = TaskFolderImporter("terminal-bench", TERMINAL_BENCH, read_terminal_bench)


def environment_code() -> dict[str, str]:
    """The Python files of every imported environment, by name."""
    return {name: (_CODE / f"{name}.txt").read_text() for name in ("checks.py", "solution.py", "world.py")}


def _draft(name: str, kind: str, tasks: list[Task]) -> EnvironmentDraft:
    longest_s = max(float(task.limits["grade_s"]) for task in tasks)
    return EnvironmentDraft(
        name=name,
        settings={
            "description": f"{len(tasks)} tasks imported from {kind} folders",
            "image": tasks[0].image,
            "limits": {
                "turns": 100,
                "provision_s": 300.0,
                "grade_s": longest_s,
                "teardown_s": 120.0,
                "evidence_bytes": 1 << 30,
                "evidence_files": 100_000,
            },
        },
        tasks=tasks,
        rubrics={"default": Rubric(checks=(PythonCheck(id="tests", ref="checks:tests_pass", tags=("tests",)),))},
        code=environment_code(),
    )


def _write_task(name: str, found: TaskFolder, folder: Path) -> Task:
    """Copy a task's files and build its image."""
    home = folder / "data" / name
    image = home / "environment"
    copy_tree(found.context, image)
    original = read_text(image / found.containerfile)
    for hidden in ("solution.sh", "solution.yaml", "run-tests.sh", "tests", "task.yaml", "docker-compose.yaml"):
        if found.context == found.folder and not _copied(hidden, original):
            _remove(image / hidden)  # Terminal-Bench: the image's folder is the task's own, and holds the key
    if found.tests.is_dir():
        copy_tree(found.tests, home / "tests")
    (home / "tests").mkdir(exist_ok=True)
    for each in found.extra_tests:
        (home / "tests" / each.name).write_bytes(read_bytes(each))
    _copy_solution(found, home / "solution")
    script = read_text(home / "tests" / found.tests_script)
    if found.solution and (why := fetch_reason(read_text(home / "solution" / found.solution_script), original)):
        raise ConfigError(why)
    (image / found.containerfile).unlink()
    (image / "Containerfile").write_text(_with_settings(_with_test_packages(original, script), found))
    containerfile_notes(image)
    return Task(
        name,
        prompt=found.instruction,
        image=f"containerfile:data/{name}/environment",
        key={
            "tests_script": found.tests_script,
            "tests_s": found.tests_s,
            "tests_env": found.tests_env,
            "reward": found.reward,
            "path": _PATH,
            "solution_script": found.solution_script,
            "solution_folder": found.solution_folder,
            "solution_env": found.solution_env,
        },
        split=Split.HELDOUT if found.canary else None,
        limits={"time_s": found.agent_s, "tool_s": found.agent_s, "grade_s": found.tests_s * 1.5 + 120.0},
        tags=found.tags,
        declared=found.declared or msgspec.UNSET,
    )


def _copied(name: str, containerfile: str) -> bool:
    """True if the Containerfile puts this file or folder into the image by name."""
    return re.search(rf"^(COPY|ADD)\b.*[\s\"/]{re.escape(name)}\b", containerfile, re.MULTILINE | re.IGNORECASE) is not None


def _copy_solution(found: TaskFolder, target: Path) -> None:
    for each in found.solution:
        if each.is_dir():
            copy_tree(each, target)
        else:
            target.mkdir(parents=True, exist_ok=True)
            text = script_of(each) if each.suffix == ".yaml" else read_text(each)
            (target / found.solution_script).write_text(text)


def _remove(path: Path) -> None:
    if path.is_dir():
        for inner in path.iterdir():
            _remove(inner)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def _with_settings(containerfile: str, found: TaskFolder) -> str:
    """The Containerfile with the variables and the folder that the task's container has besides."""
    lines = [containerfile.rstrip("\n")]
    for name, value in found.image_env.items():
        quoted = re.sub(r'(["\\$])', r"\\\1", value)
        lines.append(f'ENV {name}="{quoted}"')
    if found.image_folder:
        lines.append(f"WORKDIR {found.image_folder}")
    return "\n".join(lines) + "\n"


def _with_test_packages(original: str, script: str) -> str:
    """The Containerfile with what its tests install."""
    wanted: dict[str, list[str]] = {"apt": [], "tests": [], "python": []}
    for kind, package in test_requirements(script):
        wanted[kind].append(package.strip("\"'"))
    if not any(wanted.values()) and not re.search(r"\buvx?\b", script):
        return original
    first = re.search(r"^FROM\s.*$", original, re.MULTILINE | re.IGNORECASE)
    if first is None:
        raise ConfigError("its Dockerfile has no `FROM`")
    # The Python of the images that the tests were written for has its headers; a compiler builds extensions for it.
    headers = ["python3-dev"] if {"gcc", "g++", "build-essential"} & set(wanted["apt"]) else []
    apt = " ".join(dict.fromkeys([*wanted["apt"], *headers]))
    packages = " ".join(f"'{each}'" for each in dict.fromkeys(wanted["tests"] or ["pytest==8.4.1"]))
    check = f"python3 -c 'import venv, pip'{' && false' if apt else ''}"
    install = "apt-get update && apt-get install -y --no-install-recommends python3 python3-venv python3-pip"
    lean = " --no-install-recommends" if "--no-install-recommends" in script else ""
    asked = f" && apt-get install -y{lean} {apt}" if apt else ""
    lines = [original[: first.end()], _ADDED, f"RUN {check} || ({install}{asked} && rm -rf /var/lib/apt/lists/*)"]
    pip = f"PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip --python {_VENV}/bin/python install --no-cache-dir --no-compile"
    lines.append(f"RUN python3 -m venv --without-pip {_VENV} && {pip} {packages}")
    if wanted["python"]:
        own = " ".join(f"'{each}'" for each in dict.fromkeys(wanted["python"]))
        lines.append(f"RUN PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --no-cache-dir {own}")
    lines += [LAYER_MARK, original[first.end() :].strip()]
    return "\n".join(lines) + "\n"
