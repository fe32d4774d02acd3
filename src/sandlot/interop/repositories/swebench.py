"""`sandlot import swebench FILE?repos=FOLDER`: rows of SWE-bench, SWE-Gym and SWE-smith, with repositories from a folder."""

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from sandlot.core.errors import ConfigError, SandlotError, boundary
from sandlot.core.ports.importer import ImportedTask, ImportReport, LeftOut
from sandlot.core.ports.sandbox import Backend
from sandlot.core.task import Task
from sandlot.interop.folder_writer import task_id
from sandlot.interop.repositories.folder import write_repair_environment, write_repository
from sandlot.interop.repositories.git_tree import commit_files, find_repository
from sandlot.interop.repositories.package import indented, run_async
from sandlot.interop.repositories.patches import patch_between, patched
from sandlot.interop.repositories.site_folder import PYTEST, install, require_apart, write_metadata
from sandlot.interop.repositories.sources import SourceTree, named, read_tree
from sandlot.interop.repositories.suite import RepositoryLayout, open_suite, python_version
from sandlot.interop.repositories.verified import (
    LibraryFolder,
    RepairTests,
    confirm_tests,
    install_missing,
    install_optional,
    whole_names,
)
from sandlot.interop.untrusted import read_rows, refuse_pickle, source_digest
from sandlot.wiring.parts import open_backend

PROMPT = """\
In /work/repo there is the source of `{repo}`. Somebody opened this issue:

{issue}

Solve it by changing the package. Hidden tests decide. Only changes below {places} are taken over."""
_MAX_TEXT = 1_000_000
_MAX_ROWS = 50_000
_MAX_TOLD = 20
"""Tests of one row of which the report says what they do."""


class SweBenchRow(msgspec.Struct, frozen=True):
    """One row. SWE-smith has no `test_patch`, and its `patch` makes the bug."""

    instance_id: str
    repo: str
    base_commit: str = ""
    patch: str = ""
    test_patch: str = ""
    problem_statement: str = ""
    FAIL_TO_PASS: Any = ()
    PASS_TO_PASS: Any = ()
    image_name: str = ""
    version: str = ""

    @property
    def makes_the_bug(self) -> bool:
        """True for a row of SWE-smith, whose patch is to be undone."""
        return self.repo.startswith("swesmith/") or "swesmith" in self.image_name


class SweBenchImporter:
    """Rows as JSON Lines or Parquet; repositories as git directories in `repos=FOLDER`, else in `repos/` beside the file."""

    kind = "swebench"

    def __init__(self, libraries: Path | None = None) -> None:
        """`libraries`: a folder with pytest and what it needs, copied where there is no package index to install it from."""
        self._libraries = libraries

    def digest(self, source: str) -> str:
        """The rows; commits do not change."""
        return source_digest(_parts(source)[0])

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment; see `Importer`."""
        return run_async(_import_rows, source, folder, limit, self._libraries)


def _parts(source: str) -> tuple[Path, Path]:
    file, mark, query = source.partition("?")
    if mark and not query.startswith("repos="):
        raise ConfigError(f"source {source!r}: write `FILE?repos=FOLDER`")
    path = Path(file)
    return path, Path(query.removeprefix("repos=")) if mark else path.parent / "repos"


async def _import_rows(source: str, folder: Path, limit: int | None, libraries: Path | None) -> ImportReport:
    file, repositories = _parts(source)
    if not file.is_file():
        raise ConfigError(f"there is no file `{file}`; name a file of rows, `.jsonl` or `.parquet`")
    if not repositories.is_dir():
        raise ConfigError(f"no folder `{repositories}` with git directories; write `{file}?repos=FOLDER`")
    python = await python_version()
    tasks: list[Task] = []
    taken: list[ImportedTask] = []
    left_out: list[LeftOut] = []
    async with open_backend() as backend:
        for raw in _rows(file):
            if limit is not None and len(tasks) >= limit:
                break
            name = named(raw, "instance_id")
            try:
                with boundary(ConfigError, name):
                    row = checked_row(raw)
                    if task_id(row.instance_id) in {task.id for task in tasks}:
                        raise ConfigError("an earlier row has this name; give every row an `instance_id` of its own")
                    task, licence, tests = await _import_row(backend, row, repositories, folder, python, libraries)
            except SandlotError as error:
                left_out.append(LeftOut(what=name, why=str(error)))
                if task_id(name) not in {task.id for task in tasks}:
                    shutil.rmtree(folder / "site" / task_id(name), ignore_errors=True)  # its libraries, if they are there already
                continue
            tasks.append(task)
            taken.append(ImportedTask(id=task.id, origin=f"{row.repo}@{row.base_commit[:12]}", licence=licence))
            if tests.not_confirmed:
                first = [f"{test} ({why})" for test, why in tests.not_confirmed.items()][:_MAX_TOLD]
                why = f"do something else here than the row says: {', '.join(first)}"
                left_out.append(LeftOut(what=f"{len(tests.not_confirmed)} tests of {name}", why=why))
    if tasks:
        write_repair_environment(folder, "swebench", f"Issues of repositories, from {file.name}.", tasks)
    return ImportReport(
        kind=SweBenchImporter.kind,
        source=source,
        tasks=tuple(taken),
        left_out=tuple(left_out),
        notes=("tests run with pytest on this machine's Python, not in the images that the rows name",),
    )


def _rows(file: Path) -> Iterator[Any]:
    refuse_pickle(file)
    if file.suffix == ".parquet":
        try:
            table: Any = pq.ParquetFile(file)
            if table.metadata.num_rows > _MAX_ROWS:
                raise ConfigError(f"`{file}` has {table.metadata.num_rows:,} rows; at most {_MAX_ROWS:,} are read")
            for batch in table.iter_batches(batch_size=64):
                yield from batch.to_pylist()
        except (OSError, ValueError) as error:
            raise ConfigError(f"`{file}`: {error}") from error
    else:
        yield from read_rows(file, at_most=_MAX_ROWS)


def checked_row(raw: Any) -> SweBenchRow:
    """A row with lists of tests, whatever shape they had. `ConfigError` if it cannot be one."""
    try:
        row = msgspec.convert(raw, SweBenchRow)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error)) from error
    lists = {name: _tests(getattr(row, name)) for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    if not re.fullmatch(r"[\w.+-]{0,40}", row.version) or row.version.startswith("."):
        raise ConfigError(f"version {row.version[:80]!r}: write one such as `1.2`")
    if max(len(row.patch), len(row.test_patch), len(row.problem_statement)) > _MAX_TEXT:
        raise ConfigError(f"a text of more than {_MAX_TEXT:,} characters")
    if not row.problem_statement.strip():
        raise ConfigError("no problem_statement: the agent would not know what to solve")
    if not lists["FAIL_TO_PASS"]:
        raise ConfigError("no FAIL_TO_PASS")
    other = [test for tests in lists.values() for test in tests if not re.match(r"[^\s:]+\.py::\S", test)]
    if other:
        raise ConfigError(f"{len(other)} tests are not named as pytest names them, such as {other[0][:80]!r}")
    return msgspec.structs.replace(row, **lists)


def _tests(value: Any) -> list[str]:
    try:
        found = msgspec.json.decode(value) if isinstance(value, str) else list(value or ())
        return msgspec.convert(found, list[str])
    except (msgspec.DecodeError, msgspec.ValidationError, TypeError) as error:
        raise ConfigError(f"a list of tests is neither a list nor one as JSON: {str(value)[:80]!r}") from error


async def _import_row(
    backend: Backend, row: SweBenchRow, repositories: Path, folder: Path, python: str, given: Path | None
) -> tuple[Task, str, RepairTests]:
    """Write one row's repository and libraries, run its tests, and make its task."""
    repo = _repository_name(row)
    base = commit_files(find_repository(repositories, repo), _commit(row))
    broken = patched(base, row.patch) if row.makes_the_bug else base
    golden = base if row.makes_the_bug else patched(base, row.patch)
    hidden = patched(broken, row.test_patch)
    name = task_id(row.instance_id)
    with tempfile.TemporaryDirectory(prefix="sandlot-row-") as temporary:
        tree = _tree(Path(temporary), hidden, f"{repo.rpartition('/')[2].removesuffix('.py')}-{row.version or 0}")
        require_apart(tree.name)
        changed = {path for path in base.keys() | golden.keys() | broken.keys() if broken.get(path) != golden.get(path)}
        outside = sorted(path for path in changed if not tree.is_source(path) and path.endswith(".py") and not tree.is_test(path))
        if not any(tree.is_source(path) for path in changed) or outside:
            raise ConfigError(f"its patch changes files outside of the package ({', '.join(outside[:2]) or 'no source file'})")
        site = folder / "site" / name
        if given is not None:
            shutil.copytree(given, site, dirs_exist_ok=True)
            site.chmod(0o755)  # tests are run by another user, who passes only the folders above it
        install(tree.requires if given is not None else (*PYTEST, *tree.requires), site, python, without=tree.name)
        write_metadata(tree, site)
        kept = set(tree.files())
        layout = RepositoryLayout(paths=tree.paths, modules=tree.modules, tests=tree.tests, options=tree.options, site=name)
    change = {path: golden[path].decode() if path in golden else None for path in changed if tree.is_source(path)}
    texts = {path: hidden[path].decode(errors="replace") for path in kept if path.endswith(".py") and tree.is_test(path)}
    files = {path: content for path, content in hidden.items() if path in kept}
    places = {test.partition("::")[0] for test in (*row.FAIL_TO_PASS, *row.PASS_TO_PASS)}
    libraries, repaired = LibraryFolder(site, python, tree), files | _written(change)
    found = await install_missing(libraries, backend, repaired, layout, sorted(places))
    failing, passing = whole_names(row.FAIL_TO_PASS, found), whole_names(row.PASS_TO_PASS, found)
    named = dict.fromkeys(test for names in (failing, passing) for tests in names.values() for test in tests)
    await install_optional(libraries, backend, repaired, layout, list(named))
    either = [test for name, tests in failing.items() if tests != (name,) for test in tests]
    async with open_suite(backend, files, (site,), layout) as suite:
        tests = await confirm_tests(
            suite,
            change,
            texts,
            [name for name, tests in failing.items() if tests == (name,)],
            [test for tests in passing.values() for test in tests if test not in either],
            either,
        )
    write_repository(folder, name, {path: content for path, content in broken.items() if path in kept or path in base}, layout)
    write_repository(folder, f"{name}.hidden", files, layout)
    places = ", ".join(f"/work/repo/{module}" for module in tree.modules)
    task = Task(
        name,
        prompt=PROMPT.format(repo=row.repo, issue=indented(row.problem_statement), places=places),
        data={"repository": name},
        key={
            **tests.key(),
            "patch": patch_between(_only(broken, change), _only(golden, change)),
            "hidden": f"{name}.hidden",
        },
        tags=(row.repo,),
    )
    return task, tree.license, tests


def _repository_name(row: SweBenchRow) -> str:
    """`owner/name`; SWE-smith writes `swesmith/owner__name.commit`."""
    if not row.repo.startswith("swesmith/"):
        return row.repo
    return row.repo.removeprefix("swesmith/").rpartition(".")[0].replace("__", "/", 1)


def _commit(row: SweBenchRow) -> str:
    return row.base_commit or (row.repo.rpartition(".")[2] if row.makes_the_bug else "")


def _written(change: Mapping[str, str | None]) -> dict[str, bytes]:
    return {path: text.encode() for path, text in change.items() if text is not None}


def _only(files: Mapping[str, bytes], paths: Mapping[str, Any]) -> dict[str, bytes]:
    return {path: files[path] for path in paths if path in files}


def _tree(folder: Path, files: Mapping[str, bytes], name: str) -> SourceTree:
    root = folder / name
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return read_tree(root)
