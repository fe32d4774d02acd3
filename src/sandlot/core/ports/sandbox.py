"""What a sandbox is to those who use one and those who make one, as Protocols: files, processes, connections.

Implementations do not subclass them. `tests/contract/` holds every backend, third parties' too, to what is promised here.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

import msgspec

from sandlot.core.limits import Limits


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What to start in a sandbox."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    cwd: str | None = None
    """None: where the image says, else `/`."""
    user: str | None = None
    """None: whom the image says, else `root`."""
    stdin: bytes | None = None
    """Given whole and closed; None leaves the stream open for `Process.send`."""
    pty: bool = False
    output_bytes: int | None = None
    """Bytes of output wanted, both streams together; what comes after is counted and thrown away inside the sandbox."""


class Process(Protocol):
    """A running command: output as it comes, then an exit code."""

    @property
    def dropped(self) -> int:
        """Bytes of output beyond `Command.output_bytes`, known when it has ended."""
        ...

    def output(self) -> AsyncIterator[tuple[str, bytes]]:
        """Pieces of (`stdout` or `stderr`, bytes) until it has ended; what it left in the background is not waited for."""
        ...

    async def send(self, data: bytes) -> None:
        """Write to its standard input; empty bytes close it."""
        ...

    async def wait(self) -> int:
        """Its exit code; negative for the signal that ended it."""
        ...

    async def kill(self) -> None:
        """End it and everything it started."""
        ...


class Stream(Protocol):
    """A connection into a sandbox."""

    async def send(self, data: bytes) -> None:
        """Write all of it."""
        ...

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """What is there; empty at the end."""
        ...

    async def aclose(self) -> None:
        """Close both ways."""
        ...


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is not the image's, by absolute path."""

    sizes: Mapping[str, int]
    """Regular files: size in bytes."""
    kinds: Mapping[str, str] = {}
    """Everything else: `folder`, `link` (not followed) or `other` (a pipe, a socket, a device)."""
    left_out: int = 0
    """Paths that are there and not named here: beyond what a sandbox lists, or too deep."""


class Snapshot(Protocol):
    """Files frozen at one moment. What the agent does later does not show."""

    async def survey(self) -> Survey:
        """Everything that is not the image's, with its kind. Too many paths are no error: the rest is counted."""
        ...

    async def list(self) -> Mapping[str, int]:
        """Every file that is not the image's, by absolute path: size in bytes. What an image brings can be read, not listed."""
        ...

    async def read(self, path: str) -> bytes:
        """One file; `FileNotFoundError` if it is not there."""
        ...


class Files(Protocol):
    """What every world has, with a sandbox or without: files by absolute path."""

    async def read(self, path: str) -> bytes:
        """One file; `FileNotFoundError` if it is not there."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Put one file, with the folders above it."""
        ...

    async def list(self, folder: str = "/") -> Sequence[str]:
        """Absolute paths of all files below a folder, sorted."""
        ...

    async def freeze(self) -> Snapshot:
        """The files as they are now. In a sandbox the agent's processes are dead before this returns."""
        ...


@runtime_checkable
class Sandbox(Files, Protocol):
    """A machine for one rollout: own files, processes, network."""

    async def spawn(self, command: Command) -> Process:
        """Start a command."""
        ...

    async def connect(self, where: int | str) -> Stream:
        """Reach a port (number) or unix socket (path) inside, without opening the network."""
        ...

    def listen(self, port: int) -> AbstractAsyncContextManager[AsyncIterator[Stream]]:
        """Stand behind a port of its loopback: every connection a program inside makes to 127.0.0.1:`port` comes out here.

        Close each when it is done: some hundreds are open at once, the next wait inside. Leaving the context closes the port and
        its connections; a port taken inside is an `OSError`. A freeze ends the iteration: nobody is left to connect.
        """
        ...

    async def changed(self) -> Mapping[str, int]:
        """Every file that is not the image's, by absolute path: size in bytes, as it is now. Nothing is stopped for it."""
        ...


class Backend(Protocol):
    """Makes sandboxes, and says what they isolate."""

    def open(self, image: str, network: str, limits: Limits) -> AbstractAsyncContextManager[Files]:
        """A fresh sandbox, gone without a trace when the context ends."""
        ...

    async def probe(self) -> Mapping[str, str]:
        """What this backend isolates on this machine, capability by capability; `no: why` where it does not."""
        ...


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """What `world.exec` returns: a command that has ended.

    ```python
    from sandlot.core.ports.sandbox import Completed

    done = Completed(code=0, stdout="42", stderr="")
    assert done.code == 0
    ```
    """

    code: int
    """The exit code; 0 for success."""
    stdout: str
    """What it printed."""
    stderr: str
    """What it printed to stderr."""
    dropped: int = 0
    """Bytes of output above the limit that were not kept."""
