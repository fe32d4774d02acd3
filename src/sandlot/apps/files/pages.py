"""The pages of files, for agents that use a browser: folders, a file with its text, forms to write and move. No JavaScript."""

import csv
import io
import mimetypes
import posixpath
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sandlot.apps.files.tree import FILES, ROOT, children, find_entry, find_file, find_folder, may_write, resolve
from sandlot.apps.live import LiveApp
from sandlot.apps.page_tools import PageTools, lines, listed
from sandlot.apps.pages import PageRequest, PageResponse, render
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_HERE = Path(__file__).parent / "templates"
_TOOLS = PageTools(FILES, r"\A(MCP error -\d+: )?(E[A-Z]+: )?")
_PAGE = 100
_SHOWN_BYTES = 200_000
_SHOWN_ROWS = 500
_UNITS = ("bytes", "KB", "MB")


def _page(app: LiveApp, template: str, **values: Any) -> PageResponse:
    return render(_HERE, template, actor=app.actor, root=ROOT, **values)


def _size(size: int) -> str:
    unit, shown = 0, float(size)
    while shown >= 1024 and unit < len(_UNITS) - 1:
        unit, shown = unit + 1, shown / 1024
    return f"{size} bytes" if unit == 0 else f"{shown:.1f} {_UNITS[unit]}"


def _path(path: str) -> list[tuple[str, str]]:
    """The folders down to a path, each with its name."""
    found = [(ROOT, "Files")]
    for name in path[len(ROOT) + 1 :].split("/") if path != ROOT else ():
        found.append((f"{found[-1][0]}/{name}", name))
    return found


def _line(row: Json) -> Json:
    name = posixpath.basename(row["path"])
    kind = "Folder" if row["kind"] == "directory" else mimetypes.guess_type(name)[0] or "File"
    size = "" if row["kind"] == "directory" else _size(row["size"] or 0)
    return {"path": row["path"], "name": name, "folder": row["kind"] == "directory", "kind": kind, "size": size, **_times(row)}


def _times(row: Json) -> Json:
    return {"modified": row["modified"][:16].replace("T", " "), "owner": row["owner"]}


@FILES.page("GET", "/")
def _folder(app: LiveApp, request: PageRequest) -> PageResponse:
    path = request.query.get("path") or ROOT
    folder = find_folder(app, path)["path"]
    rows = sorted(children(app, folder), key=lambda row: (row["kind"] != "directory", row["path"]))
    found = listed([_line(row) for row in rows], request, _PAGE)
    return _page(app, "folder.html", folder=folder, above=_path(folder), found=found, may_write=may_write(app, folder))


@FILES.page("GET", "/search")
def _search(app: LiveApp, request: PageRequest) -> PageResponse:
    query = request.query.get("q", "").strip()
    inside = find_folder(app, request.query.get("path") or ROOT)["path"]
    pattern = query if any(sign in query for sign in "*?") else f"*{query}*"
    found = _TOOLS.do(app, "search_files", path=inside, pattern=f"**/{pattern}") if query else ""
    paths = [] if found in {"", "No matches found"} else found.splitlines()
    rows = listed([_line(_entry(app, path)) for path in paths], request, _PAGE)
    return _page(app, "search.html", query=query, inside=inside, found=rows, total=len(paths))


def _entry(app: LiveApp, path: str) -> Json:
    row = find_entry(app, path, "stat")
    return row | {"size": len(row["data"] or b"")}


# -- one file -----------------------------------------------------------------------------------------------------------


def _text(row: Json) -> str | None:
    """The text of a file; None if it is not text."""
    data: bytes = row["data"] or b""
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None


@FILES.page("GET", "/file")
def _file(app: LiveApp, request: PageRequest) -> PageResponse:
    row = find_file(app, request.query.get("path", ""))
    text = _text(row)
    cut = text is not None and len(text) > _SHOWN_BYTES
    table = _table(text[:_SHOWN_BYTES]) if text is not None and row["path"].endswith(".csv") else []
    shown = _line(row | {"size": len(row["data"] or b"")})
    return _page(
        app,
        "file.html",
        row=shown,
        above=_path(row["path"]),
        text=None if text is None else text[:_SHOWN_BYTES],
        cut=cut,
        table=table,
        may_write=may_write(app, row["path"]),
    )


def _table(text: str) -> list[list[str]]:
    """A file with commas as rows; none if it is not one."""
    try:
        return [row for row, _ in zip(csv.reader(io.StringIO(text)), range(_SHOWN_ROWS), strict=False)]
    except csv.Error:
        return []


@FILES.page("GET", "/download")
def _download(app: LiveApp, request: PageRequest) -> PageResponse:
    row = find_file(app, request.query.get("path", ""))
    name = quote(posixpath.basename(row["path"]))
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "X-Content-Type-Options": "nosniff",
    }
    return PageResponse(headers=headers, body=row["data"] or b"")


@FILES.page("GET", "/edit")
def _edit_form(app: LiveApp, request: PageRequest) -> PageResponse:
    row = find_file(app, request.query.get("path", ""))
    text = _text(row)
    if text is None:
        raise ToolError("This file is not text, and cannot be edited here.")
    return _page(app, "edit.html", path=row["path"], folder="", text=text, modified=row["modified"], above=_path(row["path"]))


@FILES.page("POST", "/edit")
def _edit(app: LiveApp, request: PageRequest) -> PageResponse:
    row = find_file(app, request.form.get("path", ""))
    if request.form.get("modified") != row["modified"]:
        raise ToolError("The file was changed meanwhile. Open it again, and make your change to the new version.")
    _TOOLS.do(app, "write_file", path=row["path"], content=lines(request, "text"))
    return PageResponse.redirect(f"/file?path={quote(row['path'])}")


@FILES.page("GET", "/new")
def _new_form(app: LiveApp, request: PageRequest) -> PageResponse:
    folder = find_folder(app, request.query.get("path") or ROOT)["path"]
    return _page(app, "edit.html", path="", folder=folder, text="", modified="", above=_path(folder))


def _named(request: PageRequest) -> str:
    """The path of a name in a folder, as the form gives both; `ToolError` if the name is none."""
    name = request.form.get("name", "").strip()
    if not name or "/" in name or name in {".", ".."}:
        raise ToolError("Give a name without `/`.")
    return resolve(posixpath.join(request.form.get("folder") or ROOT, name))


@FILES.page("POST", "/new")
def _new(app: LiveApp, request: PageRequest) -> PageResponse:
    path = _named(request)
    if app.one("SELECT 1 FROM entry WHERE path = ?", path):
        raise ToolError(f"There is already something named {posixpath.basename(path)} here.")
    _TOOLS.do(app, "write_file", path=path, content=lines(request, "text"))
    return PageResponse.redirect(f"/file?path={quote(path)}")


@FILES.page("POST", "/folder")
def _new_folder(app: LiveApp, request: PageRequest) -> PageResponse:
    path = _named(request)
    _TOOLS.do(app, "create_directory", path=path)
    return PageResponse.redirect(f"/?path={quote(path)}")


@FILES.page("POST", "/move")
def _move(app: LiveApp, request: PageRequest) -> PageResponse:
    """Rename a file or a folder, or move it into another folder."""
    path = _named(request)
    _TOOLS.do(app, "move_file", source=request.form.get("path", ""), destination=path)
    return PageResponse.redirect(f"/?path={quote(posixpath.dirname(path))}")
