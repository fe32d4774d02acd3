"""The files of a commit in a git directory that somebody else wrote.

Objects are read with `git ls-tree` and `git cat-file`: neither runs hooks or filters. No protocol is allowed and no missing
object is fetched, so that nothing the directory's own configuration names is executed (a remote may be `ext::sh -c ...`).
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from sandlot.core.errors import ConfigError

MAX_FILES = 20_000
MAX_BYTES = 512 * 2**20
_MAX_FILE_BYTES = 4 * 2**20
_TIMEOUT_S = 300
_COMMIT = re.compile(r"[0-9a-f]{7,40}\Z")
_REPO = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_SAFE = ("-c", "protocol.allow=never", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*")


def find_repository(folder: Path, repo: str) -> Path:
    """The git directory of `owner/name` in a folder of them, by one of the usual names."""
    if not _REPO.fullmatch(repo):
        raise ConfigError(f"repository {repo!r}: write `owner/name`")
    owner, _, name = repo.rpartition("/")
    places = [f"{owner}__{name}", f"{owner}+{name}/repo", f"{owner}+{name}", f"{owner}/{name}", name] if owner else [name]
    for place in places:
        for path in (folder / place, folder / f"{place}.git", folder / place / ".git"):
            if (path / "HEAD").is_file() and (path / "objects").is_dir():
                return path
    raise ConfigError(
        f"no git directory of `{repo}` in `{folder}`; it is looked for as {', '.join(f'`{each}`' for each in places)}"
    )


def commit_files(git: Path, commit: str) -> dict[str, bytes]:
    """The regular files of a commit by path. Links and submodules are left out, as are very large files.

    A clone that was made without large files lacks their objects: those are left out too, if they are no Python.
    """
    if not _COMMIT.match(commit):
        raise ConfigError(f"commit {commit!r}: give its hash")
    blobs = list(_listed(git, commit))
    if len(blobs) > MAX_FILES:
        raise ConfigError(f"commit {commit[:12]} has {len(blobs):,} files; at most {MAX_FILES:,} are read")
    if sum(size for _, _, size in blobs) > MAX_BYTES:
        raise ConfigError(f"commit {commit[:12]} has more than {MAX_BYTES >> 20} MiB")
    names = "".join(f"{blob}\n" for _, blob, _ in blobs)
    data, place = _git(git, "cat-file", "--batch", stdin=names.encode()), 0
    files: dict[str, bytes] = {}
    for path, blob, size in blobs:
        head, _, _ = data[place : place + 200].partition(b"\n")
        if head.split() != [blob.encode(), b"blob", str(size).encode()]:
            raise ConfigError(f"commit {commit[:12]}: the object of `{path}` is not in the git directory")
        start = place + len(head) + 1
        files[path] = data[start : start + size]
        place = start + size + 1
    return files


def _listed(git: Path, commit: str) -> Iterator[tuple[str, str, int]]:
    for entry in _git(git, "ls-tree", "-r", "-z", "-l", commit).split(b"\0"):
        about, _, path = entry.partition(b"\t")
        mode, kind, blob, size = (*about.split(), b"", b"", b"", b"")[:4]
        name = path.decode(errors="replace")
        if kind != b"blob" or mode not in {b"100644", b"100755"} or not name.isprintable():
            continue
        if name.startswith("/") or {"..", ".", "", ".git"} & set(name.split("/")):
            raise ConfigError(f"commit {commit[:12]}: its file {name!r} would be outside of its folder")
        if not size.isdigit() and name.endswith(".py"):  # git writes `BAD` for an object that is not there
            raise ConfigError(f"commit {commit[:12]}: the object of `{name}` is not in the git directory")
        if size.isdigit() and int(size) <= _MAX_FILE_BYTES:
            yield name, blob.decode(), int(size)


def _git(git: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    environ = {
        "PATH": os.environ.get("PATH", ""),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ALLOW_PROTOCOL": "none",  # before the configuration's own `protocol.NAME.allow`
        "GIT_NO_LAZY_FETCH": "1",
        "HOME": "/nonexistent",
    }
    command = ["git", f"--git-dir={git.absolute()}", *_SAFE, *arguments]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=_TIMEOUT_S, env=environ)  # noqa: S603
    except FileNotFoundError as error:
        raise ConfigError("`git` is not installed; `apt-get install git`") from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"`git {arguments[0]}` in `{git}` took more than {_TIMEOUT_S} s") from error
    if done.returncode:
        raise ConfigError(f"`git {arguments[0]}` in `{git}`: {done.stderr.decode(errors='replace').strip()[-300:]}")
    return done.stdout
