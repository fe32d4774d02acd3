"""A tree of files in a database: paths, rights, reading and writing. Nothing here touches a real file.

Paths are made absolute and plain before they are looked up, and must lie under the one folder that the tools may use, so `..`,
`~`
and odd spellings lead nowhere else. There are no links.
"""

import posixpath

from sandlot.apps.app import App
from sandlot.apps.live import LiveApp
from sandlot.apps.recorded import RecordedServer
from sandlot.apps.refusals import sdk_zod4_text
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

ROOT = "/files"
"""The folder that the tools may use."""
SCHEMA = f"""
-- kind: file or directory; data is NULL for a directory
CREATE TABLE entry (path TEXT NOT NULL UNIQUE, parent TEXT NOT NULL, kind TEXT NOT NULL, data BLOB, created TEXT NOT NULL,
  modified TEXT NOT NULL, owner TEXT NOT NULL DEFAULT '');
CREATE INDEX entry_parent ON entry (parent);
-- who may read or write what is below a folder; email `*` is everyone. The nearest folder with rows decides; without any, all
-- may write.
CREATE TABLE access (folder TEXT NOT NULL, email TEXT NOT NULL, level TEXT NOT NULL, UNIQUE (folder, email));
INSERT INTO entry (path, parent, kind, created, modified) VALUES ('{ROOT}', '/', 'directory', '2026-01-01T00:00:00Z',
  '2026-01-01T00:00:00Z');
"""
FILES = App("files", schema=SCHEMA, server=RecordedServer.read("filesystem"), word_issues=sdk_zod4_text, call_s=10.0)
"""Files and folders, as with the public filesystem server."""
MAX_PATH = 4096
MAX_NAME = 255
MAX_DEPTH = 100
"""Names in one path: listings go into folders one inside the other."""
MAX_FILE = 4 * 2**20
"""Bytes of one file."""


def resolve(path: str) -> str:
    """The plain absolute path that a path means; `ToolError` if it is outside of the tree."""
    if "\0" in path or len(path) > MAX_PATH:
        raise ToolError(f"ENAMETOOLONG: name too long or not valid, open '{path[:100]!r}'")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise ToolError("EINVAL: the path is not valid text") from error
    plain = posixpath.normpath(path if path.startswith("/") else posixpath.join(ROOT, path))
    plain = "/" + plain.lstrip("/")
    if plain != ROOT and not plain.startswith(f"{ROOT}/"):
        raise ToolError(f"Access denied - path outside allowed directories: {plain} not in {ROOT}")
    names = plain.split("/")
    if len(plain) > MAX_PATH or len(names) > MAX_DEPTH + 1 or any(len(name.encode()) > MAX_NAME for name in names):
        raise ToolError(f"ENAMETOOLONG: name too long, open '{plain[:100]}'")
    return plain


def require_right(app: LiveApp, path: str, level: str, call: str) -> None:
    """`ToolError` if the actor may not read or write at a path."""
    if not app.actor:
        return
    place: str = path
    while True:
        rows = {row["email"].lower(): row["level"] for row in app.rows("SELECT email, level FROM access WHERE folder = ?", place)}
        if rows:
            mine = {rows.get(app.actor.lower()), rows.get("*")} - {None}
            if not mine or (level == "write" and "write" not in mine):
                raise ToolError(f"EACCES: permission denied, {call} '{path}'")
            return
        if place in {"/", ROOT}:
            return
        place = str(posixpath.dirname(place))


def find_entry(app: LiveApp, path: str, call: str) -> Json:
    """What is at a path; `ToolError` if there is nothing, or nothing that the actor may read."""
    plain = resolve(path)
    row = app.one("SELECT * FROM entry WHERE path = ?", plain)
    if row is None:
        raise ToolError(f"ENOENT: no such file or directory, {call} '{plain}'")
    require_right(app, plain, "read", call)
    return row


def find_file(app: LiveApp, path: str) -> Json:
    """A file; `ToolError` if it is a directory."""
    row = find_entry(app, path, "open")
    if row["kind"] == "directory":
        raise ToolError("EISDIR: illegal operation on a directory, read")
    return row


def find_folder(app: LiveApp, path: str) -> Json:
    """A directory; `ToolError` if it is a file."""
    row = find_entry(app, path, "scandir")
    if row["kind"] != "directory":
        raise ToolError(f"ENOTDIR: not a directory, scandir '{row['path']}'")
    return row


def children(app: LiveApp, folder: str) -> list[Json]:
    """What is in a directory and may be read, by name, without the contents of files."""
    rows = app.rows(
        "SELECT path, kind, length(data) AS size, created, modified, owner FROM entry WHERE parent = ? ORDER BY path", folder
    )
    return [row for row in rows if _readable(app, row["path"])]


def _readable(app: LiveApp, path: str) -> bool:
    return _has_right(app, path, "read")


def may_write(app: LiveApp, path: str) -> bool:
    """True if the actor may write at a path."""
    return _has_right(app, path, "write")


def _has_right(app: LiveApp, path: str, level: str) -> bool:
    try:
        require_right(app, path, level, "stat")
    except ToolError:
        return False
    return True


def write(app: LiveApp, path: str, data: bytes) -> str:
    """Write a file and return its plain path; `ToolError` if its directory does not exist."""
    plain = resolve(path)
    if len(data) > MAX_FILE:
        raise ToolError(f"EFBIG: file too large, write '{plain}'")
    require_right(app, plain, "write", "open")
    row = app.one("SELECT kind FROM entry WHERE path = ?", plain)
    if row is not None and row["kind"] == "directory":
        raise ToolError(f"EISDIR: illegal operation on a directory, open '{plain}'")
    if row is not None:
        app.run("UPDATE entry SET data = ?, modified = ? WHERE path = ?", data, app.at, plain)
        return plain
    parent = posixpath.dirname(plain)
    above = app.one("SELECT kind FROM entry WHERE path = ?", parent)
    if above is None or above["kind"] != "directory":
        raise ToolError(f"ENOENT: no such file or directory, open '{plain}'")
    app.insert("entry", path=plain, parent=parent, kind="file", data=data, created=app.at, modified=app.at, owner=app.actor)
    return plain


def make_folder(app: LiveApp, path: str) -> str:
    """Make a directory, with those above it, and return its plain path; nothing happens if it is there."""
    plain = resolve(path)
    missing: list[str] = []
    place = plain
    while place != ROOT:
        row = app.one("SELECT kind FROM entry WHERE path = ?", place)
        if row is not None:
            if row["kind"] != "directory":
                raise ToolError(f"EEXIST: file already exists, mkdir '{place}'")
            break
        missing.append(place)
        place = str(posixpath.dirname(place))
    for each in reversed(missing):
        require_right(app, each, "write", "mkdir")
        app.insert(
            "entry", path=each, parent=posixpath.dirname(each), kind="directory", created=app.at, modified=app.at, owner=app.actor
        )
    return plain


def move(app: LiveApp, source: str, destination: str) -> None:
    """Move a file or a directory with all that is in it."""
    start, end = resolve(source), resolve(destination)
    call = f"ENOENT: no such file or directory, rename '{start}' -> '{end}'"
    row = app.one("SELECT kind FROM entry WHERE path = ?", start)
    if row is None or start == ROOT:
        raise ToolError(call)
    for path in (start, end):
        require_right(app, path, "write", "rename")
        for folder in _restricted_below(app, path):
            require_right(app, folder, "write", "rename")
    if app.one("SELECT 1 FROM entry WHERE path = ?", end) is not None:
        raise ToolError(f"Destination already exists: {end}")
    if end.startswith(f"{start}/"):
        raise ToolError(f"EINVAL: invalid argument, rename '{start}' -> '{end}'")
    above = app.one("SELECT kind FROM entry WHERE path = ?", posixpath.dirname(end))
    if above is None or above["kind"] != "directory":
        raise ToolError(call)
    app.run("UPDATE entry SET path = ?, parent = ? WHERE path = ?", end, posixpath.dirname(end), start)
    below = app.rows("SELECT path FROM entry WHERE substr(path, 1, ?) = ? ORDER BY path", len(start) + 1, f"{start}/")
    for each in below:
        moved = resolve(end + each["path"][len(start) :])
        app.run("UPDATE entry SET path = ?, parent = ? WHERE path = ?", moved, posixpath.dirname(moved), each["path"])
    _move_rights(app, start, end)


def _move_rights(app: LiveApp, start: str, end: str) -> None:
    """Rights belong to a folder, not to its path. Those of a folder that moves replace any that wait at its new path."""
    for folder in _restricted_below(app, start):
        moved = end + folder[len(start) :]
        app.run("DELETE FROM access WHERE folder = ?", moved)
        app.run("UPDATE access SET folder = ? WHERE folder = ?", moved, folder)


def _restricted_below(app: LiveApp, path: str) -> list[str]:
    """The path itself and the folders below it that have rights of their own, in order."""
    found = app.rows(
        "SELECT DISTINCT folder FROM access WHERE folder = ? OR substr(folder, 1, ?) = ? ORDER BY folder",
        path, len(path) + 1, f"{path}/",
    )  # fmt: skip
    return [row["folder"] for row in found]
