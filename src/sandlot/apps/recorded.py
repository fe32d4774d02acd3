"""The tools of a public MCP server, recorded: its answer to `tools/list`, with its name, version and licence.

An app that stands for a product declares its tools with such a record, so that agents see the same names, descriptions and
schemas as with the real server. The recordings are in `schemas/`; `sandlot audit --manifest` reads the same files.
"""

from pathlib import Path

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.types import Json

SCHEMAS = Path(__file__).parent / "schemas"


class RecordedTool(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One tool as the server listed it."""

    name: str
    description: str = ""
    input_schema: Json


class RecordedServer(msgspec.Struct, frozen=True, kw_only=True):
    """A public MCP server, as recorded."""

    server: str
    """The package it was installed from."""
    version: str
    license: str
    tools: tuple[RecordedTool, ...]

    @classmethod
    def read(cls, path: str | Path) -> "RecordedServer":
        """Read a recording; `ConfigError` if it is not one. A plain name is one of Sandlot's own, such as `gmail`."""
        file = SCHEMAS / f"{path}.json" if isinstance(path, str) and "/" not in path and "." not in path else Path(path)
        try:
            return msgspec.json.decode(file.read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError) as error:
            known = ", ".join(sorted(each.stem for each in SCHEMAS.glob("*.json")))
            raise ConfigError(f"`{path}` is not a recorded MCP server: {error}; give a path, or one of: {known}") from error

    def tool(self, name: str) -> RecordedTool:
        """One tool by name; `ConfigError` if the server has none of that name."""
        for each in self.tools:
            if each.name == name:
                return each
        raise ConfigError(f"`{self.server}` has no tool `{name}`; it has: {', '.join(each.name for each in self.tools)}")
