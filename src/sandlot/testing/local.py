"""A sandbox backend on plain processes of this machine, in a temporary folder. It isolates nothing.

For tests of your own code where a sandbox would be slow or cannot be opened, never for an agent. The folder is `/` for `read`,
`write`, `list` and working directories. A command sees the machine's own files, network and processes, so tests give it relative
paths. What was started is found by a mark among its variables, and killed by `freeze` and at the end.
"""

import itertools
import os
import posixpath
import shutil
import stat
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from sandlot.core.errors import ConfigError, SandboxError
from sandlot.core.limits import Limits
from sandlot.core.ports.sandbox import Command, Survey
from sandlot.testing.local_process import MARK, LocalProcess, kill_marked, start_local
from sandlot.testing.local_stream import LocalQueue, LocalStream, connect_local, listen_locally

_PLAIN = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/"}
_CAPABILITIES = ("processes", "files", "network", "seats", "memory", "cpu", "pids", "disk", "kernel")
_CLOSE_S = 10.0
_numbers = itertools.count(1)


class LocalSnapshot:
    """A copy of the files (port `Snapshot`)."""

    def __init__(self, root: Path, sandbox: "LocalSandbox") -> None:
        self._root = root
        self._sandbox = sandbox

    async def survey(self) -> Survey:
        """Every path, by what it is."""
        self._sandbox.require_open()
        return _survey(self._root)

    async def list(self) -> Mapping[str, int]:
        """Size of every file; there is no image, so these are all."""
        return (await self.survey()).sizes

    async def read(self, path: str) -> bytes:
        """One file."""
        self._sandbox.require_open()
        return _read(_inside(self._root, path))


class LocalSandbox:
    """A folder and processes in it (port `Sandbox`). Get one from `LocalBackend.open`."""

    def __init__(self, root: Path, tasks: TaskGroup) -> None:
        self._root = root / "files"
        self._root.mkdir()
        self._snapshots = root
        self._tasks = tasks
        self._mark = f"{os.getpid()}-{next(_numbers)}."
        self._processes: list[LocalProcess] = []
        self._listening: list[LocalQueue[LocalStream]] = []
        self._is_open = True

    def require_open(self) -> None:
        """`SandboxError` if it is closed."""
        if not self._is_open:
            raise SandboxError("the sandbox is closed")

    async def read(self, path: str) -> bytes:
        """One file."""
        self.require_open()
        return _read(_inside(self._root, path))

    async def write(self, path: str, data: bytes) -> None:
        """Put one file."""
        self.require_open()
        place = _inside(self._root, path)
        place.parent.mkdir(parents=True, exist_ok=True)
        _require_file(place)
        place.write_bytes(data)

    async def list(self, folder: str = "/") -> Sequence[str]:
        """Files below a folder, sorted."""
        self.require_open()
        below = posixpath.normpath("/" + folder.lstrip("/")).rstrip("/") + "/"
        return [path for path in _survey(self._root).sizes if path.startswith(below)]

    async def changed(self) -> Mapping[str, int]:
        """Size of every file."""
        self.require_open()
        return _survey(self._root).sizes

    async def freeze(self) -> LocalSnapshot:
        """Kill what runs, and copy the files."""
        self.require_open()
        self._end_all()
        root = Path(tempfile.mkdtemp(dir=self._snapshots)) / "files"
        shutil.copytree(self._root, root, symlinks=True, copy_function=_copy)
        return LocalSnapshot(root, self)

    async def spawn(self, command: Command) -> LocalProcess:
        """Start a command of this machine, in a folder of the sandbox."""
        self.require_open()
        environ = {**_PLAIN, **command.env, MARK: f"{self._mark}{len(self._processes)}."}
        started = await start_local(command, _inside(self._root, command.cwd or "/"), environ, self._tasks)
        self._processes.append(started)
        return started

    async def connect(self, where: int | str) -> LocalStream:
        """Connect to a port of this machine, or to a socket in the folder."""
        self.require_open()
        return await connect_local(where if isinstance(where, int) else _inside(self._root, where))

    @asynccontextmanager
    async def listen(self, port: int) -> AsyncGenerator[LocalQueue[LocalStream]]:
        """Connections to a port of this machine."""
        self.require_open()
        async with listen_locally(port, self._tasks) as connections:
            self._listening.append(connections)
            try:
                yield connections
            finally:
                self._listening.remove(connections)

    async def close(self) -> None:
        """Kill what runs; every further use is an error."""
        self._is_open = False
        self._end_all()
        for process in self._processes:
            await process.wait()

    def _end_all(self) -> None:
        for connections in self._listening:
            connections.end()
        if self._processes:
            kill_marked(self._mark)


class LocalBackend:
    """Opens sandboxes that isolate nothing (port `Backend`). Its only image is `none`: the programs of this machine."""

    async def prepare(self, image: str) -> None:
        """There is nothing to prepare."""
        if image != "none":
            raise ConfigError(f"no image named {image!r}; a sandbox on plain processes has the programs of this machine: `none`")

    @asynccontextmanager
    async def open(self, image: str, network: str, limits: Limits, seats: int = 0) -> AsyncGenerator[LocalSandbox]:
        """A new folder, removed at the end with all that runs in it."""
        del limits
        await self.prepare(image)
        if seats:
            raise ConfigError("plain processes of this machine cannot keep seats apart")
        if network != "none":
            raise ConfigError(f"network {network!r} for a sandbox; there is only `none`")
        with tempfile.TemporaryDirectory(prefix="sandlot-") as root:
            async with anyio.create_task_group() as tasks:
                sandbox = LocalSandbox(Path(root), tasks)
                try:
                    yield sandbox
                finally:
                    with anyio.move_on_after(_CLOSE_S, shield=True):
                        await sandbox.close()
                    tasks.cancel_scope.cancel()

    async def probe(self) -> Mapping[str, str]:
        """Nothing is isolated."""
        return dict.fromkeys(_CAPABILITIES, "no: plain processes of this machine, for tests only")


def _inside(root: Path, path: str) -> Path:
    if not path.startswith("/") or "\0" in path:
        raise ValueError(f"path {path!r} is not absolute")
    return root / posixpath.normpath("/" + path.lstrip("/")).lstrip("/")


def _require_file(place: Path) -> None:
    """An error if there is something else at a place. `FileNotFoundError` is left to who opens it."""
    mode = place.stat().st_mode if place.exists() else stat.S_IFREG
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{place} is a folder")
    if not stat.S_ISREG(mode):
        raise OSError(f"No such device: {place} is no file")


def _read(place: Path) -> bytes:
    _require_file(place)
    return place.read_bytes()


def _copy(source: str, target: str) -> None:
    """A file; a pipe or a socket as one of the same kind, which nobody uses."""
    mode = os.lstat(source).st_mode
    if stat.S_ISREG(mode):
        shutil.copy2(source, target)
    else:
        os.mkfifo(target)


def _survey(root: Path) -> Survey:
    sizes: dict[str, int] = {}
    kinds: dict[str, str] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            place = Path(folder, name)
            path, about = f"/{place.relative_to(root)}", place.lstat()
            if stat.S_ISREG(about.st_mode):
                sizes[path] = about.st_size
            else:
                kinds[path] = "link" if place.is_symlink() else "folder" if stat.S_ISDIR(about.st_mode) else "other"
    return Survey(sizes=dict(sorted(sizes.items())), kinds=dict(sorted(kinds.items())))
