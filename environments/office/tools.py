"""Tools besides `bash`: look at a file as LibreOffice sees it, draw it, convert it.

Each runs the same driver as grading, inside the agent's own sandbox; it starts LibreOffice for the call, about a second.
"""

import json
import posixpath
import shlex

from sandlot import Image, ToolError, World
from sandlot.checks.office import DRIVER

_PATH = "/tmp/.office/driver.py"  # noqa: S108 - in the sandbox
_MOST_ROWS = 200
_KINDS = ("xlsx", "ods", "docx", "odt", "pptx", "odp", "pdf")


async def show_file(world: World, path: str, sheet: str = "") -> str:
    """Show what is in an office file: the recalculated values of a spreadsheet (one sheet, or all), the text of a document or deck."""
    answer = await _ask(world, path, {"text": "/tmp/.office/text.txt"})  # noqa: S108 - in the sandbox
    if not answer.get("books"):
        return (await _read(world, "/tmp/.office/text.txt")).decode(errors="replace")  # noqa: S108 - in the sandbox
    try:
        book = answer["books"][0]["cells"]
        shown = {name: _grid(cells) for name, cells in book.items() if not sheet or name == sheet}
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:  # programs of the sandbox may be the agent's
        raise ToolError(f"LibreOffice gave an answer that cannot be read: {type(error).__name__}") from None
    if sheet and sheet not in shown:
        raise ToolError(f"no sheet `{sheet}`; there are: {', '.join(map(str, book))}")
    return "\n\n".join(f"[{name}]\n{grid}" for name, grid in shown.items())


async def draw_pages(world: World, path: str, first: int = 1, dpi: int = 60) -> list[str | Image]:
    """Show up to four pages, slides or printed sheets of a file as images, from page `first` on; the PNG files are in /tmp/pages."""
    if not 20 <= dpi <= 120 or first < 1:
        raise ToolError(f"dpi is {dpi}, first is {first}; choose a dpi of 20 to 120, and a page from 1 on")
    await _ask(world, path, {"pdf": "/tmp/pages/pages.pdf"})  # noqa: S108 - in the sandbox
    draw = (
        f"cd /tmp/pages && rm -f *.png && pdftoppm -png -r {dpi} -f {first} -l {first + 3} pages.pdf page && ls /tmp/pages/*.png"
    )
    done = await world.exec(draw, check=False)
    if done.code:
        raise ToolError(f"there is no page {first}, or drawing failed: {done.stderr.strip()[-300:]}")
    names = done.stdout.split()
    shown = [Image(await _read(world, name), alt=posixpath.basename(name)) for name in names]
    return [f"{len(names)} pages: {', '.join(names)}", *shown]


async def convert_file(world: World, path: str, to: str) -> str:
    """Save a file in another format with LibreOffice; the ending of `to` chooses it: xlsx, ods, docx, odt, pptx, odp or pdf."""
    kind = to.rpartition(".")[2].lower()
    if kind not in _KINDS:
        raise ToolError(f"`{to}` ends in no format that can be written; choose from {', '.join(_KINDS)}")
    await _ask(world, path, {"pdf" if kind == "pdf" else "convert": posixpath.join("/", to)})
    return f"saved {to}"


async def _ask(world: World, path: str, request: dict[str, str]) -> dict:
    whole = posixpath.join("/", path)
    if (await world.exec(f"test -f {shlex.quote(whole)}", check=False)).code:
        raise ToolError(f"there is no file `{whole}`")
    await world.write(_PATH, DRIVER)
    folders = " ".join(shlex.quote(posixpath.dirname(out)) for out in request.values())
    done = await world.exec(
        f"mkdir -p {folders}; exec timeout 80 /usr/bin/python3 -I -B {_PATH}",
        stdin=json.dumps(request | {"path": whole}),
        check=False,
    )
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise ToolError(f"LibreOffice failed: {done.stderr.strip()[-300:] or done.code}") from None
    if not isinstance(answer, dict):
        raise ToolError("LibreOffice gave an answer that cannot be read")
    if not answer.get("loaded") or answer.get("error"):
        raise ToolError(f"LibreOffice cannot use `{whole}`: {answer.get('error') or 'it does not load'}")
    return answer


async def _read(world: World, path: str) -> bytes:
    try:
        return await world.read(path)
    except OSError as error:
        raise ToolError(f"`{path}` cannot be read: {error}") from None


def _grid(cells: dict) -> str:
    """The cells of a sheet, a row per line: `row: A=..., C=...`."""
    rows: dict[int, list[str]] = {}
    for place, value in cells.items():
        row, _, column = place.partition(",")
        rows.setdefault(int(row), []).append((int(column), value))
    lines = [
        f"{row}: " + ", ".join(f"{_letters(column)}={_text(value)}" for column, value in sorted(found, key=lambda pair: pair[0]))
        for row, found in sorted(rows.items())
    ]
    more = f"\n... {len(lines) - _MOST_ROWS} more rows" if len(lines) > _MOST_ROWS else ""
    return "\n".join(lines[:_MOST_ROWS]) + more


def _letters(column: int) -> str:
    letters = ""
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def _text(value: object) -> str:
    if isinstance(value, list):
        return f"{value[0]} (error)"
    return f"{value:.10g}" if isinstance(value, float) else json.dumps(value)
