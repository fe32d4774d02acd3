"""The interfaces of sandboxes: files, processes, connections.

Implementations do not subclass them. Every backend must pass the suite `sandlot.testing.sandbox`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

import msgspec

from sandlot.core.limits import Limits

FIRST_SEAT_ID = 20_001
"""User and group id of the first of several seats in a sandbox; the others have the next ones."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command to start in a sandbox."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    cwd: str | None = None
    """None: the image's working directory, else `/`."""
    user: str | None = None
    """None: the image's user, else `root`."""
    stdin: bytes | None = None
    """The whole standard input; None leaves it open for `Process.send`."""
    pty: bool = False
    output_bytes: int | None = None
    """Maximum bytes of output, both streams together. The rest is counted and dropped inside the sandbox."""


class Process(Protocol):
    """A running command."""

    @property
    def dropped(self) -> int:
        """Bytes of output beyond `Command.output_bytes`; known when the command has ended."""
        ...

    def output(self) -> AsyncIterator[tuple[str, bytes]]:
        """Pieces of (`stdout` or `stderr`, bytes) until the command ends. Background processes are not waited for."""
        ...

    async def send(self, data: bytes) -> None:
        """Write to its standard input; empty bytes close it."""
        ...

    async def wait(self) -> int:
        """Wait for the exit code; negative for the signal that ended it."""
        ...

    async def kill(self) -> None:
        """Kill it and everything it started."""
        ...


class Stream(Protocol):
    """A connection into a sandbox."""

    async def send(self, data: bytes) -> None:
        """Write all bytes."""
        ...

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Available bytes; empty at the end of the stream."""
        ...

    async def aclose(self) -> None:
        """Close both directions."""
        ...


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """All paths that are not part of the image, absolute."""

    sizes: Mapping[str, int]
    """Regular files: size in bytes."""
    kinds: Mapping[str, str] = {}
    """Everything else: `folder`, `link` (not followed) or `other` (a pipe, a socket, a device)."""
    left_out: int = 0
    """Number of paths not listed here: too many, or nested too deep."""


class Snapshot(Protocol):
    """The files at one moment. Later changes do not show."""

    async def survey(self) -> Survey:
        """All paths that are not part of the image. If there are too many, the rest is counted."""
        ...

    async def list(self) -> Mapping[str, int]:
        """Size in bytes of every file that is not part of the image, by path. Files of the image are not listed."""
        ...

    async def read(self, path: str) -> bytes:
        """Read a file; `FileNotFoundError` if there is none."""
        ...


class Files(Protocol):
    """Files by absolute path, in a sandbox or in memory."""

    async def read(self, path: str) -> bytes:
        """Read a file; `FileNotFoundError` if there is none."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Write a file and create its parent folders."""
        ...

    async def list(self, folder: str = "/") -> Sequence[str]:
        """Absolute paths of all files below a folder, sorted."""
        ...

    async def freeze(self) -> Snapshot:
        """A snapshot of the files. In a sandbox, the agent's processes are killed first."""
        ...


@runtime_checkable
class Sandbox(Files, Protocol):
    """An isolated machine for one rollout, with its own files, processes and network."""

    async def spawn(self, command: Command) -> Process:
        """Start a command."""
        ...

    async def connect(self, where: int | str) -> Stream:
        """Connect to a port (number) or Unix socket (path) inside; the network stays closed."""
        ...

    def listen(self, port: int) -> AbstractAsyncContextManager[AsyncIterator[Stream]]:
        """Serve a port of the sandbox's loopback from the host: yields every connection made inside to 127.0.0.1:`port`.

        Close each connection when done: a few hundred may be open at once, further ones wait. Leaving the context closes the port
        and its connections. `OSError` if the port is in use inside. A freeze ends the iteration.
        """
        ...

    async def changed(self) -> Mapping[str, int]:
        """Size in bytes of every file that is not part of the image, by path, now. Processes keep running."""
        ...


class Backend(Protocol):
    """Opens sandboxes, and reports what they isolate."""

    async def prepare(self, image: str) -> None:
        """Make an image ready. The first time, packages may have to be installed, which takes minutes; then it costs nothing."""
        ...

    def open(self, image: str, network: str, limits: Limits, seats: int = 0) -> AbstractAsyncContextManager[Files]:
        """A fresh sandbox; it is removed completely when the context ends.

        `seats`: users of it, from `FIRST_SEAT_ID` on, who must not see each other's processes. `ConfigError` if it cannot hide
        them. It is given only if there are any.
        """
        ...

    async def probe(self) -> Mapping[str, str]:
        """What this backend isolates on this machine, by capability; `no: why` for what it does not."""
        ...


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a command, as `world.exec` returns it.

    ```python
    from sandlot.core.ports.sandbox import Completed

    done = Completed(code=0, stdout="42", stderr="")
    assert done.code == 0
    ```
    """

    code: int
    """The exit code; 0 for success."""
    stdout: str
    """Standard output."""
    stderr: str
    """Standard error."""
    dropped: int = 0
    """Bytes of output beyond the limit, which were dropped."""
