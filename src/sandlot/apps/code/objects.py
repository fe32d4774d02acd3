"""Git's own objects in a database: blobs, trees and commits with the ids that git gives them.

A commit made here is byte for byte the one that git would make, so `write_repository` can hand all of it to the real program, and
`git fsck` agrees. Author dates come from the world's clock. Contents that both sides changed are merged by `git merge-file`.
"""

import hashlib
import heapq
import os
import re
import subprocess
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandlot.apps.live import LiveApp
from sandlot.core.errors import AuthorError, ToolError
from sandlot.core.types import Json

_FOLDER, _FILE = "40000", "100644"
_MAX_DEPTH = 100
"""Names in one path: trees are stored and read one inside the other."""
_MERGE_S = 20
_MAX_WALK = 20_000
QUIET_GIT = {
    "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}
"""The environment of every git that runs here: no configuration, so no hooks, filters or external programs."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One file of a commit."""

    mode: str
    sha: str


Tree = dict[str, TreeEntry]
"""The files of a commit by path."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit as read."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: str
    email: str
    seconds: int
    message: str


def store_object(app: LiveApp, kind: str, data: bytes) -> str:
    """Store an object, once, and return its id."""
    sha = hashlib.sha1(f"{kind} {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()
    if app.one("SELECT 1 FROM object WHERE sha = ?", sha) is None:
        app.insert("object", sha=sha, kind=kind, data=data)
    return sha


def read_object(app: LiveApp, sha: str) -> tuple[str, bytes]:
    """The kind and the bytes of an object; `AuthorError` if the database lacks it."""
    row = app.one("SELECT kind, data FROM object WHERE sha = ?", sha)
    if row is None:
        raise AuthorError(f"git object {sha} is missing")
    return row["kind"], row["data"]


# -- trees --------------------------------------------------------------------------------------------------------------


def read_tree(app: LiveApp, sha: str, prefix: str = "") -> Tree:
    """All files below a tree."""
    found: Tree = {}
    for mode, name, child in _entries(read_object(app, sha)[1]):
        if mode == _FOLDER:
            found |= read_tree(app, child, f"{prefix}{name}/")
        else:
            found[prefix + name] = TreeEntry(mode, child)
    return found


def _entries(data: bytes) -> Iterator[tuple[str, str, str]]:
    place = 0
    while place < len(data):
        end = data.index(b"\0", place)
        mode, _, name = data[place:end].partition(b" ")
        yield mode.decode(), name.decode(errors="surrogateescape"), data[end + 1 : end + 21].hex()
        place = end + 21


def store_tree(app: LiveApp, files: Mapping[str, TreeEntry]) -> str:
    """Store the trees of some files and return the id of the highest."""
    folders: dict[str, dict[str, TreeEntry]] = {}
    entries: dict[str, tuple[str, str]] = {}
    for path, entry in files.items():
        name, slash, rest = path.partition("/")
        if slash:
            folders.setdefault(name, {})[rest] = entry
        else:
            entries[name] = (entry.mode, entry.sha)
    entries |= {name: (_FOLDER, store_tree(app, below)) for name, below in folders.items()}
    ordered = sorted(
        entries.items(), key=lambda each: (each[0] + ("/" if each[1][0] == _FOLDER else "")).encode(errors="surrogateescape")
    )
    data = b"".join(f"{mode} {name}\0".encode(errors="surrogateescape") + bytes.fromhex(sha) for name, (mode, sha) in ordered)
    return store_object(app, "tree", data)


def put_files(app: LiveApp, files: Tree, contents: Mapping[str, bytes]) -> Tree:
    """The files with some written; `ToolError` if one is where a folder is, or a folder would be where a file is."""
    changed = dict(files)
    folders = {folder for path in changed for folder in _folders_above(path)}
    for path, data in contents.items():
        above = _folders_above(path)
        if path in folders or any(folder in changed for folder in above):
            raise ToolError(f"Validation Error: {path} is both a file and a folder")
        folders.update(above)
        mode = changed[path].mode if path in changed else _FILE
        changed[path] = TreeEntry(mode, store_object(app, "blob", data))
    return changed


def _folders_above(path: str) -> list[str]:
    return [path[:place] for place, letter in enumerate(path) if letter == "/"]


def require_path(path: str) -> str:
    """A path in a repository; `ToolError` for one that git or a checkout could be misled by."""
    plain = path.strip("/")
    parts = plain.split("/")
    for part in parts:
        bare = re.sub(r"[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]", "", part).rstrip(". ").lower()
        if (
            part in {"", ".", ".."}
            or bare == ".git"
            or re.fullmatch(r"git~\d+", bare)
            or len(part.encode(errors="replace")) > 255
        ):
            raise ToolError(f"Validation Error: path contains a malformed path component: {path[:100]!r}")
    if len(plain) > 4096 or len(parts) > _MAX_DEPTH or re.search(r"[\0-\x1f\x7f\\:]", plain) or not plain.isprintable():
        raise ToolError(f"Validation Error: path contains a malformed path component: {path[:100]!r}")
    return plain


# -- commits ------------------------------------------------------------------------------------------------------------


def store_commit(
    app: LiveApp, tree: str, parents: tuple[str, ...], message: str, author: tuple[str, str], seconds: int | None = None
) -> str:
    """Store a commit, dated by the world's clock, and return its id."""
    name, email = (re.sub(r"[<>\0-\x1f]", "", part).strip() or "unknown" for part in author)
    stamp = f"{name} <{email}> {int(app.now.timestamp()) if seconds is None else seconds} +0000"
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents), f"author {stamp}", f"committer {stamp}", ""]
    text = message.replace("\0", "").rstrip("\n") + "\n"
    return store_object(app, "commit", ("\n".join(lines) + "\n" + text).encode(errors="replace"))


def read_commit(app: LiveApp, sha: str) -> Commit:
    """A commit by its id."""
    head, _, message = read_object(app, sha)[1].decode(errors="replace").partition("\n\n")
    fields: dict[str, list[str]] = {}
    for line in head.split("\n"):
        name, _, value = line.partition(" ")
        fields.setdefault(name, []).append(value)
    author = re.fullmatch(r"(.*?) ?<([^>]*)> (\d+) [+-]\d{4}", fields["author"][0])
    name, email, seconds = author.groups() if author else ("unknown", "unknown", "0")
    return Commit(sha, fields["tree"][0], tuple(fields.get("parent", ())), name, email, int(seconds), message.rstrip("\n"))


def history(app: LiveApp, sha: str) -> Iterator[Commit]:
    """A commit and those before it, the newest first."""
    first = read_commit(app, sha)
    waiting, seen = [(-first.seconds, 0, first)], {sha}
    for number in range(1, _MAX_WALK):
        if not waiting:
            return
        commit = heapq.heappop(waiting)[2]
        yield commit
        for place, parent in enumerate(commit.parents):
            if parent not in seen:
                seen.add(parent)
                before = read_commit(app, parent)
                heapq.heappush(waiting, (-before.seconds, number * 10 + place, before))


def merge_base(app: LiveApp, one: str, two: str) -> str | None:
    """The newest commit that both have; None if there is none."""
    ours = {commit.sha for commit in history(app, one)}
    return next((commit.sha for commit in history(app, two) if commit.sha in ours), None)


# -- merging ------------------------------------------------------------------------------------------------------------


def merge_trees(app: LiveApp, base: Tree, ours: Tree, theirs: Tree) -> tuple[Tree, list[str]]:
    """Both sides' changes since the base, and the paths where they conflict."""
    merged: Tree = {}
    conflicts: list[str] = []
    for path in sorted({*base, *ours, *theirs}):
        old, one, two = base.get(path), ours.get(path), theirs.get(path)
        chosen = one if two in {one, old} else two if old == one else None
        if chosen is None and one is not None and two is not None:
            chosen = _merge_contents(app, old, one, two)
        if chosen is None and not (one == two or (old == two and one is None) or (old == one and two is None)):
            conflicts.append(path)
        if chosen is not None:
            merged[path] = chosen
    folders = {path[:place] for path in merged for place, letter in enumerate(path) if letter == "/"}
    return merged, sorted({*conflicts, *(folders & merged.keys())})


def _merge_contents(app: LiveApp, old: TreeEntry | None, one: TreeEntry, two: TreeEntry) -> TreeEntry | None:
    """The contents of a file that both sides changed, merged by git; None if they conflict."""
    sides = [read_object(app, each.sha)[1] if each is not None else b"" for each in (one, old, two)]
    if any(b"\0" in side for side in sides):
        return None
    with tempfile.TemporaryDirectory() as folder:
        names = ("ours", "base", "theirs")
        for name, side in zip(names, sides, strict=True):
            (Path(folder) / name).write_bytes(side)
        done = subprocess.run(
            ["git", "merge-file", "-p", "-q", *names],
            cwd=folder,
            env=QUIET_GIT,
            capture_output=True,
            timeout=_MERGE_S,
            check=False,
        )
    if done.returncode < 0 or done.returncode >= 128:
        raise AuthorError(f"git merge-file failed with {done.returncode}: {done.stderr.decode(errors='replace')[:300]}")
    return (
        None
        if done.returncode
        else TreeEntry(two.mode if old and one.mode == old.mode else one.mode, store_object(app, "blob", done.stdout))
    )


# -- real repositories --------------------------------------------------------------------------------------------------


def write_repository(rows: list[Json], refs: Mapping[str, str], folder: Path) -> None:
    """Write objects and branches as a bare repository, for the real git: `rows` of the table `object`, branches by name."""
    subprocess.run(["git", "init", "-q", "--bare", "--template=", str(folder)], env=QUIET_GIT, check=True, timeout=_MERGE_S)
    for row in rows:
        place = folder / "objects" / row["sha"][:2]
        place.mkdir(exist_ok=True)
        data = f"{row['kind']} {len(row['data'])}\0".encode() + row["data"]
        (place / row["sha"][2:]).write_bytes(zlib.compress(data))
    for name, sha in refs.items():
        target = folder / "refs" / "heads" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"{sha}\n")
