"""`sandlot import releases NAME==OLD..NEW`: what changed from one release to the next is the task, the newer tests decide."""

import itertools
import re
import tempfile
from pathlib import Path
from typing import Any

from sandlot.core.errors import ConfigError, SandlotError, boundary
from sandlot.core.ports.importer import ImportedTask, ImportReport, LeftOut
from sandlot.core.ports.sandbox import Backend
from sandlot.core.task import Task
from sandlot.interop.repositories.folder import write_repair_environment, write_repository
from sandlot.interop.repositories.index import fetch_source, normalized, source_files
from sandlot.interop.repositories.package import indented, run_async, unpack_tree
from sandlot.interop.repositories.patches import patch_between
from sandlot.interop.repositories.site_folder import PYTEST, install, require_apart, write_metadata
from sandlot.interop.repositories.sources import SourceTree
from sandlot.interop.repositories.suite import RepositoryLayout, open_suite, python_version
from sandlot.interop.repositories.verified import LibraryFolder, find_tests, install_missing
from sandlot.wiring.parts import open_backend

PROMPT = """\
In /work/repo there is the source of the Python package `{name}` {old}. The next release, {new}, changes this:

{issue}

Make these changes. Hidden tests decide: those of the next release. Only changes below {places} are taken over."""
DEFAULT_PAIRS = 4
_MAX_FAILING, _MAX_PASSING = 40, 60
_MAX_ENTRY = 6_000
_CHANGELOG = re.compile(r"(change|history|news|release)\w*(\.(md|rst|txt))?\Z", re.IGNORECASE)
_SOURCE = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*?)(?:==(?P<old>[0-9.]+)\.\.(?P<new>[0-9.]+))?\Z")


class ReleasesImporter:
    """`NAME` for the newest releases, `NAME==OLD..NEW` for one step."""

    kind = "releases"

    def digest(self, source: str) -> str:
        """The releases that there are."""
        return ", ".join(f"{old}..{new}" for old, new in _pairs(source)[1])

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment; see `Importer`."""
        name, pairs = _pairs(source)
        require_apart(name)
        return run_async(_import_pairs, source, name, pairs, folder, limit)


def _pairs(source: str) -> tuple[str, list[tuple[str, str]]]:
    match = _SOURCE.match(source.strip())
    if not match:
        raise ConfigError(f"releases {source!r}: write `NAME`, or `NAME==OLD..NEW` such as `sqlparse==0.5.0..0.5.1`")
    if match["old"]:
        return match["name"], [(match["old"], match["new"])]
    versions = [file.version for file in source_files(match["name"])]
    pairs = list(itertools.pairwise(versions))[-DEFAULT_PAIRS:]
    if not pairs:
        raise ConfigError(f"package `{match['name']}` has only one release with a source distribution")
    return match["name"], pairs[::-1]


async def _import_pairs(source: str, name: str, pairs: list[tuple[str, str]], folder: Path, limit: int | None) -> ImportReport:
    python = await python_version()
    tasks: list[Task] = []
    taken: list[ImportedTask] = []
    left_out: list[LeftOut] = []
    async with open_backend() as backend:
        for old, new in pairs[:limit]:
            try:
                with boundary(ConfigError, f"{old}..{new}"):
                    task, licence = await _import_pair(backend, name, old, new, folder, python)
            except SandlotError as error:
                left_out.append(LeftOut(what=f"{old}..{new}", why=str(error)))
                continue
            tasks.append(task)
            taken.append(ImportedTask(id=task.id, origin=f"{name} {old}..{new}", licence=licence))
    if tasks:
        write_repair_environment(folder, f"{normalized(name)}-releases", f"Steps from one release of {name} to the next.", tasks)
    return ImportReport(
        kind=ReleasesImporter.kind,
        source=source,
        package=name,
        version=pairs[0][1],
        tasks=tuple(taken),
        left_out=tuple(left_out),
        notes=("a release holds many changes; its entry in the changelog is the issue",),
    )


async def _import_pair(backend: Backend, name: str, old: str, new: str, folder: Path, python: str) -> tuple[Task, str]:
    with tempfile.TemporaryDirectory(prefix="sandlot-releases-") as temporary:
        older = _fetched(name, old, Path(temporary) / "old")
        newer = _fetched(name, new, Path(temporary) / "new")
        before = {path: (older.root / path).read_bytes() for path in older.files()}
        after = {path: (newer.root / path).read_bytes() for path in newer.files()}
        label, target = f"{normalized(name)}-{old}", f"{normalized(name)}-{new}"
        site = folder / "site" / target
        install((*PYTEST, *newer.requires), site, python, without=name)
        write_metadata(newer, site)
        entry = changelog_entry(after, new)
    if older.modules != newer.modules:
        raise ConfigError(f"its modules moved from {', '.join(older.modules)} to {', '.join(newer.modules)}")
    sources = {path for path in before.keys() | after.keys() if newer.is_source(path) and before.get(path) != after.get(path)}
    try:
        change = {path: after[path].decode() if path in after else None for path in sorted(sources)}
    except UnicodeDecodeError as error:
        raise ConfigError(f"a changed file is not UTF-8 text: {error}") from error
    hidden = {path: content for path, content in after.items() if not newer.is_source(path)}
    given = {path: content for path, content in before.items() if older.is_source(path)}
    layout = RepositoryLayout(paths=newer.paths, modules=newer.modules, tests=newer.tests, options=newer.options, site=target)
    texts = {path: content.decode(errors="replace") for path, content in hidden.items() if path.endswith(".py")}
    whole = hidden | {path: content for path, content in after.items() if newer.is_source(path)}
    await install_missing(LibraryFolder(site, python, newer), backend, whole, layout, newer.tests)
    async with open_suite(backend, hidden | given, (site,), layout) as suite:
        tests = await find_tests(suite, change, texts, _MAX_FAILING, _MAX_PASSING)
    write_repository(folder, label, before, layout)
    write_repository(folder, target, hidden, layout)
    return _task(newer, old, new, entry, label, target, tests.key(), patch_between(given, _sources(after, newer))), newer.license


def _sources(files: dict[str, bytes], tree: SourceTree) -> dict[str, bytes]:
    return {path: content for path, content in files.items() if tree.is_source(path)}


def _fetched(name: str, version: str, folder: Path) -> SourceTree:
    folder.mkdir()
    return unpack_tree(fetch_source(name, version, folder), folder / "source", name)


def _task(tree: SourceTree, old: str, new: str, entry: str, label: str, target: str, tests: dict[str, Any], patch: str) -> Task:
    places = ", ".join(f"/work/repo/{module}" for module in tree.modules)
    issue = entry or "(The changelog has no entry; the tests of the release are about the names of what changed.)"
    return Task(
        f"{label}-to-{new}",
        prompt=PROMPT.format(name=tree.name, old=old, new=new, issue=indented(issue), places=places),
        data={"repository": label},
        key={**tests, "patch": patch, "hidden": target},
        tags=("release",),
    )


def changelog_entry(files: dict[str, bytes], version: str) -> str:
    """The part of a changelog about one version: from its heading to the next one that names another."""
    for path in sorted(files, key=lambda path: (path.count("/"), path)):
        if not _CHANGELOG.match(path.rpartition("/")[2]):
            continue
        entry = entry_of(files[path].decode(errors="replace"), version)
        if entry:
            return entry
    return ""


def entry_of(text: str, version: str) -> str:
    """The lines below the heading of a version."""
    lines = text.splitlines()
    heading = re.compile(rf"^\W*(?:\w+[ -])?v?{re.escape(version)}(?![.\d\w])")
    other = re.compile(r"^(?:#+ |=+ )?\W*(?:(?:release|version)[ -])?v?\d+\.\d+(?:\.\d+)*(?![.\d\w])", re.IGNORECASE)
    start = next((number for number, line in enumerate(lines) if heading.match(line) and len(line) < 80), None)
    if start is None:
        return ""
    found: list[str] = []
    for line in lines[start + 1 :]:
        if other.match(line) and not line.startswith((" ", "-", "*")) and len(line) < 80:
            break
        found.append(line)
    while found and re.fullmatch(r"[=\-~^#\s]*", found[0]):
        found.pop(0)
    return "\n".join(found).strip()[:_MAX_ENTRY]
