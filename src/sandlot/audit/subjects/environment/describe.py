"""Describes an environment for the auditor, which does not load it: tasks with keys, tools, rubrics, sources."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from sandlot.audit.subject import Declared, Description
from sandlot.core.errors import ConfigError
from sandlot.core.task import Task
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint, files_of, modules_of
from sandlot.env.function import dialogue_of
from sandlot.env.grading import needs_judge, rubric_for
from sandlot.env.taskset import tasks_of

_DECLARATIONS = "audit.toml"
"""Declarations and waivers of the author: beside `environment.toml`, or `NAME.audit.toml` beside `NAME.py`."""
_SOURCE_BYTES = 2**20
"""Larger files are data, not source."""


def describe(env: Environment) -> Description:
    """The description of a loaded environment."""
    tasks = [_with_prompt(env, task) for task in tasks_of(env)]
    names = dict.fromkeys(task.rubric for task in tasks)
    declared = _read_declared(env.source)
    sources, material = _sources(env, declared)
    return Description(
        name=env.name,
        kind="environment",
        fingerprint=environment_fingerprint(env),
        tasks=tuple(tasks),
        tools=tuple(tool.spec for tool in env.tools),
        rubrics={} if env.marked.grade else {name: rubric_for(env, tasks[0], name) for name in names},
        system=env.system,
        image=env.image,
        seats=tuple(seat.name for seat in env.seats),
        limits=env.limits,
        has_golden=env.marked.solution is not None,
        has_user=env.marked.user is not None or env.marked.persona is not None,
        has_persona=env.marked.is_played,
        needs_user=env.marked.needs_player,
        adversaries=tuple(env.marked.adversaries),
        controls=tuple(env.marked.controls),
        sources=sources,
        material=material,
        declared=declared,
        needs_judge=needs_judge(env, tasks),
    )


def _with_prompt(env: Environment, task: Task) -> Task:
    """The task with prompt and golden answer: in a one-function environment its first `Ask` has them."""
    dialogue = dialogue_of(env)
    if dialogue is None:
        return task
    first: Any = next(dialogue.start(task), None)
    prompt, golden = getattr(first, "prompt", ""), getattr(first, "golden", None)
    return msgspec.structs.replace(task, prompt=prompt, key={} if golden is None else {"golden": golden})


def _sources(env: Environment, declared: Declared) -> tuple[dict[str, str], dict[str, str]]:
    """The text files of the author, and those of material. What the environment imports is the author's, wherever it is.

    Files of the image, such as libraries, are neither.
    """
    sources: dict[str, str] = {}
    material: dict[str, str] = {}
    image, others = _image_folders(env), _material_folders(env, declared)
    modules = {path.resolve() for path in modules_of(env)}
    for name, path in files_of(env):
        place = path.resolve()
        imported = place in modules
        if not imported and any(place.is_relative_to(folder) for folder in image):
            continue
        if path.stat().st_size <= _SOURCE_BYTES:
            found = sources if imported or not any(place.is_relative_to(folder) for folder in others) else material
            try:
                found[name] = path.read_text()
            except UnicodeDecodeError:
                continue
    return sources, material


def _image_folders(env: Environment) -> list[Path]:
    """The folders of an image `host:FOLDER:FOLDER` that are below the environment's own, which is none of the image alone."""
    kind, *folders = (env.image or "").split(":")
    if kind != "host" or env.source is None:
        return []
    base = env.source if env.source.is_dir() else env.source.parent
    return [place for folder in folders if base.resolve() in (place := (base / folder).resolve()).parents]


def _material_folders(env: Environment, declared: Declared) -> list[Path]:
    """The folders that are declared as material; `ConfigError` for one that is not below the environment's own."""
    if env.source is None:
        return []
    base = (env.source if env.source.is_dir() else env.source.parent).resolve()
    places = {folder: (base / folder).resolve() for folder in declared.material}
    wrong = [folder for folder, place in places.items() if base not in place.parents or not place.is_dir()]
    if wrong:
        raise ConfigError(f"{declarations_of(env.source)}: `material` names `{wrong[0]}`, which is no folder of the environment")
    return list(places.values())


def declarations_of(source: Path) -> Path:
    """The path of an environment's `audit.toml`, whether it exists or not."""
    if source.is_dir():
        return source / _DECLARATIONS
    if source.name == "environment.py":
        return source.with_name(_DECLARATIONS)
    return source.with_name(f"{source.stem}.{_DECLARATIONS}")


def _read_declared(source: Path | None) -> Declared:
    """The author's declarations; the defaults if there is no file."""
    place = declarations_of(source) if source is not None else None
    if place is None or not place.is_file():
        return Declared()
    try:
        return msgspec.convert(tomllib.loads(place.read_text()).get("declared", {}), Declared)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        known = ", ".join(field.name for field in msgspec.structs.fields(Declared))
        raise ConfigError(f"{place}: {error}; [declared] has: {known}") from error
