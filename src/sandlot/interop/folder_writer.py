"""Writes folder environments, for importers: the files of `env/folder.py`, as a person would have written them."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.rubric import Rubric
from sandlot.core.task import Task
from sandlot.env.folder import MANIFEST

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentDraft:
    """A folder environment before it is written."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further keys of `environment.toml`: `description`, `image`, `tools`, `limits`, ... Keys that are None are left out."""
    tasks: Sequence[Task]
    rubrics: Mapping[str, Rubric]
    """By name; `default` grades tasks that name no other."""
    code: Mapping[str, str] = field(default_factory=dict[str, str])
    """Text files by name, such as `world.py`, `checks.py`, `solution.py`, `tools.py`, `README.md`."""


def write_environment(folder: Path, draft: EnvironmentDraft) -> None:
    """Write the files of an environment into a folder that exists. Larger files of tasks belong below `data/`."""
    ids = [task.id for task in draft.tasks]
    if len(ids) != len(set(ids)):
        raise ConfigError(f"two tasks have the id `{next(each for each in ids if ids.count(each) > 1)}`")
    settings = {"name": draft.name} | {key: value for key, value in draft.settings.items() if value is not None}
    (folder / MANIFEST).write_text(to_toml(settings))
    (folder / "tasks").mkdir()
    with (folder / "tasks" / "all.jsonl").open("wb") as file:
        for task in draft.tasks:
            file.write(msgspec.json.encode({"id": task.id, "prompt": task.prompt} | _changed(task)) + b"\n")
    (folder / "rubrics").mkdir()
    for name, rubric in draft.rubrics.items():
        written = {"format": rubric.format} | _changed(rubric)
        written["checks"] = [{"kind": check.__struct_config__.tag} | _changed(check) for check in rubric.checks]
        (folder / "rubrics" / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(written), indent=2) + b"\n")
    for name, text in draft.code.items():
        (folder / name).write_text(text)


def _changed(record: msgspec.Struct) -> dict[str, Any]:
    """The fields that differ from their defaults."""
    fields = msgspec.structs.fields(record)
    return {each.name: value for each in fields if (value := getattr(record, each.name)) != _default_of(each)}


def _default_of(field: msgspec.structs.FieldInfo) -> Any:
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default


def task_id(text: str) -> str:
    """A valid task id that looks like the text: other characters become `-`."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:128] or "task"


def environment_name(text: str) -> str:
    """A valid name of an environment that looks like the text."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:64] or "imported"


def to_toml(settings: Mapping[str, Any], table: str = "") -> str:
    """Plain data as TOML: values first, then tables, then lists of tables."""
    plain = {key: value for key, value in settings.items() if not _is_table(value)}
    lines = [f"{_key(key)} = {_value(value)}\n" for key, value in plain.items()]
    for key, value in settings.items():
        if not _is_table(value):
            continue
        name = f"{table}.{_key(key)}" if table else _key(key)
        if isinstance(value, Mapping):
            lines.append(f"\n[{name}]\n{to_toml(value, name)}")  # pyright: ignore[reportUnknownArgumentType] - plain data
        else:
            lines += [f"\n[[{name}]]\n{to_toml(each, name)}" for each in value]
    return "".join(lines)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list | tuple) and _all_tables(cast("Sequence[Any]", value)))


def _all_tables(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(each, Mapping) for each in values)


def _key(key: str) -> str:
    return key if _BARE_KEY.match(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(each) for each in value) + "]"  # pyright: ignore[reportUnknownVariableType] - plain data
    raise ConfigError(f"a value of type {type(value).__name__} cannot be written as TOML: {value!r}")


def _text(text: str) -> str:
    """JSON's escapes are TOML's, except for one character that JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
