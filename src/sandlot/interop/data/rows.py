# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Rows of `.jsonl`, `.csv` and `.parquet` files with their provenance: file, number of the row, and a hash of it as it was read.

A row that was imported before keeps the provenance it has, so that it leads to the first source through any number of steps.
"""

import csv
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec

from sandlot.core.disk import write_file
from sandlot.core.errors import ConfigError
from sandlot.core.types import Json
from sandlot.interop.untrusted import read_rows, refuse_pickle

PROVENANCE = "provenance"
"""The field that says where a row comes from."""
FORMATS = (".jsonl", ".csv", ".parquet")
_MAX_ROWS = 1_000_000
_MAX_CELL_CHARS = 16 * 2**20
_MAX_FILES = 10_000
_PARQUET_BATCH = 1_000


class RowProvenance(msgspec.Struct, frozen=True):
    """Where a row comes from."""

    file: str
    line: int
    """The row of the file, from 1; headers and blank lines do not count."""
    sha256: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    """A hash of the row as it was read, with sorted keys; of a redacted row, as it was written."""

    @property
    def place(self) -> str:
        """`FILE:LINE`."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class DataRow:
    """One row without its provenance, and its provenance."""

    value: Json
    origin: RowProvenance


def read_data(sources: Iterable[str | Path]) -> Iterator[DataRow]:
    """The rows of files, and of all such files below folders, in the order of their names. `ConfigError` names file and line."""
    for number, row in enumerate(chain.from_iterable(map(_read_file, _files(sources))), 1):
        if number > _MAX_ROWS:
            raise ConfigError(f"more than {_MAX_ROWS:,} rows; split the data")
        yield row


def _files(sources: Iterable[str | Path]) -> list[Path]:
    found: list[Path] = []
    for source in map(Path, sources):
        if source.is_dir():
            inside = (path for path in source.rglob("*") if path.suffix.lower() in FORMATS and not path.is_symlink())
            found += sorted(path for path in inside if path.is_file())
        elif source.is_symlink() or not source.is_file():
            raise ConfigError(f"there is no file or folder `{source}`")
        else:
            found.append(source)
    if not found:
        raise ConfigError(f"there is no {', '.join(FORMATS)} file in {', '.join(map(str, sources))}")
    if len(found) > _MAX_FILES:
        raise ConfigError(f"{len(found):,} files; at most {_MAX_FILES:,} are read at once")
    return found


def _read_file(path: Path) -> Iterator[DataRow]:
    refuse_pickle(path)
    match path.suffix.lower():
        case ".jsonl":
            rows = read_rows(path)
        case ".csv":
            rows = _csv_rows(path)
        case ".parquet":
            rows = _parquet_rows(path)
        case _:
            raise ConfigError(f"`{path}`: unknown format; give a {', '.join(FORMATS)} file")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise ConfigError(f"`{path}`, row {number} is {type(row).__name__}; every row must be an object with fields")
        yield _with_origin(path, number, cast("Json", row))


def _with_origin(path: Path, number: int, row: Json) -> DataRow:
    said = row.get(PROVENANCE)
    value = {name: each for name, each in row.items() if name != PROVENANCE}
    if said is not None:
        try:
            return DataRow(value, msgspec.convert(said, RowProvenance))
        except msgspec.ValidationError as error:
            raise ConfigError(f"`{path}`, row {number}: `{PROVENANCE}` is not ours: {error}; rename that field") from error
    return DataRow(value, RowProvenance(path.as_posix(), number, row_hash(value)))


def row_hash(value: Json) -> str:
    """A hash of a row; the order of its fields does not count."""
    try:
        return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
    except (TypeError, ValueError, UnicodeEncodeError) as error:
        raise ConfigError(f"a row cannot be written as JSON: {error}") from error


def _csv_rows(path: Path) -> Iterator[Any]:
    csv.field_size_limit(_MAX_CELL_CHARS)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for row in csv.DictReader(file, strict=True):
                if None in row or None in row.values():
                    raise ConfigError(f"`{path}`: a row has more or fewer cells than the header: {str(row)[:120]}")
                yield row
    except (csv.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"`{path}` is not CSV: {error}") from error


def _parquet_rows(path: Path) -> Iterator[Any]:
    from pyarrow import parquet  # noqa: PLC0415 - half a second to import

    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_PARQUET_BATCH):
                for row in cast("list[Json]", batch.to_pylist()):
                    yield {name: each for name, each in row.items() if each is not None}
    except (ValueError, OSError) as error:  # pyarrow's own errors are both of these
        raise ConfigError(f"`{path}` is not readable Parquet: {error}") from error


def write_data(path: Path, rows: Iterable[DataRow]) -> int:
    """Write rows with their provenance as `.jsonl` or `.parquet`, whole or not at all, and return their number."""
    if path.suffix.lower() not in {".jsonl", ".parquet"}:
        raise ConfigError(f"`{path}`: rows are written as .jsonl or .parquet")
    if path.exists():
        raise ConfigError(f"`{path}` already exists; choose another name")
    values = [{**row.value, PROVENANCE: msgspec.to_builtins(row.origin)} for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".jsonl":
        write_file(path, b"".join(msgspec.json.encode(value) + b"\n" for value in values))
        return len(values)
    import pyarrow as pa  # noqa: PLC0415 - JSONL does not need it
    from pyarrow import parquet  # noqa: PLC0415 - as above

    draft = path.with_name(f".{path.name}.draft")
    try:
        parquet.write_table(pa.Table.from_pylist(values), draft)
        draft.replace(path)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise ConfigError(f"these rows do not fit one Parquet table: {error}; write .jsonl") from error
    finally:
        draft.unlink(missing_ok=True)
    return len(values)


def texts_of(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every text in a value with its place, such as `messages.0.content`."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for name, each in cast("Json", value).items():
            yield from texts_of(each, f"{place}.{name}" if place else name)
    elif isinstance(value, list):
        for number, each in enumerate(cast("list[Any]", value)):
            yield from texts_of(each, f"{place}.{number}")
