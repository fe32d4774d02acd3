"""The tools of the files app: names, arguments, results and errors of `@modelcontextprotocol/server-filesystem`."""

import base64
import difflib
import json
import mimetypes
import posixpath
from datetime import datetime
from typing import Any

from sandlot.apps.files.tree import FILES, ROOT, children, find_entry, find_file, find_folder, make_folder, move, resolve, write
from sandlot.apps.live import LiveApp
from sandlot.apps.words import fits_glob
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_MAX_ANSWER = 4 * 2**20
"""Characters that one call returns of several files."""
_MAX_EDITS = 500
_MAX_DIFF_LINES = 2000
"""Lines of a file up to which the smallest difference is looked for, which takes quadratic time."""
_MAX_GLOB_WORK = 30_000_000
"""Characters of paths times characters of patterns in one search: at worst some seconds."""
_UNITS = ("B", "KB", "MB", "GB")
_CONTEXT = 4
"""Lines of a diff around those that differ."""
_MOST = 5000
"""Entries that one listing returns."""


def _text(app: LiveApp, path: str, head: float | None = None, tail: float | None = None) -> str:
    if head and tail:
        raise ToolError("Cannot specify both head and tail parameters simultaneously")
    data: bytes = find_file(app, path)["data"] or b""
    text = data.decode(errors="replace")
    if tail:
        return "\n".join(text.split("\n")[-max(1, int(tail)) :])
    return "\n".join(text.split("\n")[: max(1, int(head))]) if head else text


@FILES.tool(name="read_file")
def _read_file(app: LiveApp, *, path: str, tail: float | None = None, head: float | None = None) -> str:
    return _text(app, path, head, tail)


@FILES.tool(name="read_text_file")
def _read_text_file(app: LiveApp, *, path: str, tail: float | None = None, head: float | None = None) -> str:
    return _text(app, path, head, tail)


@FILES.tool(name="read_media_file")
def _read_media_file(app: LiveApp, *, path: str) -> str:
    """The file as base64, in the content block that the server returns."""
    row = find_file(app, path)
    mime = mimetypes.guess_type(row["path"])[0] or "application/octet-stream"
    data = base64.b64encode(row["data"] or b"").decode()
    kind = mime.split("/", maxsplit=1)[0]
    if kind in {"image", "audio"}:
        return json.dumps({"type": kind, "data": data, "mimeType": mime})
    return json.dumps({"type": "resource", "resource": {"uri": f"file://{row['path']}", "mimeType": mime, "blob": data}})


@FILES.tool(name="read_multiple_files")
def _read_multiple_files(app: LiveApp, *, paths: list[str]) -> str:
    parts: list[str] = []
    left = _MAX_ANSWER
    for path in paths[:200]:
        try:
            text = _text(app, path)
        except ToolError as error:
            parts.append(f"{path}: Error - {error}")
            continue
        left -= len(text)
        too_long = f"{path}: Error - the files have more than {_MAX_ANSWER} characters together; read fewer at once"
        parts.append(f"{path}:\n{text}\n" if left >= 0 else too_long)
    return "\n---\n".join(parts)


@FILES.tool(name="write_file")
def _write_file(app: LiveApp, *, path: str, content: str) -> str:
    write(app, path, content.encode(errors="replace"))
    return f"Successfully wrote to {path}"


@FILES.tool(name="edit_file")
def _edit_file(app: LiveApp, *, path: str, edits: list[Json], dry_run: bool = False) -> str:
    row = find_file(app, path)
    before = (row["data"] or b"").decode(errors="replace").replace("\r\n", "\n")
    after = before
    if len(edits) > _MAX_EDITS:
        raise ToolError(f"Too many edits: {len(edits)}. Make at most {_MAX_EDITS} at once.")
    for edit in edits:
        after = _edited(after, edit["oldText"].replace("\r\n", "\n"), edit["newText"].replace("\r\n", "\n"))
    if not dry_run:
        write(app, path, after.encode(errors="replace"))
    body = "\n".join(_difference(before.split("\n"), after.split("\n")))
    shown = row["path"]
    patch = f"Index: {shown}\n{'=' * 67}\n--- {shown}\toriginal\n+++ {shown}\tmodified\n{body}"
    fence = "```"
    while fence in patch:
        fence += "`"
    return f"{fence}diff\n{patch}\n{fence}\n\n"


def _difference(before: list[str], after: list[str]) -> list[str]:
    """The hunks of a diff. For long files one hunk, from the first line that differs to the last."""
    if max(len(before), len(after)) <= _MAX_DIFF_LINES:
        return list(difflib.unified_diff(before, after, lineterm="", n=_CONTEXT))[2:]
    if before == after:
        return []
    start, end, shorter = 0, 0, min(len(before), len(after))
    while start < shorter and before[start] == after[start]:
        start += 1
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    first, kept = max(0, start - _CONTEXT), min(end, _CONTEXT)
    removed, added = before[start : len(before) - end], after[start : len(after) - end]
    sizes = [start - first + len(changed) + kept for changed in (removed, added)]
    head = f"@@ -{first + 1},{sizes[0]} +{first + 1},{sizes[1]} @@"
    around = [f" {line}" for line in before[first:start]], [f" {line}" for line in before[len(before) - end :][:kept]]
    return [head, *around[0], *(f"-{line}" for line in removed), *(f"+{line}" for line in added), *around[1]]


def _edited(text: str, old: str, new: str) -> str:
    """The text with one edit: an exact match first, else lines that differ only in the white space around them."""
    if old in text:
        return text.replace(old, new, 1)
    wanted, lines = old.split("\n"), text.split("\n")
    bare = _stripped(lines)
    place = bare.find(_stripped(wanted))
    if place < 0:
        raise ToolError(f"Could not find exact match for edit:\n{old[:2000]}")
    start = bare.count("\n", 0, place)
    indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
    first, *rest = new.split("\n")
    return "\n".join([*lines[:start], indent + first.lstrip(), *rest, *lines[start + len(wanted) :]])


def _stripped(lines: list[str]) -> str:
    """Lines without the white space around them, as a text in which whole lines can be found."""
    return "".join(f"\n{line.strip()}" for line in lines) + "\n"


@FILES.tool(name="create_directory")
def _create_directory(app: LiveApp, *, path: str) -> str:
    make_folder(app, path)
    return f"Successfully created directory {path}"


def _mark(row: Json) -> str:
    return "[DIR]" if row["kind"] == "directory" else "[FILE]"


@FILES.tool(name="list_directory")
def _list_directory(app: LiveApp, *, path: str) -> str:
    rows = children(app, find_folder(app, path)["path"])
    return "\n".join(f"{_mark(row)} {posixpath.basename(row['path'])}" for row in rows[:_MOST])


@FILES.tool(name="list_directory_with_sizes")
def _list_directory_with_sizes(app: LiveApp, *, path: str, sort_by: str = "name") -> str:
    rows = children(app, find_folder(app, path)["path"])
    if sort_by == "size":
        rows.sort(key=lambda row: -(row["size"] or 0))
    lines = [
        f"{_mark(row)} {posixpath.basename(row['path']):<30} {_size(row['size'] or 0).rjust(10) if row['kind'] == 'file' else ''}"
        for row in rows[:_MOST]
    ]
    folders = sum(row["kind"] == "directory" for row in rows)
    total = sum(row["size"] or 0 for row in rows)
    return "\n".join([*lines, "", f"Total: {len(rows) - folders} files, {folders} directories", f"Combined size: {_size(total)}"])


def _size(size: int) -> str:
    unit, shown = 0, float(size)
    while shown >= 1024 and unit < len(_UNITS) - 1:
        unit, shown = unit + 1, shown / 1024
    return f"{size} B" if unit == 0 else f"{shown:.2f} {_UNITS[unit]}"


@FILES.tool(name="directory_tree")
def _directory_tree(app: LiveApp, *, path: str, exclude_patterns: list[str] | None = None) -> str:
    root = find_folder(app, path)["path"]
    left = [_MOST]
    excluded = _Globs([option for pattern in exclude_patterns or [] for option in _exclusions(pattern)])

    def listed(folder: str) -> list[Json]:
        found: list[Json] = []
        for row in children(app, folder):
            relative = row["path"][len(root) + 1 :]
            if left[0] <= 0 or excluded.fit(relative):
                continue
            left[0] -= 1
            entry: dict[str, Any] = {"name": posixpath.basename(row["path"]), "type": row["kind"]}
            found.append(entry | ({"children": listed(row["path"])} if row["kind"] == "directory" else {}))
        return found

    return json.dumps(listed(root), indent=2, ensure_ascii=False)


def _exclusions(pattern: str) -> list[str]:
    return [pattern] if "*" in pattern else [pattern, f"**/{pattern}", f"**/{pattern}/**"]


class _Globs:
    """Patterns of one call, and how much work they may still be."""

    def __init__(self, patterns: list[str]) -> None:
        self._patterns = patterns
        self._size = sum(len(pattern) + 1 for pattern in patterns)
        self._left = _MAX_GLOB_WORK

    def fit(self, relative: str) -> bool:
        """True if a path fits one of them; `ToolError` if they are too much work."""
        self._left -= self._size * (len(relative) + 1)
        if self._left < 0:
            raise ToolError("The patterns are too long for this many files. Use shorter or fewer patterns.")
        return any(fits_glob(relative, pattern) for pattern in self._patterns)


@FILES.tool(name="move_file")
def _move_file(app: LiveApp, *, source: str, destination: str) -> str:
    move(app, source, destination)
    return f"Successfully moved {source} to {destination}"


@FILES.tool(name="search_files")
def _search_files(app: LiveApp, *, path: str, pattern: str, exclude_patterns: list[str] | None = None) -> str:
    root = find_folder(app, path)["path"]
    found: list[str] = []
    wanted, excluded = _Globs([pattern]), _Globs(exclude_patterns or [])
    left = [root]
    while left and len(found) < _MOST:
        for row in children(app, left.pop(0)):
            relative = row["path"][len(root) + 1 :]
            if excluded.fit(relative):
                continue
            if wanted.fit(relative):
                found.append(row["path"])
            if row["kind"] == "directory":
                left.append(row["path"])
    return "\n".join(sorted(found)) or "No matches found"


@FILES.tool(name="get_file_info")
def _get_file_info(app: LiveApp, *, path: str) -> str:
    row = find_entry(app, path, "stat")
    folder = row["kind"] == "directory"
    size = 4096 if folder else len(row["data"] or b"")
    facts = {
        "size": size,
        "created": _moment(row["created"]),
        "modified": _moment(row["modified"]),
        "accessed": _moment(row["modified"]),
    }
    facts |= {"isDirectory": str(folder).lower(), "isFile": str(not folder).lower(), "permissions": "755" if folder else "644"}
    return "\n".join(f"{name}: {value}" for name, value in facts.items())


def _moment(text: str) -> str:
    return f"{datetime.fromisoformat(text):%a %b %d %Y %H:%M:%S} GMT+0000 (Coordinated Universal Time)"


@FILES.tool(name="list_allowed_directories")
def _list_allowed_directories(app: LiveApp) -> str:
    _ = app
    return f"Allowed directories:\n{ROOT}"


@FILES.event
def file_arrives(app: LiveApp, path: str, text: str) -> None:
    """A file appears: a colleague saves it, a scan comes in."""
    make_folder(app, posixpath.dirname(resolve(path)))
    write(app, path, text.encode())
