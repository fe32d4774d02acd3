"""Repair tasks from a Python package: its source distribution, its own tests, and bugs planted in it."""

import asyncio
import itertools
import os
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import anyio

from sandlot.core.errors import ConfigError
from sandlot.core.ports.importer import ImportedTask, ImportReport, LeftOut
from sandlot.core.syntax import parse_python
from sandlot.core.task import Task
from sandlot.core.types import Split, derive_seed
from sandlot.interop.repositories.baseline import Baseline, functions_of, measure_baseline, missing_modules, run_all
from sandlot.interop.repositories.folder import write_repair_environment, write_repository
from sandlot.interop.repositories.index import fetch_source, normalized
from sandlot.interop.repositories.issue_text import issue_of
from sandlot.interop.repositories.patches import patch_between
from sandlot.interop.repositories.planting import PlantedBug, guardable_tests, plant
from sandlot.interop.repositories.site_folder import (
    INSTALL_ROUNDS,
    PYTEST,
    TOOLS,
    distributions_of,
    install,
    require_apart,
    write_metadata,
)
from sandlot.interop.repositories.sources import SourceTree, read_tree
from sandlot.interop.repositories.suite import GRADED_WALL_S, RepositoryLayout, Suite, open_suite, python_version
from sandlot.interop.untrusted import source_digest, unpack
from sandlot.wiring.parts import open_backend

PROMPT = """\
In /work/repo there is the source of the Python package `{name}` {version}. Somebody opened this issue:

{issue}

Find the cause and fix it in the package. Hidden tests decide: they check this behaviour and that everything else still works. \
Only changes below {places} are taken over. You can run the tests that are there with `{command}` in /work/repo."""
_HELDOUT_SHARE = 0.2
DEFAULT_TASKS = 100
_MAX_SUITES = 8
_Result = TypeVar("_Result")


class PackageImporter:
    """`sandlot import package NAME==VERSION`: bugs planted in a package, found by its own tests.

    The source may also be the path of a source distribution; `?NAME=VALUE` behind it sets an environment variable of its tests.
    The package's tests run in a sandbox, nothing of it on this machine.
    """

    kind = "package"

    def digest(self, source: str) -> str:
        """A release does not change; a file is hashed."""
        plain, environ = _parsed(source)
        known = source_digest(plain) if _is_file(plain) else "==".join(_named(plain))
        return " ".join([known, *(f"{name}={value}" for name, value in environ.items())])

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment; see `Importer`."""
        with tempfile.TemporaryDirectory(prefix="sandlot-package-") as temporary:
            plain, environ = _parsed(source)
            tree = fetch_tree(plain, Path(temporary))
            return run_async(_import_package, tree, source, environ, folder, DEFAULT_TASKS if limit is None else limit)


def fetch_tree(source: str, folder: Path) -> SourceTree:
    """The source tree of `NAME==VERSION` or of a source distribution."""
    if _is_file(source):
        return unpack_tree(Path(source), folder / "source")
    name, version = _named(source)
    require_apart(name)
    return unpack_tree(fetch_source(name, version, folder), folder / "source", name)


def unpack_tree(archive: Path, folder: Path, name: str = "") -> SourceTree:
    """Unpack a source distribution, which has one folder at the top."""
    unpack(archive, folder)
    inside = sorted(folder.iterdir())
    if len(inside) != 1 or not inside[0].is_dir():
        raise ConfigError(
            f"{archive.name}: a source distribution has one folder at the top, this archive has {len(inside)} entries"
        )
    return read_tree(inside[0], name)


def run_async(function: Callable[..., Awaitable[_Result]], *arguments: Any) -> _Result:
    """Run an async function to its end, also where an event loop is running already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return anyio.run(function, *arguments)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(anyio.run, function, *arguments).result()


async def _import_package(tree: SourceTree, source: str, environ: Mapping[str, str], folder: Path, limit: int) -> ImportReport:
    require_apart(tree.name)
    python = await python_version()
    site = folder / "site"
    missing = install((*PYTEST, *tree.requires), site, python, without=tree.name)
    write_metadata(tree, site)
    files = {path: (tree.root / path).read_bytes() for path in tree.files()}
    name = f"{normalized(tree.name)}-{tree.version}"
    layout = RepositoryLayout(paths=tree.paths, modules=tree.modules, tests=tree.tests, options=tree.options, environ=environ)
    write_repository(folder, name, files, layout)
    tried: Counter[str] = Counter()
    async with AsyncExitStack() as stack:
        tools = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sandlot-tools-"))) / "tools"
        install(TOOLS, tools, python)
        baseline, more = await _usable_baseline(tree, files, layout, (site, tools), python)
        backend = await stack.enter_async_context(open_backend())
        opened = partial(open_suite, backend, files, (site, tools), layout)
        suites = [await stack.enter_async_context(opened()) for _ in range(min(os.cpu_count() or 1, _MAX_SUITES))]
        bugs = await _plant(suites, tree, files, baseline, limit, tried)
    texts = _texts(tree, files)
    tasks = [task_of(tree, name, files[bug.path].decode(), texts, bug, number, environ) for number, bug in enumerate(bugs, 1)]
    if not tasks:
        raise ConfigError(f"package `{tree.name}`: no bug could be planted that its tests notice ({_shown(tried)})")
    description = f"Planted bugs in {tree.name} {tree.version}, found by its own tests."
    write_repair_environment(folder, f"{normalized(tree.name)}-repair", description, tasks)
    return ImportReport(
        kind=PackageImporter.kind,
        source=source,
        package=tree.name,
        version=tree.version,
        tasks=tuple(ImportedTask(id=task.id, origin=f"{name}, {task.tags[1]}", licence=tree.license) for task in tasks),
        left_out=(
            *(LeftOut(what=f"requirement {each}", why="no wheel of it could be installed") for each in (*missing, *more)),
            *(LeftOut(what=f"{count} tests", why=f"each {why}") for why, count in baseline.left_out.items()),
            *(LeftOut(what=f"{count} bugs", why=why) for why, count in tried.items() if count and why != "task"),
        ),
        notes=(f"{len(baseline.seconds)} tests of the package are used",),
    )


async def _usable_baseline(
    tree: SourceTree, files: Mapping[str, bytes], layout: RepositoryLayout, sites: tuple[Path, Path], python: str
) -> tuple[Baseline, list[str]]:
    """What the tests do, with the modules that their files miss installed. Also what could not be installed.

    Each measurement has a sandbox of its own: one that is open does not see whole what pip puts in place of its libraries.
    """
    texts, site = _texts(tree, files), sites[0]
    own = {module.rpartition("/")[2].removesuffix(".py") for module in tree.modules} | {"tests", "test"}
    missing: list[str] = []
    needed: set[str] = set()
    for rounds in itertools.count():
        async with open_backend() as backend, open_suite(backend, files, sites, layout) as suite:
            first = await run_all(suite, tree.modules)
            new = missing_modules(first) - own - needed
            if not new or rounds == INSTALL_ROUNDS:
                return await measure_baseline(suite, first, texts), missing
        needed |= new
        missing += install((*PYTEST, *distributions_of(new)), site, python, without=tree.name)
        write_metadata(tree, site)
    raise AssertionError("unreachable")


async def _plant(
    suites: Sequence[Suite], tree: SourceTree, files: Mapping[str, bytes], baseline: Baseline, limit: int, tried: Counter[str]
) -> list[PlantedBug]:
    sources = {
        path: content.decode()
        for path, content in files.items()
        if path.endswith(".py") and tree.is_source(path) and _is_text(content)
    }
    guardable = guardable_tests(_texts(tree, files), list(baseline.seconds))
    return await plant(suites, sources, baseline, guardable, limit, tried)


def _is_file(source: str) -> bool:
    return source.endswith((".tar.gz", ".tgz", ".zip", ".tar.bz2", ".tar")) or Path(source).is_file()


def _parsed(source: str) -> tuple[str, dict[str, str]]:
    """The source without its environment variables, and these."""
    plain, _, query = source.partition("?")
    environ = dict(parse_qsl(query, keep_blank_values=True))
    for name in environ:
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
            raise ConfigError(f"package {source!r}: `{name}` is no name of an environment variable, such as `NO_EXTENSION`")
    return plain, environ


def _named(source: str) -> tuple[str, str]:
    name, mark, version = source.partition("==")
    if not mark or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name.strip()) or not version.strip():
        raise ConfigError(
            f"package {source!r}: write `NAME==VERSION`, for example `humanize==4.16.0`, or name a source distribution"
        )
    return name.strip(), version.strip()


def task_of(
    tree: SourceTree,
    repository: str,
    source: str,
    texts: Mapping[str, str],
    bug: PlantedBug,
    number: int,
    environ: Mapping[str, str] | None = None,
) -> Task:
    """The task of a planted bug. Its tests run with the environment variables `environ`."""
    mutation = bug.mutation
    place = f"{bug.path}::{mutation.function}"
    change = {"path": bug.path, "start": mutation.start, "end": mutation.end, "text": mutation.text}
    issue = issue_of(
        tree.name,
        bug.report,
        texts[bug.report.test.partition("::")[0]],
        more=len(bug.fail_to_pass) - 1,
        change=source[mutation.start : mutation.end].strip(),
    )
    places = ", ".join(f"/work/repo/{module}" for module in tree.modules)
    command = " ".join([*(f"{name}={shlex.quote(value)}" for name, value in (environ or {}).items()), "python3 -m pytest"])
    broken = mutation.applied(source)
    return Task(
        f"{repository}-{number:04}",
        prompt=PROMPT.format(name=tree.name, version=tree.version, issue=indented(issue), places=places, command=command),
        data={
            "repository": repository,
            "changes": [change, *hidden_tests(texts, bug.fail_to_pass)],
        },
        key={
            "fail_to_pass": list(bug.fail_to_pass),
            "pass_to_pass": list(bug.pass_to_pass),
            "wall_s": GRADED_WALL_S,
            "patch": patch_between({bug.path: broken.encode()}, {bug.path: source.encode()}),
        },
        split=Split.HELDOUT if derive_seed("split", tree.name, place) % 10_000 < _HELDOUT_SHARE * 10_000 else Split.TRAIN,
        tags=(str(mutation.kind), bug.path),
    )


def hidden_tests(texts: Mapping[str, str], tests: Sequence[str]) -> list[dict[str, Any]]:
    """Changes that take the functions of some tests out of their files, the last of a file first. A class keeps `pass`."""
    changes: list[dict[str, Any]] = []
    for path in sorted({test.partition("::")[0] for test in tests}):
        starts = [0, *(place + 1 for place, letter in enumerate(texts[path]) if letter == "\n"), len(texts[path])]
        functions = functions_of(parse_python(texts[path]))
        places = {test.partition("::")[2].partition("[")[0] for test in tests if test.partition("::")[0] == path}
        for place in sorted(places & functions.keys(), key=lambda place: functions[place].lineno, reverse=True):
            node = functions[place]
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            instead = f"{' ' * node.col_offset}pass\n" if "::" in place else ""
            changes.append({"path": path, "start": starts[first - 1], "end": starts[node.end_lineno or first], "text": instead})
    return changes


def indented(text: str) -> str:
    """A text as a quotation."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _texts(tree: SourceTree, files: Mapping[str, bytes]) -> dict[str, str]:
    return {
        path: content.decode()
        for path, content in files.items()
        if path.endswith(".py") and tree.is_test(path) and _is_text(content)
    }


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return b"\r" not in content  # positions of the tree are of the text with one kind of line end


def _shown(tried: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in tried.most_common()) or "no candidates"
