"""Serves Debian and Python packages to a sandbox that has no network, while an image is built.

Programs inside reach a port of their own loopback. The host answers with packages from the mirror of its apt and the indexes of
its pip, and with nothing else: every other address is refused, and the refused hosts are reported.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import anyio
import anyio.to_thread

from sandlot.core.ports.sandbox import Stream
from sandlot.sandbox.program import cache_folder

PORT = 3142
ADDRESS = f"http://127.0.0.1:{PORT}"
_MAX_REQUEST_BYTES = 64 << 10
_MAX_PACKAGE_BYTES = 2 << 30
_PIECE = 1 << 20
_IDLE_S = 60.0
_FETCH_S = 120.0
_KEPT = (".deb", ".whl", ".tar.gz", ".zip", ".metadata")
"""Files that never change under their name: kept in the cache."""
_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}\Z")
_DEBIAN_PATH = re.compile(r"(dists|pool)/[A-Za-z0-9+._~%:/-]+\Z")


class PackageServer:
    """Answers the requests of one build."""

    def __init__(self) -> None:
        self.refused: dict[str, None] = {}
        """Hosts that were asked for and refused, in order."""
        self._files: dict[str, str] = {}
        self._mirror, self._indexes, self._folders = "", list[str](), list[Path]()

    async def open(self) -> None:
        """Find the sources of this machine's apt and pip."""
        self._mirror = await anyio.to_thread.run_sync(_debian_mirror)
        self._indexes, self._folders = await anyio.to_thread.run_sync(_python_indexes)

    async def serve(self, connections: AsyncIterator[Stream]) -> None:
        """Answer every connection until there are no more."""
        async with anyio.create_task_group() as tasks:
            async for connection in connections:
                tasks.start_soon(self._answer, connection)

    async def _answer(self, stream: Stream) -> None:
        try:
            with anyio.fail_after(_IDLE_S):
                request = await _read_request(stream)
            method, _, target = request.partition(" ")
            target = target.partition(" ")[0]
            status, body = await self._reply(method, target)
            await _send(stream, status, body, head=method == "HEAD")
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
            pass  # the program inside went away
        finally:
            with anyio.move_on_after(5, shield=True):
                await stream.aclose()

    async def _reply(self, method: str, target: str) -> tuple[int, bytes | Path]:
        if method not in {"GET", "HEAD"} or not target.startswith("/"):
            host = urllib.parse.urlsplit(target if "//" in target else f"//{target}").hostname or target[:100]
            self.refused[host] = None
            return 403, f"an image is built without a network; `{host}` cannot be reached\n".encode()
        _, _, path = target.partition("/")
        kind, _, rest = path.partition("/")
        try:
            if kind == "debian" and _DEBIAN_PATH.match(rest) and ".." not in urllib.parse.unquote(rest):
                return 200, await anyio.to_thread.run_sync(_fetch, self._mirror.rstrip("/") + "/" + rest)
            if kind == "simple" and _PROJECT.match(rest.rstrip("/")):
                return 200, await anyio.to_thread.run_sync(self._page, rest.rstrip("/"))
            if kind == "file" and path in self._files:
                return 200, await anyio.to_thread.run_sync(_fetch, self._files[path])
        except (OSError, ValueError) as error:
            return (404 if isinstance(error, urllib.error.HTTPError | FileNotFoundError) else 502), f"{error}\n".encode()
        return 404, b"there is no such package\n"

    def _page(self, project: str) -> bytes:
        """The links to all files of a project, from every index, led through this server."""
        name = re.sub(r"[-_.]+", "-", project).lower()
        links: list[str] = []
        for folder in self._folders:
            links += [self._link(path.as_uri(), {}) for path in folder.iterdir() if _project_of(path.name) == name]
        for index in self._indexes:
            page = f"{index.rstrip('/')}/{name}/"
            try:
                text = _read_page(page)
            except (OSError, ValueError):
                continue
            links += [self._link(urllib.parse.urljoin(page, link.pop("href")), link) for link in _Links.of(text)]
        if not links:
            raise FileNotFoundError(f"no package `{name}`")
        return ("<!DOCTYPE html><html><body>\n" + "\n".join(links) + "\n</body></html>\n").encode()

    def _link(self, address: str, attributes: dict[str, str]) -> str:
        where, _, fragment = address.partition("#")
        name = urllib.parse.unquote(where.rpartition("/")[2])
        path = f"file/{hashlib.sha256(where.encode()).hexdigest()[:24]}/{name}"
        self._files[path] = where
        kept = {key: value for key, value in attributes.items() if key in {"data-requires-python", "data-yanked"}}
        marks = "".join(f' {key}="{escape(value)}"' for key, value in kept.items())
        return f'<a href="/{escape(path)}{"#" + escape(fragment) if fragment else ""}"{marks}>{escape(name)}</a><br>'


class _Links(HTMLParser):
    """The links of an index page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {key: value or "" for key, value in attrs}
        if tag == "a" and "href" in attributes:
            self.found.append(attributes)

    @classmethod
    def of(cls, text: str) -> list[dict[str, str]]:
        parser = cls()
        parser.feed(text)
        return parser.found


def _project_of(file: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"-\d", file)[0]).lower()


async def _read_request(stream: Stream) -> str:
    """The first line of a request; the headers are read and dropped."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = await stream.receive()
        if not piece or len(data) > _MAX_REQUEST_BYTES:
            raise OSError("not a request")
        data += piece
    return data.split(b"\r\n", 1)[0].decode("latin-1")


async def _send(stream: Stream, status: int, body: bytes | Path, *, head: bool) -> None:
    size = len(body) if isinstance(body, bytes) else (await anyio.Path(body).stat()).st_size
    kind = "text/html" if isinstance(body, bytes) else "application/octet-stream"
    words = {200: "OK", 403: "Forbidden", 404: "Not Found"}.get(status, "Bad Gateway")
    lines = [f"HTTP/1.1 {status} {words}", f"Content-Length: {size}", f"Content-Type: {kind}", "Connection: close"]
    await stream.send(("\r\n".join(lines) + "\r\n\r\n").encode())
    if head:
        return
    if isinstance(body, bytes):
        await stream.send(body)
        return
    with body.open("rb") as file:
        while piece := await anyio.to_thread.run_sync(file.read, _PIECE):
            await stream.send(piece)


def _read_page(address: str) -> str:
    place = urllib.parse.urlsplit(address)
    if place.scheme == "file":
        return (Path(urllib.parse.unquote(place.path)) / "index.html").read_text()
    with urllib.request.urlopen(address, timeout=_FETCH_S) as answer:  # noqa: S310 - an index of this machine's own pip
        return answer.read(256 << 20).decode()


def _fetch(address: str) -> Path:
    """A file of a mirror or an index, from the cache where it may be kept."""
    place = urllib.parse.urlsplit(address)
    if place.scheme == "file":
        return Path(urllib.parse.unquote(place.path))
    folder = cache_folder() / "downloads"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / hashlib.sha256(address.encode()).hexdigest()
    if target.is_file() and address.endswith(_KEPT):
        return target
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        draft = Path(scratch) / "file"
        with urllib.request.urlopen(address, timeout=_FETCH_S) as answer, draft.open("wb") as file:  # noqa: S310 - as above
            while piece := answer.read(_PIECE):
                file.write(piece)
                if file.tell() > _MAX_PACKAGE_BYTES:
                    raise OSError(f"{address}: more than {_MAX_PACKAGE_BYTES:,} bytes")
        draft.replace(target)
    return target


def _debian_mirror() -> str:
    """The mirror that this machine's apt uses for its own release; it has the other releases too."""
    columns = "$(CREATED_BY) $(COMPONENT) $(CODENAME) $(REPO_URI)"
    done = subprocess.run(["apt-get", "indextargets", "--format", columns], capture_output=True, text=True, check=False)  # noqa: S603, S607
    rows = [line.split(" ", 3) for line in done.stdout.splitlines()]
    found = [row[3] for row in rows if row[:2] == ["Packages", "main"] and "-" not in row[2]]
    return found[0] if found else ""


_ASK_PIP = """
import json
from pip._internal.configuration import Configuration
from pip._internal.models.index import PyPI
known = Configuration(isolated=False)
known.load()
values = {}
for key, value in known.items():
    values[key.rpartition(".")[2]] = value
print(json.dumps([values.get("index-url", PyPI.simple_url), values.get("extra-index-url", ""), values.get("find-links", "")]))
"""


def _python_indexes() -> tuple[list[str], list[Path]]:
    """The indexes and folders of this machine's pip, with its default if none is set."""
    for program in (sys.executable, "python3"):
        done = subprocess.run([program, "-c", _ASK_PIP], capture_output=True, text=True, check=False, env=dict(os.environ))  # noqa: S603
        if done.returncode == 0:
            index, more, links = json.loads(done.stdout)
            folders = [Path(each) for each in links.split() if Path(each).is_dir()]
            return [index, *more.split()], folders
    return [], []
