"""The calls of the Docker Engine API that sandboxes need, typed, over the engine's unix socket.

The `docker` command and client libraries are not used: they cost more than the calls. Ordinary calls go through aiohttp; `attach`
turns a connection of its own into the raw streams of a process. Every call has a deadline. A call that the engine refuses raises
`SandboxError` with the engine's message.
"""

import errno
import os
import socket
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import anyio
import msgspec

from sandlot.core.concurrency.clock import deadline
from sandlot.core.errors import ConfigError, SandboxError
from sandlot.sandbox.docker.attached import AttachedStream

_DEFAULT_SOCKET = "/var/run/docker.sock"
_CALL_S = 60.0
"""Longest time of one call; a busy engine starts a sandbox in a second or two."""

_ANSWER_BYTES = 256 << 20
_HEAD_BYTES = 64 << 10
_DYING_S = 5.0
_CONNECTIONS = 128

_T = TypeVar("_T")


class _Reply(msgspec.Struct, frozen=True, rename="pascal"):
    """A reply of the engine; fields that it leaves out have defaults."""


class DockerVersion(_Reply, frozen=True):
    """The version of the engine and of its API."""

    api_version: str
    version: str = ""
    os: str = "linux"


class DockerInfo(_Reply, frozen=True):
    """Features of the engine and of the machine it runs on."""

    driver: str = ""
    security_options: list[str] | None = None
    memory_limit: bool = False
    cpu_cfs_quota: bool = False
    pids_limit: bool = False
    cgroup_version: str = "1"
    default_runtime: str = "runc"


class ImageConfig(_Reply, frozen=True):
    """What an image sets for its processes."""

    env: list[str] | None = None
    user: str | None = None
    working_dir: str | None = None
    volumes: dict[str, Any] | None = None


class DockerImage(_Reply, frozen=True):
    """An image of the engine."""

    id: str
    os: str = "linux"
    architecture: str = ""
    config: ImageConfig | None = None
    repo_tags: list[str] | None = None
    labels: dict[str, str] | None = None


class _Created(_Reply, frozen=True):
    id: str


class _Container(_Reply, frozen=True):
    """A container of the engine, running or not."""

    id: str
    labels: dict[str, str] | None = None


class _GraphDriver(_Reply, frozen=True):
    data: dict[str, str] | None = None


class _Inspected(_Reply, frozen=True):
    graph_driver: _GraphDriver | None = None


class _ChangedPath(_Reply, frozen=True):
    path: str


class _Actor(_Reply, frozen=True):
    attributes: dict[str, str] = {}


class _DockerEvent(msgspec.Struct, frozen=True):
    action: str = msgspec.field(default="", name="Action")
    actor: _Actor = msgspec.field(default_factory=_Actor, name="Actor")


class _Refusal(msgspec.Struct, frozen=True):
    message: str = ""


class DockerApi:
    """A running engine. Get one from `open_docker_api`."""

    def __init__(self, session: aiohttp.ClientSession, path: str, version: DockerVersion) -> None:
        self._session = session
        self.path = path
        self.version = version

    async def info(self) -> DockerInfo:
        """Features of the engine and of the machine it runs on."""
        return await self._get("/info", DockerInfo)

    async def image(self, name: str) -> DockerImage | None:
        """An image by name or id; None if the engine has none."""
        data = await self._call("GET", f"/images/{quote(name)}/json", fine=(404,))
        return None if data is None else _decode(data, DockerImage)

    async def images(self, label: str | None = None) -> list[DockerImage]:
        """All images, or those with a label."""
        return await self._get("/images/json", list[DockerImage], {"filters": _filters(label)})

    async def create(self, config: Mapping[str, Any]) -> str:
        """Create a container and return its id."""
        data = await self._call("POST", "/containers/create", body=config)
        return _decode(data or b"", _Created).id

    async def start(self, container: str) -> None:
        """Start the process of a container."""
        await self._call("POST", f"/containers/{container}/start")

    async def containers(self, label: str) -> list[_Container]:
        """The containers with a label, running or not."""
        return await self._get("/containers/json", list[_Container], {"all": "1", "filters": _filters(label)})

    async def wait_removed(self, container: str) -> None:
        """Wait until the engine has removed a container, which it does by itself when the process has ended."""
        await self._call("POST", f"/containers/{container}/wait", {"condition": "removed"}, fine=(404,))

    async def was_out_of_memory(self, container: str) -> bool:
        """True if the kernel killed the first process of an ended container because its memory ran out."""
        with anyio.move_on_after(_DYING_S):
            await self.wait_removed(container)
        asked = {
            "since": "0",
            "until": str(int(time.time()) + 1),  # up to two seconds until the engine answers
            "filters": msgspec.json.encode({"container": [container], "event": ["oom", "die"]}).decode(),
        }
        lines = (await self._call("GET", "/events", asked) or b"").splitlines()
        happened = [_decode(line, _DockerEvent) for line in lines if line.strip()]
        killed = any(each.action == "die" and each.actor.attributes.get("exitCode") == "137" for each in happened)
        return killed and any(each.action == "oom" for each in happened)

    async def remove(self, container: str) -> None:
        """Kill a container if it runs, and remove it with its files."""
        await self._call("DELETE", f"/containers/{container}", {"force": "1", "v": "1"}, fine=(404, 409))

    async def changed_paths(self, container: str) -> list[str]:
        """Every path that was added, changed or deleted on top of the image; names as in `json_name`."""
        data = await self._call("GET", f"/containers/{container}/changes") or b""
        return [change.path for change in _decode(b"[]" if data.strip() == b"null" else data, list[_ChangedPath])]

    async def upper_folder(self, container: str) -> str | None:
        """The folder on the engine's machine with everything a container wrote; None if the storage driver has none."""
        driver = (await self._get(f"/containers/{container}/json", _Inspected)).graph_driver
        return ((driver and driver.data) or {}).get("UpperDir")

    async def commit(self, container: str) -> str:
        """Make an image from a container's files and labels; returns the image's id."""
        data = await self._call("POST", "/commit", {"container": container, "pause": "0"}, body={})
        return _decode(data or b"", _Created).id

    async def remove_image(self, image: str) -> bool:
        """Remove an image, but not its parents, which others may use; False while it is in use itself."""
        answer = await self._call("DELETE", f"/images/{quote(image)}", {"force": "1", "noprune": "1"}, fine=(404, 409))
        return answer is not None or await self.image(image) is None

    async def attach(self, container: str) -> AttachedStream:
        """The input and output of a container's process. Attach before `start`, so that no output is missed."""
        path = self._url(f"/containers/{container}/attach", {"stream": "1", "stdin": "1", "stdout": "1"})
        head = f"POST {path} HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n"
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)  # noqa: FBT003 - the socket module's own signature
        try:
            with self._bounded("attach"):
                await _connect(sock, self.path)
                sock.send(head.encode())  # far smaller than a fresh socket's buffer
                answer, rest = await _read_head(sock)
        except BaseException:
            sock.close()
            raise
        if answer.split(b" ", 2)[1:2] not in ([b"101"], [b"200"]):
            sock.close()
            raise SandboxError(f"the engine refused to attach: {(answer + rest)[:500].decode(errors='replace')}", kind="start")
        return AttachedStream(sock, rest)

    async def _get(self, path: str, kind: type[_T], query: Mapping[str, str] | None = None) -> _T:
        return _decode(await self._call("GET", path, query) or b"", kind)

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Mapping[str, Any] | None = None,
        fine: Sequence[int] = (),
    ) -> bytes | None:
        """The body of the reply; None if the status is one of `fine`."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        data = None if body is None else msgspec.json.encode(body)
        url = "http://engine" + self._url(path, query or {})
        with self._bounded(f"{method} {path}"):
            async with self._session.request(method, url, data=data, headers=headers) as response:
                answer = await _read_body(response)
        if response.status in fine:
            return None
        if response.status >= 400:
            said = _error_message(answer)
            raise SandboxError(f"the engine refused {method} {path} ({response.status}): {said}", kind="engine")
        return answer

    def _url(self, path: str, query: Mapping[str, str]) -> str:
        asked = f"?{urlencode(query)}" if query else ""
        return f"/v{self.version.api_version}{path}{asked}"

    def _bounded(self, what: str) -> AbstractContextManager[Any]:
        return deadline(_CALL_S, SandboxError, f"the engine at {self.path}: {what}")


def _decode(data: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise SandboxError(f"the engine's reply does not match its API: {error}", kind="engine") from error


def _error_message(answer: bytes) -> str:
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(answer, type=_Refusal).message[:1000]
    return answer[:500].decode(errors="replace")


def _filters(label: str | None) -> str:
    return msgspec.json.encode({} if label is None else {"label": [label]}).decode()


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    """The body, up to a limit: how long some replies are depends on what an agent wrote."""
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > _ANSWER_BYTES:
            raise SandboxError(f"the engine's reply is longer than {_ANSWER_BYTES >> 20} MiB", kind="engine")
        pieces.append(piece)
    return b"".join(pieces)


async def _connect(sock: socket.socket, path: str) -> None:
    while True:
        try:
            sock.connect(path)
        except BlockingIOError:  # the engine's queue of new connections is full, and there is no event for when it is not
            await anyio.sleep(0.01)
        else:
            return


async def _read_head(sock: socket.socket) -> tuple[bytes, bytes]:
    """The head of the engine's reply, and the bytes received after it."""
    data = b""
    while b"\r\n\r\n" not in data:
        await anyio.wait_readable(sock)
        piece = sock.recv(4096)
        data += piece
        if not piece or len(data) > _HEAD_BYTES:
            raise SandboxError("the engine closed the connection instead of attaching", kind="engine")
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def find_socket(given: str = "") -> str:
    """The given socket, else that of `$DOCKER_HOST`, else Docker's default."""
    named = given or os.environ.get("DOCKER_HOST", "") or _DEFAULT_SOCKET
    path = named.removeprefix("unix://")
    if "://" in path or not path.startswith("/"):
        raise ConfigError(
            f"Docker engine `{named}`: only an engine on this machine can be used; give its socket, `docker:/run/x.sock`"
        )
    return path


@asynccontextmanager
async def open_docker_api(path: str) -> AsyncGenerator[DockerApi]:
    """Connect to the engine of a socket; `ConfigError` with the fix if none answers."""
    _check_socket(path)
    connector = aiohttp.UnixConnector(path=path, limit=_CONNECTIONS)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        try:
            with anyio.fail_after(10):
                async with session.get("http://engine/version") as response:
                    version = _decode(await _read_body(response), DockerVersion)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ConfigError(
                f"no Docker engine answers at {path} ({error or 'no reply'}); is it a Docker engine's socket?"
            ) from error
        yield DockerApi(session, path, version)


def _check_socket(path: str) -> None:
    """Connect once to the bare socket: the error number tells the fix."""
    remedies = {
        errno.ENOENT: "there is no such socket",
        errno.ECONNREFUSED: "no process listens on it",
        errno.EACCES: f"user {os.getuid()} has no permission: join the group `docker`, or use a rootless engine",
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(5)
        try:
            sock.connect(path)
        except OSError as error:
            why = remedies.get(error.errno or 0, str(error))
            raise ConfigError(
                f"no Docker engine at {path}: {why}. Start one (`systemctl start docker`), name its socket"
                " (`--sandbox docker:/path/to.sock`, or DOCKER_HOST), or use `--sandbox native`"
            ) from error
