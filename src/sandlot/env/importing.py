"""Tasks of other formats: found by entry point, written as a folder environment, whole or not at all.

`sandlot import KIND SOURCE` writes the folder that is named. Wherever an environment is named, `KIND:SOURCE` is imported into the
cache and loaded from there; the cache's key is the content of the source and the importer's own version, so it is used again
until one of them changes.

    imports/KIND-HASH    in the cache folder: one imported source
"""

import difflib
import fcntl
import hashlib
import inspect
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import msgspec

from sandlot.core.disk import replace_folder, write_file
from sandlot.core.errors import ConfigError, boundary
from sandlot.core.ports.importer import Importer, ImportReport
from sandlot.env.folder import MANIFEST
from sandlot.sandbox.program import cache_folder

REPORT = "import.json"
_GROUP = "sandlot.importers"


def import_environment(kind: str, source: str, folder: str | Path, *, limit: int | None = None) -> ImportReport:
    """Write tasks of another format as a folder environment, with a report in its `import.json`.

    - `kind`: the format, such as `harbor`. Packages add kinds by the entry point group `sandlot.importers`.
    - `source`: the tasks: a path, a file, a name; each kind says what it reads.
    - `folder`: where to write. It must not exist, or be empty; it is written whole or not at all.
    - `limit`: maximum number of tasks.

    `ConfigError` if the source cannot be read or holds no task that can be taken.

    ```python
    import sandlot

    try:
        report = sandlot.import_environment("harbor", "tasks", "environments/tasks", limit=10)
        print(len(report.tasks), report.left_out)
    except sandlot.SandlotError as error:
        print(error)  # there is no folder `tasks` here
    ```
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"a limit of {limit} tasks; give 1 or more, or none for all")
    importer = _find(kind)[1]
    with _draft_of(Path(folder)) as draft:
        return _write(importer, source, draft, limit)


def imported_folder(what: str) -> Path | None:
    """The folder of `KIND:SOURCE`, imported into the cache unless it is there; None if `what` names no kind of source."""
    kind, mark, source = what.partition(":")
    if not mark or kind not in importers():
        return None
    entry, importer = _find(kind)
    with boundary(ConfigError, f"source `{what}`"):
        content = importer.digest(source)
    stamp = hashlib.sha256("\0".join((kind, source, content, _version_of(entry, importer))).encode()).hexdigest()
    place = cache_folder() / "imports" / f"{kind}-{stamp[:32]}"
    if not (place / MANIFEST).is_file():
        place.parent.mkdir(parents=True, exist_ok=True)
        with _locked(place.parent / f".{place.name}.lock"):
            if not (place / MANIFEST).is_file():  # another process may have made it meanwhile
                with _draft_of(place) as draft:
                    _write(importer, source, draft, None)
    return place


def importers() -> dict[str, EntryPoint]:
    """The installed importers by kind."""
    return {entry.name: entry for entry in entry_points(group=_GROUP)}


def unknown_kind(kind: str, installed: Iterable[str]) -> ConfigError:
    """The error for a kind that is not installed."""
    near = difflib.get_close_matches(kind, list(installed), n=1)
    meant = f" (did you mean `{near[0]}`?)" if near else ""
    return ConfigError(f"no importer `{kind}`{meant}; there are: {', '.join(sorted(installed)) or 'none'}")


def meant_source(what: str) -> str | None:
    """`KIND:SOURCE` with the kind that was probably meant; None if `what` does not look like a source."""
    kind, mark, source = what.partition(":")
    near = difflib.get_close_matches(kind, list(importers()), n=1) if mark else []
    return f"{near[0]}:{source}" if near else None


def _find(kind: str) -> tuple[EntryPoint, Importer]:
    installed = importers()
    if kind not in installed:
        raise unknown_kind(kind, installed)
    entry = installed[kind]
    with boundary(ConfigError, f"importer `{kind}` = {entry.value}"):
        value: Any = entry.load()
        importer = value() if isinstance(value, type) else value
    missing = [name for name in ("kind", "digest", "write") if not hasattr(importer, name)]
    if missing:
        raise ConfigError(f"importer `{kind}` = {entry.value} has no `{missing[0]}`; an importer has kind, digest, write")
    return entry, importer


def _version_of(entry: EntryPoint, importer: Importer) -> str:
    """Changes with the importer: the version of its package, and the files beside its own while those are being written."""
    folder = Path(inspect.getfile(type(importer))).parent
    files = sorted(path for path in folder.rglob("*") if path.suffix in {".py", ".txt"})
    contents = hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)).hexdigest()
    return f"{entry.dist.version if entry.dist else ''}:{contents}"


def _write(importer: Importer, source: str, folder: Path, limit: int | None) -> ImportReport:
    with boundary(ConfigError, f"import of `{importer.kind}:{source}`"):
        report = importer.write(source, folder, limit=limit)
    if not report.tasks:
        why = "; ".join(f"{each.what}: {each.why}" for each in report.left_out[:3])
        raise ConfigError(f"`{importer.kind}:{source}` has no task that can be imported" + (f": {why}" if why else ""))
    if not (folder / MANIFEST).is_file():
        raise ConfigError(f"importer `{importer.kind}` wrote no `{MANIFEST}`; it must write a folder environment")
    write_file(folder / REPORT, msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    return report


@contextmanager
def _draft_of(place: Path) -> Generator[Path]:
    """An empty folder that becomes `place` when the block ends without an error. `ConfigError` if something is there."""
    try:
        with replace_folder(place, known=()) as draft:
            yield draft
    except ValueError as error:
        raise ConfigError(f"{error} (`--out FOLDER`)") from error


@contextmanager
def _locked(file: Path) -> Generator[None]:
    """Only one process at a time. The file stays: if it were removed, two processes could lock two files."""
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
