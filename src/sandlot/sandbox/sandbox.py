"""The life of a sandbox, the same for every backend: opened, used, frozen, forked, reset, closed.

A sandbox is one running machine on read-only files. Freezing ends all processes and leaves the machine as the reader of the
snapshot; if the sandbox is used again, it goes on with a fresh machine on top of the frozen files. So a snapshot never changes,
and can be forked any number of times. Processes and `/dev/shm` are not carried over. What differs between backends (start a
machine, freeze it, remove what it left) is behind `Machines` and `FrozenFiles`.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Generic, Protocol, TypeVar

import anyio

from sandlot.core.errors import SandboxError
from sandlot.core.ports.sandbox import Command, Survey
from sandlot.sandbox.changes import Change
from sandlot.sandbox.link.machine import Machine
from sandlot.sandbox.link.process import SandboxProcess
from sandlot.sandbox.link.stream import SandboxStream
from sandlot.sandbox.link.wire import ListingEntry
from sandlot.sandbox.pool import PooledMachine, close_machines


class StartedMachine(PooledMachine, Protocol):
    """A machine with what its backend must know to freeze and close it."""

    @property
    def machine(self) -> Machine:
        """The operations it offers."""
        ...


class FrozenFiles(Protocol):
    """The files of a machine whose processes have ended."""

    @property
    def machine(self) -> StartedMachine:
        """The machine that reads them."""
        ...

    async def read(self, path: str) -> bytes:
        """One file, the image's included."""
        ...

    async def survey(self) -> Survey:
        """Everything that is not the image's, with its kind."""
        ...

    async def diff(self) -> Mapping[str, Change]:
        """Everything that differs from the image."""
        ...

    async def remove(self) -> None:
        """Remove what machines were started from; the reader is closed apart from it."""
        ...


_Machine = TypeVar("_Machine", bound=StartedMachine)
_Files = TypeVar("_Files", bound=FrozenFiles)


class Machines(Protocol[_Machine, _Files]):
    """What a backend does for its sandboxes."""

    async def prepare(self, image: str) -> None:
        """Find an image by its name, and build it if it is not there."""
        ...

    async def start(self, source: str | _Files, seats: int = 0) -> _Machine:
        """A fresh machine on an image, by its name, or on frozen files; `seats` as for `Backend.open`."""
        ...

    async def freeze(self, machine: _Machine) -> _Files:
        """End every process of a machine; its files can be read and started from afterwards."""
        ...

    async def changed(self, machine: _Machine) -> Mapping[str, int]:
        """Every file that is not the image's, by absolute path: size in bytes."""
        ...

    async def probe(self) -> Mapping[str, str]:
        """What is isolated on this machine, capability by capability; `no: why` where it is not."""
        ...

    async def count(self) -> int:
        """Machines alive."""
        ...

    async def close(self) -> None:
        """Close what the backend keeps for itself."""
        ...


class Frozen(Generic[_Files]):
    """Frozen files and the number of their users: the sandbox that froze them, forks, and files frozen on top of them."""

    def __init__(self, files: _Files, below: "Frozen[_Files] | None") -> None:
        self.files = files
        self._below = below.hold() if below is not None else None
        self._num_users = 1

    def hold(self) -> "Frozen[_Files]":
        """Count one more user."""
        self._num_users += 1
        return self

    async def release(self) -> None:
        """Count one user less; after the last the files are removed."""
        self._num_users -= 1
        if self._num_users == 0:
            await self.files.remove()
            if self._below is not None:
                await self._below.release()


class MachineSnapshot(Generic[_Machine, _Files]):
    """Files frozen at one moment (port `Snapshot`); readable while its sandbox is open."""

    def __init__(self, frozen: Frozen[_Files], fork: "_Fork[_Files, _Machine]") -> None:
        self._frozen = frozen
        self._fork = fork

    async def survey(self) -> Survey:
        """Everything that is not the image's, with its kind. The image's own files can be read, and are not listed."""
        return await self._frozen.files.survey()

    async def list(self) -> Mapping[str, int]:
        """Every file that is not the image's, by absolute path: size in bytes."""
        return (await self.survey()).sizes

    async def read(self, path: str) -> bytes:
        """One file, the image's included; `FileNotFoundError` if it is not there."""
        return await self._frozen.files.read(path)

    async def diff(self) -> Mapping[str, Change]:
        """Everything that differs from the image, folders and deletions included."""
        return await self._frozen.files.diff()

    def fork(self) -> "AbstractAsyncContextManager[MachineSandbox[_Machine, _Files]]":
        """A sandbox that goes on from these files. It has no processes at first; forks do not see each other."""
        return self._fork(self._frozen)


class MachineSandbox(Generic[_Machine, _Files]):
    """A machine for one rollout (port `Sandbox`)."""

    def __init__(
        self,
        machines: Machines[_Machine, _Files],
        fork: "_Fork[_Files, _Machine]",
        source: str | Frozen[_Files],
        machine: _Machine,
        seats: int = 0,
    ) -> None:
        self._machines = machines
        self._fork = fork
        self._source = source
        self._seats = seats
        self._below = None if isinstance(source, str) else source
        self._machine: _Machine | None = machine
        self._frozen: list[Frozen[_Files]] = []
        self._changing = anyio.Lock(fast_acquire=True)

    async def spawn(self, command: Command) -> SandboxProcess:
        """Start a command."""
        return await (await self._live()).spawn(command)

    async def read(self, path: str) -> bytes:
        """One file; `FileNotFoundError` if it is not there."""
        return await self._reader().read(path)

    async def write(self, path: str, data: bytes) -> None:
        """Put one file, with the folders above it."""
        await (await self._live()).write(path, data)

    async def list(self, folder: str = "/") -> Sequence[str]:
        """Absolute paths of all files below a folder, sorted; the image's included, `/proc`, `/dev` and `/sys` not."""
        return await self._reader().list_files(folder)

    async def stat(self, path: str) -> ListingEntry:
        """One path as it is, links not followed."""
        return await self._reader().stat(path)

    async def connect(self, where: int | str) -> SandboxStream:
        """Connect to a port (number) or unix socket (path) inside, without opening the network."""
        return await (await self._live()).connect(where)

    @asynccontextmanager
    async def listen(self, port: int) -> AsyncGenerator[AsyncIterator[SandboxStream]]:
        """Listen on a port of the loopback inside; every connection a program makes to it comes out here."""
        async with (await self._live()).listen(port) as connections:
            yield connections

    async def changed(self) -> Mapping[str, int]:
        """Every file that is not the image's, by absolute path: size in bytes, as it is now. Nothing is stopped for it."""
        if self._machine is None:
            return (await self._last_frozen().files.survey()).sizes
        return await self._machines.changed(self._machine)

    async def kill_all(self) -> int:
        """End every process; the files stay. Returns how many there were."""
        return await (await self._live()).kill_all(freeze=False)

    async def freeze(self) -> MachineSnapshot[_Machine, _Files]:
        """The files as they are now; every process is dead before this returns."""
        async with self._changing:
            if self._machine is not None:
                below = self._frozen[-1] if self._frozen else self._below
                self._frozen.append(Frozen(await self._machines.freeze(self._machine), below))
                self._machine = None
            return MachineSnapshot(self._last_frozen(), self._fork)

    async def reset(self) -> None:
        """Back to the files it was opened with; processes and snapshots are gone."""
        async with self._changing:
            await self._drop_machines()
            self._machine = await self._start(self._source)

    async def close(self) -> None:
        """Close every machine and remove all files, unless a fork still uses them."""
        await self._drop_machines()
        if self._below is not None:
            below, self._below = self._below, None
            await below.release()

    async def _drop_machines(self) -> None:
        machines: list[StartedMachine] = [frozen.files.machine for frozen in self._frozen]
        if self._machine is not None:
            machines.append(self._machine)
            self._machine = None
        await close_machines(machines)
        while self._frozen:
            await self._frozen.pop().release()

    async def _start(self, source: str | Frozen[_Files]) -> _Machine:
        return await self._machines.start(source if isinstance(source, str) else source.files, self._seats)

    def _last_frozen(self) -> Frozen[_Files]:
        if not self._frozen:
            raise SandboxError("the sandbox is closed", kind="closed")
        return self._frozen[-1]

    def _reader(self) -> Machine:
        return (self._machine or self._last_frozen().files.machine).machine

    async def _live(self) -> Machine:
        """The machine to act on; after a freeze, a fresh one on the frozen files."""
        if self._machine is None:
            async with self._changing:
                if self._machine is None:
                    self._machine = await self._start(self._last_frozen())
        return self._machine.machine


_Fork = Callable[[Frozen[_Files]], AbstractAsyncContextManager[MachineSandbox[_Machine, _Files]]]
