"""Reads the `docker-compose.yaml` of a Terminal-Bench task: where its one container is built, and what it gets.

What changes the task if it is missing (a process that is started, files that are mounted) is a `ConfigError`; the rest is a note.
"""

import posixpath
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from sandlot.core.errors import ConfigError
from sandlot.interop.harbor.yaml_file import read_mapping, table

_NAME = "docker-compose.yaml"
_WAITS = re.compile(r"((/bin/)?(ba)?sh -c )?['\"]?(sleep (infinity|inf|\d+[dh]?)|tail -f /dev/null|(/bin/)?(ba)?sh)['\"]?\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NOT_GIVEN = (
    "privileged",
    "cap_add",
    "devices",
    "network_mode",
    "security_opt",
    "dns",
    "extra_hosts",
    "sysctls",
    "tmpfs",
    "ulimits",
)
_ITS_OWN = ("TEST_DIR", "T_BENCH_")
"""Variables of the benchmark's own runner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compose:
    """What the one service says about its container."""

    context: Path
    """The folder that its image is built from."""
    containerfile: str = "Dockerfile"
    """Relative to that folder."""
    folder: str = ""
    """Where commands run, if it says so."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()


def read_compose(task: Path) -> Compose:
    """The container of a task folder. `ConfigError` if there are several, or a sandbox cannot stand for it."""
    if not (task / _NAME).is_file():
        return Compose(context=task)
    services = table(read_mapping(task / _NAME), "services")
    if len(services) != 1:
        raise ConfigError(f"it needs several containers: {', '.join(services) or f'its `{_NAME}` has no services'}")
    service = table(services, next(iter(services)))
    _refuse_missing(service)
    context, containerfile = _build(task, service.get("build"))
    env, unset = _variables(service.get("environment"))
    odd = [name for name in _NOT_GIVEN if service.get(name)]
    notes = [f"`{_NAME}` asks for {', '.join(odd)}, which a sandbox does not give"] if odd else []
    if unset:
        notes.append(f"variables that the host would set are left out: {', '.join(unset)}")
    folder = str(service.get("working_dir") or "")
    return Compose(context=context, containerfile=containerfile, folder=folder, env=env, notes=tuple(notes))


def _refuse_missing(service: dict[str, Any]) -> None:
    """`ConfigError` for what the task cannot do without."""
    for name in ("entrypoint", "command"):
        words = service.get(name)
        said = " ".join(map(str, cast("list[Any]", words))) if isinstance(words, list) else str(words or "")
        if said and not _WAITS.match(said):
            raise ConfigError(f"its `{_NAME}` starts `{said[:120]}`, and a sandbox starts with no process of its own")
    for each in cast("list[Any]", service.get("volumes") or []):
        if not re.match(r"\$\{T_BENCH_\w+\}:", str(each)):
            raise ConfigError(f"its `{_NAME}` mounts `{str(each)[:120]}`; only what the image has is in a sandbox")
    reserved = table(table(table(service, "deploy"), "resources"), "reservations")
    if reserved.get("devices") or service.get("runtime") == "nvidia" or service.get("gpus"):
        raise ConfigError("it asks for an accelerator")


def _build(task: Path, build: Any) -> tuple[Path, str]:
    """The folder and the file that its image is built from."""
    about: dict[str, Any] = {"context": build} if isinstance(build, str) else table({"build": build}, "build")
    wanted, file = str(about.get("context") or "."), str(about.get("dockerfile") or "Dockerfile")
    context = task / posixpath.normpath(wanted)
    if not _is_inside(wanted) or not context.is_dir() or not context.resolve().is_relative_to(task.resolve()):
        raise ConfigError(f"its `{_NAME}` builds from `{wanted[:120]}`, which is not a folder of the task")
    if not _is_inside(file):
        raise ConfigError(f"its `{_NAME}` builds `{file[:120]}`, which is not a file of `{wanted[:120]}`")
    return context, posixpath.normpath(file)


def _is_inside(path: str) -> bool:
    return not posixpath.isabs(path) and not posixpath.normpath(path).startswith("..")


def _variables(given: Any) -> tuple[dict[str, str], list[str]]:
    """Those with a value of their own, and the names of those that the host sets."""
    pairs: list[tuple[str, Any]]
    if isinstance(given, list):
        lines = [str(each).partition("=") for each in cast("list[Any]", given)]
        pairs = [(name, value if mark else None) for name, mark, value in lines]
    else:
        pairs = [(name, value) for name, value in table({"environment": given}, "environment").items()]
    env: dict[str, str] = {}
    unset: list[str] = []
    for name, value in pairs:
        if not _VARIABLE.match(name):
            raise ConfigError(f"its `{_NAME}` sets the variable `{name[:60]}`, which is no name of one")
        said = str(value).lower() if isinstance(value, bool) else str(value)
        if value is None or "${" in said or "\n" in said:
            unset += [] if name.startswith(_ITS_OWN) else [name]
        else:
            env[name] = said
    return env, unset
