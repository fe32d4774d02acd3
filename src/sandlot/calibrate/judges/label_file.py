"""A file of labels: JSON Lines, each line one labelled item."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from sandlot.core.errors import ConfigError

Line = TypeVar("Line", bound=msgspec.Struct)
Made = TypeVar("Made")


def read_labelled(path: Path, kind: type[Line], make: Callable[[Line], Made], *, with_what: str) -> list[Made]:
    """Apply `make` to every line. `ConfigError` names a line that is invalid, or a file without lines."""
    found: list[Made] = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read labels from `{path}`: {error.strerror or error}") from error
    for number, text in enumerate(lines, 1):
        if text.strip():
            try:
                found.append(make(msgspec.json.decode(text, type=kind)))
            except (msgspec.MsgspecError, UnicodeDecodeError, ConfigError) as error:
                raise ConfigError(f"{path}:{number}: {error}; a line has {', '.join(kind.__struct_fields__)}") from error
    if not found:
        raise ConfigError(f"`{path}` has no lines; each is one JSON object with {with_what}")
    return found
