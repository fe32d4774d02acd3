"""Reads YAML that others wrote."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from sandlot.core.errors import ConfigError
from sandlot.interop.untrusted import read_text

MAX_TEXT = 1 << 20


def read_mapping(path: Path) -> dict[str, Any]:
    """A YAML file with one mapping."""
    value = read_yaml(path)
    if not isinstance(value, dict):
        raise ConfigError(f"`{path.name}` is not a mapping")
    return cast("dict[str, Any]", value)


def read_yaml(path: Path) -> Any:
    """A YAML file. Aliases are refused: a small file could stand for terabytes."""
    try:
        import yaml  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise ConfigError("Terminal-Bench tasks need PyYAML: `pip install 'sandlot[yaml]'`") from error
    text = read_text(path, at_most=MAX_TEXT)
    try:
        events = cast("Iterator[Any]", yaml.parse(text, Loader=yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType]
        if any(isinstance(event, yaml.AliasEvent) for event in events):
            raise ConfigError(f"`{path.name}` has aliases, which are not read")
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(f"`{path.name}`: {error}") from error


def table(config: dict[str, Any], name: str) -> dict[str, Any]:
    """A mapping in a mapping; empty if there is none. `ConfigError` for anything else."""
    value: Any = config.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"`[{name}]` is not a table")
    return cast("dict[str, Any]", value)
