"""Checks of a git repository that the agent left, without running git.

Objects are read from the evidence by this file alone, so nothing that the agent wrote is executed or believed: no hooks, no
configuration, no filters, no replaced objects, no mail map. Every object's hash is verified. `.git` must be a folder with SHA-1
objects, as `git init` makes it. Sizes and counts are limited; what exceeds them makes a check not met.
"""

import hashlib
import posixpath
import re
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sandlot.checks.found import Said, shown
from sandlot.core.errors import NotInEvidence
from sandlot.core.ports.grading import Evidence, absolute_path

_MAX_OBJECT_BYTES = 32 * 2**20
_MAX_TOTAL_BYTES = 256 * 2**20
_MAX_OBJECTS = 20_000
_MAX_ENTRIES = 1_000_000
"""Entries of trees, and parents of commits, that one check looks at in all."""
_MAX_PATH_LENGTH = 4096
_MAX_REFS = 10_000
_MAX_DELTAS = 100
_MAX_TREE_DEPTH = 64
_HASH = re.compile(r"[0-9a-f]{40}")
_KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_OFFSET_DELTA, _NAMED_DELTA = 6, 7
_FOLDER_MODE, _MODULE_MODE = "40000", "160000"


@dataclass(frozen=True, slots=True)
class GitCommit:
    """One commit: its hash, first parents first, author and message."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: str
    email: str
    message: str

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return self.message.strip().partition("\n")[0]


def git_commits(
    evidence: Evidence,
    repo: str,
    *,
    branch: str = "HEAD",
    subjects: Sequence[str] = (),
    since: str | None = None,
    count: int | None = None,
) -> Said:
    """The commits of a branch, newest first, begin with these subjects; `since` leaves out a commit and all before it.

    With `count`, there are exactly that many commits (after `since`).

    >>> git_commits(evidence, "/work/repo", branch="main", subjects=["Fix the total"], count=2)
    (True, '2 commits: Fix the total; Start')
    """
    commits = _Repository(evidence, repo).history(branch, since)
    found = [commit.subject for commit in commits]
    fits = found[: len(subjects)] == list(subjects) and (count is None or count == len(found))
    return fits and (bool(subjects) or count is not None), f"{len(found)} commits: {'; '.join(found[:5])}"[:500]


def git_file(evidence: Evidence, repo: str, path: str, text: str, *, branch: str = "HEAD") -> Said:
    r"""In the last commit of the branch, the file has this text (white space around it ignored).

    >>> git_file(evidence, "/work/repo", "total.txt", "42", branch="main")
    (True, "`total.txt` at `main` holds '42\\n'")
    """
    repository = _Repository(evidence, repo)
    files = repository.files(repository.commit(repository.resolve(branch)).tree)
    if path not in files:
        return False, f"`{path}` is not in the last commit of `{branch}`"
    found = repository.read(files[path], "blob").decode(errors="replace")
    return found.strip() == text.strip(), f"`{path}` at `{branch}` holds {shown(found)}"


def git_contains(evidence: Evidence, repo: str, commit: str, *, branch: str = "HEAD") -> Said:
    """The branch contains the commit: it was merged, or built on.

    >>> git_contains(evidence, "/work/repo", "main", branch="HEAD")[0]
    True
    """
    repository = _Repository(evidence, repo)
    wanted = repository.resolve(commit)
    inside = any(each.id == wanted for each in repository.history(branch))
    return inside, f"`{branch}` {'contains' if inside else 'does not contain'} `{wanted[:12]}`"


def git_clean(evidence: Evidence, repo: str, *, ignore: Sequence[str] = ()) -> Said:
    """The files of the work tree are exactly those of the last commit. Paths below `ignore` are not looked at.

    `.gitignore` is not believed: name what may be left lying about. Line endings and other filters are not applied.

    >>> git_clean(evidence, "/work/repo")
    (True, '1 files are as committed')
    """
    repository = _Repository(evidence, repo)
    committed = repository.files(repository.commit(repository.resolve("HEAD")).tree)
    start = absolute_path(repo).rstrip("/") + "/"
    there = {path.removeprefix(start): path for path in evidence.list(repo) if not path.startswith(start + ".git/")}
    skipped = tuple(f"{each.rstrip('/')}/" for each in ignore)
    names = {name for name in there.keys() | committed.keys() if not f"{name}/".startswith(skipped or ("\0",))}
    wrong = [
        f"`{name}` is {'not committed' if name not in committed else 'deleted' if name not in there else 'changed'}"
        for name in sorted(names)
        if name not in committed or name not in there or _blob_id(evidence.read(there[name])) != committed[name]
    ]
    return not wrong, "; ".join(wrong[:4]) or f"{len(names)} files are as committed"


def git_lacks(evidence: Evidence, repo: str, texts: Sequence[str]) -> Said:
    """None of these texts (such as a password) is in any file or message of any commit of any branch, tag or stash.

    Objects that nothing refers to are not searched: they are not pushed.

    >>> git_lacks(evidence, "/work/repo", ["hunter2"])
    (True, 'none of 1 texts is in 2 commits')
    """
    repository = _Repository(evidence, repo)
    wanted = [text.encode() for text in texts]
    commits = repository.walk({repository.resolve(name) for name in repository.names()})
    if not commits or not wanted:
        raise NotInEvidence(f"`{repo}` has no commits")
    for blob, path in repository.blobs(commit.tree for commit in commits).items():
        data = repository.read(blob, "blob")
        if any(text in data for text in wanted):
            return False, f"a version of `{path}` has one of the texts"
    for commit in commits:
        if any(text in commit.message.encode() for text in wanted):
            return False, f"the message of `{commit.id[:12]}` has one of the texts"
    return True, f"none of {len(wanted)} texts is in {len(commits)} commits"


class _Repository:
    """The objects and names below `.git` of the evidence."""

    def __init__(self, evidence: Evidence, repo: str) -> None:
        self.root = posixpath.join(absolute_path(repo), ".git")
        self.paths = {path.removeprefix(self.root + "/"): path for path in evidence.list(self.root)}
        if "HEAD" not in self.paths:
            raise NotInEvidence(f"`{repo}` is not a git repository: there is no `.git/HEAD`")
        self.evidence = evidence
        self.loose = {
            name[8:10] + name[11:]: name for name in self.paths if re.fullmatch(r"objects/[0-9a-f]{2}/[0-9a-f]{38}", name)
        }
        self.packs = [
            (name.removesuffix(".idx"), _index(evidence.read(path)))
            for name, path in sorted(self.paths.items())
            if re.fullmatch(r"objects/pack/[\w-]+\.idx", name) and name.removesuffix(".idx") + ".pack" in self.paths
        ]
        self.seen: dict[str, tuple[str, bytes]] = {}
        self.total_bytes = 0
        self.num_entries = 0

    def names(self) -> list[str]:
        """Every branch, tag, remote branch and stash, and HEAD."""
        named = {
            name: None
            for name in (*self.paths, *self._packed)
            if name.startswith("refs/") and not name.startswith("refs/replace/")
        }
        if len(named) > _MAX_REFS:
            raise NotInEvidence(f"the repository has more than {_MAX_REFS:,} branches and tags", kind="cut")
        return ["HEAD", *named]

    def resolve(self, name: str, steps: int = 0) -> str:
        """The hash of the commit that a name stands for."""
        if _HASH.fullmatch(name):
            return self._peeled(name)
        for full in (name, f"refs/heads/{name}", f"refs/tags/{name}", f"refs/remotes/{name}"):
            if full in self.paths:
                text = self.evidence.read_text(self.paths[full]).strip()
            elif full in self._packed:
                text = self._packed[full]
            else:
                continue
            if text.startswith("ref: ") and steps < _MAX_TREE_DEPTH:
                return self.resolve(text.removeprefix("ref: ").strip(), steps + 1)
            if _HASH.fullmatch(text):
                return self._peeled(text)
        raise NotInEvidence(f"the repository has no branch or tag `{name[:80]}`, or it has no commit")

    def history(self, name: str, since: str | None = None) -> list[GitCommit]:
        """A commit and all before it, newest first along first parents; without `since` and what it contains."""
        left_out = {commit.id for commit in self.history(since)} if since is not None else set[str]()
        return self.walk([self.resolve(name)], left_out)

    def walk(self, tips: Iterable[str], left_out: Collection[str] = ()) -> list[GitCommit]:
        """These commits and all before them, each once."""
        waiting, found = list(tips), dict[str, GitCommit]()
        while waiting:
            commit = waiting.pop()
            if commit in found or commit in left_out:
                continue
            found[commit] = self.commit(commit)
            self._count(len(found[commit].parents))
            waiting += reversed(found[commit].parents)
            if len(found) > _MAX_OBJECTS:
                raise NotInEvidence(f"the repository has more than {_MAX_OBJECTS:,} commits", kind="cut")
        return list(found.values())

    def commit(self, name: str) -> GitCommit:
        text = self.read(name, "commit").decode(errors="replace")
        head, _, message = text.partition("\n\n")
        lines = [line.partition(" ") for line in head.split("\n")]
        tree = next((value for word, _, value in lines if word == "tree"), "")
        parents = tuple(value for word, _, value in lines if word == "parent")
        author = re.match(r"(.*?) ?<([^<>]*)>", next((value for word, _, value in lines if word == "author"), ""))
        return GitCommit(name, tree, parents, author[1] if author else "", author[2] if author else "", message)

    def files(self, tree: str) -> dict[str, str]:
        """Path -> blob of all files below a tree."""
        found: dict[str, str] = {}
        waiting = [("", tree, 0)]
        while waiting:
            folder, inside, depth = waiting.pop()
            for path, entry, is_folder in self._listed(folder, inside, depth):
                if is_folder:
                    waiting.append((f"{path}/", entry, depth + 1))
                else:
                    found[path] = entry
            if len(found) > _MAX_OBJECTS:
                raise NotInEvidence(f"a commit has more than {_MAX_OBJECTS:,} files", kind="cut")
        return found

    def blobs(self, trees: Iterable[str]) -> dict[str, str]:
        """Blob -> one of its paths, of all files below these trees. A tree that is in many commits is read once."""
        found: dict[str, str] = {}
        seen: set[str] = set()
        waiting = [("", tree, 0) for tree in trees]
        while waiting:
            folder, inside, depth = waiting.pop()
            if inside in seen:
                continue
            seen.add(inside)
            for path, entry, is_folder in self._listed(folder, inside, depth):
                if not is_folder:
                    found[entry] = path
                elif entry not in seen:
                    waiting.append((f"{path}/", entry, depth + 1))
            if len(found) > _MAX_OBJECTS:
                raise NotInEvidence(f"the repository has more than {_MAX_OBJECTS:,} versions of files", kind="cut")
        return found

    def _listed(self, folder: str, tree: str, depth: int) -> Iterator[tuple[str, str, bool]]:
        """Path and hash of each entry of a tree, and whether it is a folder; submodules are left out."""
        if depth > _MAX_TREE_DEPTH:
            raise NotInEvidence("the repository has folders nested too deeply", kind="cut")
        for mode, name, entry in _entries(self.read(tree, "tree")):
            self._count(1)
            if len(folder) + len(name) > _MAX_PATH_LENGTH:
                raise NotInEvidence(f"the repository has a path of more than {_MAX_PATH_LENGTH:,} characters", kind="cut")
            if mode != _MODULE_MODE:
                yield folder + name, entry, mode == _FOLDER_MODE

    def _count(self, entries: int) -> None:
        self.num_entries += entries
        if self.num_entries > _MAX_ENTRIES:
            raise NotInEvidence(f"the commits and folders of the repository have more than {_MAX_ENTRIES:,} entries", kind="cut")

    def read(self, name: str, kind: str) -> bytes:
        """The content of an object of this kind, its hash verified."""
        found, data = self._verified(name)
        if found != kind:
            raise NotInEvidence(f"the object `{name}` is a {found}, not a {kind}")
        return data

    def _verified(self, name: str) -> tuple[str, bytes]:
        """The kind and content of an object. It is read once."""
        if name not in self.seen:
            found, data = self._load(name)
            self.total_bytes += len(data)
            if self.total_bytes > _MAX_TOTAL_BYTES or len(self.seen) > _MAX_OBJECTS:
                raise NotInEvidence("the repository is too large to check", kind="cut")
            if hashlib.sha1(f"{found} {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest() != name:
                raise NotInEvidence(f"the object `{name}` of the repository is damaged")
            self.seen[name] = found, data
        return self.seen[name]

    def _peeled(self, name: str) -> str:
        """The commit that a tag object stands for; a commit is itself."""
        for _ in range(_MAX_TREE_DEPTH):
            kind, data = self._verified(name)
            if kind != "tag":
                return name
            inner = re.match(rb"object ([0-9a-f]{40})\n", data)
            name = inner[1].decode() if inner else ""
        raise NotInEvidence("a tag of the repository leads nowhere")

    @cached_property
    def _packed(self) -> Mapping[str, str]:
        if "packed-refs" not in self.paths:
            return {}
        text = self.evidence.read_text(self.paths["packed-refs"])
        if text.count("\n") > 2 * _MAX_REFS:  # a tag has a second line
            raise NotInEvidence(f"the repository has more than {_MAX_REFS:,} branches and tags", kind="cut")
        return {line[41:].strip(): line[:40] for line in text.splitlines() if _HASH.match(line) and line[40:41] == " "}

    def _load(self, name: str) -> tuple[str, bytes]:
        if name in self.loose:
            data = _inflate(self.evidence.read(self.paths[self.loose[name]]))
            head, _, body = data.partition(b"\0")
            return head.partition(b" ")[0].decode(errors="replace"), body
        for pack, index in self.packs:
            if name in index:
                return self._unpack(pack, index, index[name], 0)
        raise NotInEvidence(f"the repository has no object `{name[:40]}`")

    def _unpack(self, pack: str, index: Mapping[str, int], offset: int, deltas: int) -> tuple[str, bytes]:
        data = self.evidence.read(self.paths[f"{pack}.pack"])
        if deltas > _MAX_DELTAS or not 0 < offset < len(data):
            raise NotInEvidence("a pack of the repository is damaged")
        kind, place = data[offset] >> 4 & 7, offset
        while data[place] & 0x80 and place - offset < 10 and place + 1 < len(data):
            place += 1
        place += 1
        if kind in _KINDS:
            return _KINDS[kind], _inflate(data[place:])
        if kind == _OFFSET_DELTA:
            back, place = _back(data, place)
            base = self._unpack(pack, index, offset - back, deltas + 1)
        elif kind == _NAMED_DELTA:
            base = self._unpack(pack, index, index.get(data[place : place + 20].hex(), -1), deltas + 1)
            place += 20
        else:
            raise NotInEvidence("a pack of the repository is damaged")
        return base[0], _apply_delta(base[1], _inflate(data[place:]))


def _inflate(data: bytes) -> bytes:
    try:
        stream = zlib.decompressobj()
        found = stream.decompress(data, _MAX_OBJECT_BYTES)
    except zlib.error as error:
        raise NotInEvidence(f"an object of the repository is damaged: {error}") from error
    if not stream.eof and (stream.unconsumed_tail or len(found) >= _MAX_OBJECT_BYTES):
        raise NotInEvidence(f"an object of the repository has more than {_MAX_OBJECT_BYTES >> 20} MiB", kind="cut")
    return found


def _index(data: bytes) -> dict[str, int]:
    """Hash -> offset, of a pack index of version 2. Packs of 2 GiB and more are not read."""
    if data[:8] != b"\xfftOc\0\0\0\x02" or len(data) < 1032:
        raise NotInEvidence("a pack index of the repository is not of version 2")
    (count,) = struct.unpack_from(">I", data, 8 + 255 * 4)
    if count > _MAX_OBJECTS * 5 or len(data) < 1032 + count * 28:
        raise NotInEvidence("a pack of the repository has too many objects", kind="cut")
    offsets = struct.unpack_from(f">{count}I", data, 1032 + count * 24)
    return {data[1032 + 20 * place : 1052 + 20 * place].hex(): offset for place, offset in enumerate(offsets)}


def _back(data: bytes, place: int) -> tuple[int, int]:
    """How far back the base of a delta begins, and where the delta itself does."""
    value = 0
    for step in range(10):
        byte = data[place + step] if place + step < len(data) else 0
        value = (value + (1 if step else 0) << 7 if step else 0) | byte & 0x7F
        if not byte & 0x80:
            return value, place + step + 1
    raise NotInEvidence("a pack of the repository is damaged")


def _size(delta: bytes, place: int) -> tuple[int, int]:
    value = 0
    for step in range(10):
        byte = delta[place + step] if place + step < len(delta) else 0
        value |= (byte & 0x7F) << 7 * step
        if not byte & 0x80:
            return value, place + step + 1
    raise NotInEvidence("a pack of the repository is damaged")


def _apply_delta(base: bytes, delta: bytes) -> bytes:
    """The object that a delta makes from its base."""
    before, place = _size(delta, 0)
    after, place = _size(delta, place)
    if before != len(base) or after > _MAX_OBJECT_BYTES:
        raise NotInEvidence("a pack of the repository is damaged")
    made = bytearray()
    while place < len(delta) and len(made) <= after:
        code = delta[place]
        place += 1
        if code & 0x80:
            fields = [0] * 7
            for bit in range(7):
                if code & 1 << bit and place < len(delta):
                    fields[bit] = delta[place]
                    place += 1
            start = int.from_bytes(bytes(fields[:4]), "little")
            length = int.from_bytes(bytes(fields[4:]), "little") or 0x10000
            made += base[start : start + length]
        elif code:
            made += delta[place : place + code]
            place += code
        else:
            break
    if len(made) != after:
        raise NotInEvidence("a pack of the repository is damaged")
    return bytes(made)


def _entries(data: bytes) -> Iterator[tuple[str, str, str]]:
    """Mode, name and hash of each entry of a tree."""
    place = 0
    while place < len(data):
        end = data.find(b"\0", place)
        mode, _, name = data[place:end].partition(b" ")
        if end < 0 or len(data) < end + 21:
            raise NotInEvidence("a tree of the repository is damaged")
        yield mode.decode(errors="replace").lstrip("0"), name.decode(errors="replace"), data[end + 1 : end + 21].hex()
        place = end + 21


def _blob_id(data: bytes) -> str:
    return hashlib.sha1(f"blob {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()
