"""The interface of importers: they write tasks of another format as a folder environment."""

from pathlib import Path
from typing import Protocol

import msgspec


class ImportedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that was taken, and where it comes from."""

    id: str
    """Its id in the environment."""
    origin: str
    """Where it is in the source: a path, a row, a name."""
    licence: str = "unknown"
    """The licence that the source states for it, as an SPDX name where there is one."""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A task, or a part of one, that was not taken."""

    what: str
    """The task or the part, as the source names it."""
    why: str
    """The reason, and what would be needed."""


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an import took and what it left out. It is written as `import.json` into the environment's folder."""

    format: int = 1
    kind: str
    """The kind of source: the importer's name."""
    source: str
    """What was imported, as it was named."""
    package: str = ""
    """The package that the tasks come from, if they come from one."""
    version: str = ""
    """The version of that package, or of the source's format."""
    tasks: tuple[ImportedTask, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    """What is different from the source, such as a network that is not there."""


class Importer(Protocol):
    """Writes a source of one kind as a folder environment. Registered in the entry point group `sandlot.importers`.

    The name of the entry point is the kind: `sandlot import KIND SOURCE`, and `KIND:SOURCE` wherever an environment is named. The
    source is untrusted: `sandlot.interop.untrusted` reads archives, folders and rows with limits, and nothing may be unpickled.
    """

    @property
    def kind(self) -> str:
        """The name of the entry point."""
        ...

    def digest(self, source: str) -> str:
        """Changes whenever the source has changed: a hash of its files, or the version of a package.

        `ConfigError` if there is no such source.
        """
        ...

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment into `folder`, which exists and is empty, with at most `limit` tasks.

        `import.json` is written by the caller. A task that cannot be taken is in the report with the reason; `ConfigError` if the
        source cannot be read, or no task can be taken.
        """
        ...
