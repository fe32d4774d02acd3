"""Environments for other frameworks: exporters are found by entry point, as importers are.

`sandlot export KIND ENV` writes an environment in another format. What the other side cannot express is refused or left out, with
the reason.
"""

import difflib
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Protocol

import msgspec

from sandlot.core.disk import replace_folder
from sandlot.core.errors import ConfigError, boundary
from sandlot.core.ports.importer import LeftOut
from sandlot.env.environment import Environment
from sandlot.env.load import load

_GROUP = "sandlot.exporters"
_ELSEWHERE = {
    "mcp": "an environment is served over MCP by `sandlot serve ENV`",
    "swebench": "`sandlot export predictions RUN` writes the patches of a run in SWE-bench's format",
    "bundle": "`sandlot pack ENV` writes an environment as one file",
}
"""Where to look for what is not an export."""


class EnvironmentExport(msgspec.Struct, frozen=True, kw_only=True):
    """What was written, and what was not."""

    kind: str
    folder: str
    tasks: tuple[str, ...]
    """Ids of the tasks that were written."""
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()


class Exporter(Protocol):
    """Writes an environment in another format. Registered in the entry point group `sandlot.exporters`."""

    @property
    def kind(self) -> str:
        """The name of the entry point."""
        ...

    def write(self, env: Environment, folder: Path, *, limit: int | None) -> EnvironmentExport:
        """Write it into `folder`, which exists and is empty. `ConfigError` if the format cannot express the environment."""
        ...


def exporters() -> dict[str, EntryPoint]:
    """The installed exporters of environments by kind."""
    return {entry.name: entry for entry in entry_points(group=_GROUP)}


def export_environment(
    kind: str, env: str | Path | Environment, folder: str | Path, *, limit: int | None = None, image: str | None = None
) -> EnvironmentExport:
    """Write an environment for another framework into a folder that does not exist or is empty.

    `image` is used instead of the environment's own, which the other side may not have. `ConfigError` says what cannot be
    written.
    """
    installed = exporters()
    if kind not in installed:
        if kind in _ELSEWHERE:
            raise ConfigError(f"no exporter `{kind}`: {_ELSEWHERE[kind]}")
        near = difflib.get_close_matches(kind, installed, n=1)
        meant = f" (did you mean `{near[0]}`?)" if near else ""
        raise ConfigError(f"no exporter `{kind}`{meant}; there are: {', '.join(sorted(installed)) or 'none'}")
    environment = load(env).in_image(image)
    with boundary(ConfigError, f"exporter `{kind}` = {installed[kind].value}"):
        value: Any = installed[kind].load()
        exporter: Exporter = value() if isinstance(value, type) else value
    try:
        with replace_folder(Path(folder), known=()) as draft, boundary(ConfigError, f"export of `{environment.name}` as {kind}"):
            written = exporter.write(environment, draft, limit=limit)
            if not written.tasks:
                why = "; ".join(f"{each.what}: {each.why}" for each in written.left_out[:3])
                raise ConfigError(f"no task of `{environment.name}` can be exported as {kind}: {why}")
    except ValueError as error:
        raise ConfigError(f"{error} (`--out FOLDER`)") from error
    return msgspec.structs.replace(written, folder=str(folder))
