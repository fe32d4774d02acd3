"""Recalculate, convert and draw an agent's office file with LibreOffice, in a grading sandbox.

The values of formulas that a file carries are believed by every program that loads it, so a check must not: `recalculated` loads
the file into a fresh LibreOffice, calculates everything anew, and can change inputs first. The environment's image must have
LibreOffice and `python3-uno`.

Answers are kept by the bytes of the file, so that sixty checks of one workbook start LibreOffice once. Name all the scenarios of
a task in the first check that needs one (`workbook_opens`): then one start is enough for all of them.
"""

import hashlib
import json
import os
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio
from anyio.lowlevel import RunVar

from sandlot.checks.office.archive import open_office
from sandlot.core.concurrency.clock import deadline, pause_limits
from sandlot.core.errors import GradeError, NotInEvidence
from sandlot.core.ports.grading import Evidence, absolute_path
from sandlot.core.ports.world import World

DRIVER = (Path(__file__).parent / "driver.py").read_text(encoding="utf-8")
"""The program that runs LibreOffice, for a tool of an environment too: see its docstring for what it takes and answers."""
_COMMAND = "ulimit -t 60; exec timeout 90 /usr/bin/python3 -I -B /grade/driver.py"
_MAX_KEPT = 64
_PATIENCE_S = 1800.0
"""Longest wait for a place to start LibreOffice."""
_MAX_ANSWER_BYTES = 16 * 2**20
_MAX_PAGES = 40
_ABOUT = ("docProps/", "meta.xml", "settings.xml", "Thumbnails/")
"""Parts that say who saved the file and when, and how its windows stood."""
_OPEN_DOCUMENT = b"application/vnd.oasis.opendocument."
_CONVERTED = {".ods": "xlsx", ".odt": "docx", ".odp": "pptx"}

Changes = Mapping[str, float | str]
"""New values of cells, by `Sheet!B2`."""


@dataclass(frozen=True, slots=True)
class Recalculated:
    """The values of a workbook after recalculation."""

    sheets: Mapping[str, Mapping[tuple[int, int], float | str]]
    """Sheet -> (row, column) -> value. An error is the text LibreOffice shows, such as `#DIV/0!`, and is also in `errors`."""
    errors: Mapping[str, frozenset[tuple[int, int]]]

    def value(self, sheet: str, row: int, column: int) -> float | str | None:
        """One value, None for an empty cell."""
        found = next((cells for name, cells in self.sheets.items() if name.lower() == sheet.lower()), None)
        return found.get((row, column)) if found is not None else None


@dataclass(slots=True)
class _Kept:
    """What is known about one file."""

    books: dict[str, Recalculated | NotInEvidence]
    converted: bytes | NotInEvidence | None = None


_kept: OrderedDict[str, _Kept] = OrderedDict()
_locks: RunVar[dict[int, anyio.Lock]] = RunVar("sandlot_office_locks")
"""One lock per file being asked about; a lock belongs to one event loop, the answers do not."""
_places: RunVar[anyio.Semaphore] = RunVar("sandlot_office_places")
"""LibreOffice keeps a processor busy for a second or two: more at once only start later."""


async def recalculated(
    evidence: Evidence, path: str, changes: Changes | None = None, scenarios: Sequence[Changes] = ()
) -> Recalculated:
    """The workbook's values after these changes; other `scenarios` are computed on the way and kept for later checks."""
    wanted = {_key(each): dict(each) for each in (changes or {}, *scenarios)}
    kept = _known(evidence, path)
    async with _lock(kept):
        missing = {key: each for key, each in wanted.items() if key not in kept.books}
        if missing:
            kept.books |= await _books(evidence, path, missing)
    found = kept.books.get(_key(changes or {}))
    if not isinstance(found, Recalculated):
        raise found or NotInEvidence(f"`{path}` could not be recalculated", kind="cut")
    return found


async def _books(
    evidence: Evidence, path: str, scenarios: Mapping[str, Mapping[str, Any]]
) -> dict[str, Recalculated | NotInEvidence]:
    """The values for each scenario, or why there are none: that is kept too, since asking again would fail again."""
    try:
        answer = await _asked(evidence, path, {"scenarios": list(scenarios.values())})
    except NotInEvidence as error:
        return dict.fromkeys(scenarios, error)
    found: dict[str, Recalculated | NotInEvidence] = {}
    for place, key in enumerate(scenarios):
        book: dict[str, Any] = answer["books"][place] if place < len(answer["books"]) else {"error": "it is not a spreadsheet"}
        error = NotInEvidence(f"LibreOffice cannot recalculate `{path}`: {book.get('error')}", kind="cut")
        found[key] = _book(book["cells"]) if "cells" in book else error
    return found


async def office_bytes(evidence: Evidence, path: str) -> bytes:
    """The file as Office Open XML: its own bytes, or LibreOffice's conversion of an `.ods`, `.odt` or `.odp`."""
    suffix = _CONVERTED.get(Path(path).suffix.lower())
    if suffix is None:
        return evidence.read(path)
    kept = _known(evidence, path)
    async with _lock(kept):
        if kept.converted is None:
            out = f"/grade/converted.{suffix}"
            try:
                kept.converted = (await _asked(evidence, path, {"convert": out}, read=out))["file"]
            except NotInEvidence as error:
                kept.converted = error
    if isinstance(kept.converted, bytes):
        return kept.converted
    raise kept.converted or NotInEvidence(f"`{path}` could not be converted", kind="cut")


async def rendered_pages(evidence: Evidence, path: str, *, dpi: int = 60, most: int = _MAX_PAGES) -> list[bytes]:
    """The pages of a document, the slides of a deck or the printed sheets of a workbook, as PNG images.

    For a judge that can see. The image needs `poppler-utils`. At most `most` pages are drawn.
    """
    out = "/grade/pages.pdf"
    answer = await _asked(evidence, path, {"pdf": out}, draw=(out, dpi, min(most, _MAX_PAGES)))
    return answer["pages"]


async def _asked(
    evidence: Evidence, path: str, request: dict[str, Any], read: str = "", draw: tuple[str, int, int] | None = None
) -> dict[str, Any]:
    """What LibreOffice answers about a file. `GradeError` if it does not start, `NotInEvidence` if it cannot use the file."""
    async with _turn(), evidence.grading_sandbox(path) as world:
        await world.write("/grade/driver.py", DRIVER)
        whole = json.dumps(request | {"path": absolute_path(path)})
        done = await world.exec(_COMMAND, stdin=whole, output_bytes=_MAX_ANSWER_BYTES, check=False)
        try:
            answer: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            answer = {"started": done.code in {124, 137}, "error": f"exit code {done.code}: {done.stderr.strip()[-200:]}"}
        if not answer["started"]:
            raise GradeError(
                f"LibreOffice did not start in the grading sandbox ({answer['error']}); the environment's image needs "
                "`libreoffice-calc-nogui` (or -writer, -impress) and `python3-uno`",
                kind="config",
            )
        if not answer.get("loaded") or answer["error"]:
            raise NotInEvidence(f"LibreOffice cannot use `{path}`: {answer['error'] or 'it does not load'}", kind="cut")
        if read:
            answer["file"] = await world.read(read)
        if draw is not None:
            answer["pages"] = await _drawn(world, *draw)
        return answer


@asynccontextmanager
async def _turn() -> AsyncGenerator[None]:
    """Wait for one of as many places as there are processors. The wait is not the agent's, and counts against no limit."""
    try:
        places = _places.get()
    except LookupError:
        places = anyio.Semaphore(max(os.cpu_count() or 1, 1))
        _places.set(places)
    with pause_limits(), deadline(_PATIENCE_S, GradeError, "a place to start LibreOffice"):
        await places.acquire()
    try:
        yield
    finally:
        places.release()


async def _drawn(world: World, pdf: str, dpi: int, most: int) -> list[bytes]:
    command = f"ulimit -t 60; exec timeout 60 /usr/bin/pdftoppm -png -r {int(dpi)} -l {int(most)} {pdf} /grade/page"
    done = await world.exec(command, check=False)
    if done.code != 0:
        raise GradeError(
            f"`pdftoppm` failed with exit code {done.code}: {done.stderr.strip()[-200:]}; the image needs `poppler-utils`"
        )
    pages = sorted(name for name in await world.list("/grade") if name.endswith(".png"))
    return [await world.read(name) for name in pages]


def _known(evidence: Evidence, path: str) -> _Kept:
    """The entry of a file. Parts that do not count for values (author, time of saving) do not make it another file."""
    archive, whole = open_office(evidence.read(path), path), hashlib.sha256()
    if Path(path).suffix.lower() in _CONVERTED and not archive.read("mimetype").startswith(_OPEN_DOCUMENT):
        archive.refuse("is not an OpenDocument file")
    for name in sorted(name for name in archive.names if not name.startswith(_ABOUT)):
        whole.update(f"{name}\n".encode() + hashlib.sha256(archive.read(name)).digest())
    digest = whole.hexdigest()
    kept = _kept.setdefault(digest, _Kept({}))
    _kept.move_to_end(digest)
    while len(_kept) > _MAX_KEPT:
        _kept.popitem(last=False)
    return kept


def _lock(kept: _Kept) -> anyio.Lock:
    try:
        locks = _locks.get()
    except LookupError:
        locks = dict[int, anyio.Lock]()
        _locks.set(locks)
    return locks.setdefault(id(kept), anyio.Lock())


def _key(changes: Changes) -> str:
    return json.dumps(sorted(changes.items()))


def _book(raw: dict[str, dict[str, Any]]) -> Recalculated:
    sheets: dict[str, dict[tuple[int, int], float | str]] = {}
    errors: dict[str, frozenset[tuple[int, int]]] = {}
    for name, cells in raw.items():
        sheets[name], wrong = {}, set[tuple[int, int]]()
        for place, value in cells.items():
            row, _, column = place.partition(",")
            at = (int(row), int(column))
            sheets[name][at] = str(cast("list[Any]", value)[0]) if isinstance(value, list) else value
            if isinstance(value, list):
                wrong.add(at)
        errors[name] = frozenset(wrong)
    return Recalculated(sheets, errors)
