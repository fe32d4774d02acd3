"""An environment's tasks: generated from its seed or read from files, and looked up by id."""

from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, cast

import msgspec

from sandlot.core.concurrency.author import frames_of, location_of
from sandlot.core.errors import AuthorError, ConfigError, boundary
from sandlot.core.task import Task, split_of
from sandlot.core.types import Split, derive_seed
from sandlot.env.declaration import Declaration

MAX_TASKS = 1_000_000
"""A generator that yields more is taken to be endless."""
_MOST_ROW_BYTES = 64 * 2**20
_MOST_PARQUET_BYTES = 2**30
"""Of the rows in one file, as JSON."""
_BATCH_ROWS = 64


def tasks_of(env: Declaration, split: Split | None = None) -> list[Task]:
    """The tasks of an environment: the same ones, in the same order, for the same seed.

    - `env`: the environment.
    - `split`: `Split.TRAIN` or `Split.HELDOUT`. Default: all tasks.

    ```python
    from sandlot import Split, load, tasks_of

    env = load("arithmetic")
    print(len(tasks_of(env)), tasks_of(env, Split.HELDOUT)[0].prompt)
    ```
    """
    generate = env.marked.tasks
    if generate is None:
        raise ConfigError(
            f"environment `{env.name}` has no tasks; mark a generator with `@env.tasks`, or write rows into `tasks/*.jsonl`"
        )
    place = location_of(generate) if hasattr(generate, "__code__") else str(env.source)
    try:
        with boundary(AuthorError, f"{place}: tasks of `{env.name}`"):
            generated = iter(generate(Random(derive_seed("tasks", env.seed, env.name))))  # noqa: S311 - seeded, not secret
            tasks: list[Any] = list(islice(generated, MAX_TASKS + 1))
    except AuthorError as error:
        frames = frames_of(error)
        raise AuthorError(str(error).replace(place, frames[-1].partition(" in ")[0], 1) if frames else str(error)) from error
    except ConfigError as error:
        raise ConfigError(str(error) if str(env.source) in str(error) else f"{place}: {error}") from error
    if len(tasks) > MAX_TASKS:
        raise ConfigError(f"{place}: yields more than {MAX_TASKS:,} tasks; end the generator")
    seen: set[str] = set()
    for task in tasks:
        if not isinstance(task, Task):
            raise ConfigError(f"{place}: yielded {type(task).__name__} {task!r}; yield `Task(...)`")
        if task.id in seen:
            raise ConfigError(f"{place}: two tasks have the id `{task.id}`; make ids unique")
        seen.add(task.id)
    if not tasks:
        raise ConfigError(f"{place}: environment `{env.name}` yields no tasks; yield at least one")
    return [task for task in tasks if split is None or split_of(task) == split]


def task_named(env: Declaration, name: str) -> Task:
    """The task with this id; `ConfigError` lists some ids if there is none."""
    tasks = tasks_of(env)
    for task in tasks:
        if task.id == name:
            return task
    shown = ", ".join(f"`{task.id}`" for task in tasks[:8]) + (", ..." if len(tasks) > 8 else "")
    raise ConfigError(f"environment `{env.name}` has no task `{name}`; it has {len(tasks)}: {shown}")


def tasks_from(*paths: str | Path) -> Iterator[Task]:
    """Read tasks from JSON Lines or Parquet files, one task per row. The columns are the fields of `Task`.

    - `paths`: files that end in `.jsonl` or `.parquet`.

    `ConfigError` names file and line of a row that is not a task, such as one with an unknown field.

    ```python
    from pathlib import Path

    from sandlot import tasks_from

    Path("tasks.jsonl").write_text('{"id": "one", "prompt": "What is 2+2?", "key": {"sum": 4}}')
    (task,) = tasks_from("tasks.jsonl")
    assert task.key["sum"] == 4
    ```
    """
    for path in map(Path, paths):
        if not path.is_file():
            raise ConfigError(f"no tasks file `{path}`")
        if path.suffix == ".parquet":
            yield from (_task(row, f"{path}, row {number}") for number, row in enumerate(_parquet_rows(path), 1))
        elif path.suffix == ".jsonl":
            yield from _jsonl_tasks(path)
        else:
            raise ConfigError(f"tasks file `{path}`: unknown format; use a `.jsonl` or `.parquet` file")


def _jsonl_tasks(path: Path) -> Iterator[Task]:
    with path.open("rb") as lines:
        for number, line in enumerate(iter(lambda: lines.readline(_MOST_ROW_BYTES + 1), b""), 1):
            if len(line) > _MOST_ROW_BYTES:
                raise ConfigError(f"{path}:{number}: more than {_MOST_ROW_BYTES:,} bytes; keep large data in files of their own")
            if not line.strip():
                continue
            try:
                row: Any = msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise ConfigError(f"{path}:{number}: {error}; write one JSON object per line") from error
            yield _task(row, f"{path}:{number}")


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows, a few at a time: a small file may hold far more than its size, as one value that is repeated."""
    parquet: Any = import_module("pyarrow.parquet")  # half a second to import
    unreadable: Any = import_module("pyarrow.lib").ArrowException

    size = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                for row in cast("list[dict[str, Any]]", batch.to_pylist()):
                    size += len(msgspec.json.encode(row))
                    if size > _MOST_PARQUET_BYTES:
                        raise ConfigError(f"tasks file `{path}` holds more than {_MOST_PARQUET_BYTES:,} bytes; split it")
                    # Every row has every column: a null means that the row does not have the field.
                    yield {name: value for name, value in row.items() if value is not None}
    except (unreadable, ValueError, TypeError, OSError, OverflowError, RecursionError) as error:
        raise ConfigError(f"tasks file `{path}` is not readable Parquet: {error}") from error


class _Row(Task, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of a file: a task, whose prompt must be given."""

    id: str
    prompt: str  # pyright: ignore[reportGeneralTypeIssues] - without a default here


def _task(row: Any, place: str) -> Task:
    try:
        return Task(**msgspec.structs.asdict(msgspec.convert(row, _Row)))
    except (msgspec.ValidationError, ConfigError) as error:
        raise ConfigError(f"{place}: {error}; fields of a task: {', '.join(Task.__struct_fields__)}") from error
