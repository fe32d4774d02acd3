"""The docker backend: the same sandboxes, made by a Docker engine on this machine.

One long-lived process 1 per sandbox, our own agent, spoken to over its attached streams: a command costs a message and not an
`exec` of the engine. Freezing works as in `native.py`: processes end, the machine stays as the snapshot's reader, and whoever
goes on does so on a fresh machine. Only then is the old one committed as an image, which costs the engine some tenths of a
second, and room on its disk until the sandbox is closed.
"""

import logging
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from sandlot.core.errors import ConfigError, SandboxError, unwrapped
from sandlot.core.limits import Limits
from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.docker.api import DockerApi, find_socket, open_docker_api
from sandlot.sandbox.docker.image import find_docker_image
from sandlot.sandbox.docker.machine import DockerBase, DockerMachine, start_docker_machine
from sandlot.sandbox.docker.probe import docker_capabilities
from sandlot.sandbox.docker.snapshot import DockerFrozen, DockerSnapshot, changed_sizes
from sandlot.sandbox.link.machine import Machine
from sandlot.sandbox.link.process import SandboxProcess
from sandlot.sandbox.link.stream import SandboxStream
from sandlot.sandbox.link.wire import ListingEntry
from sandlot.sandbox.owner import owner_is_dead, owner_labels
from sandlot.sandbox.program import find_program
from sandlot.sandbox.quota import Quota

_log = logging.getLogger(__name__)

_AT_ONCE = 8
"""Sandboxes being started at the same time; an engine does most of it one after another."""

_RUN = "sandlot.run"


class DockerSandbox:
    """A machine for one rollout (port `Sandbox`)."""

    def __init__(
        self, backend: "DockerBackend", base: DockerBase, machine: DockerMachine, below: DockerFrozen | None = None
    ) -> None:
        self._backend = backend
        self._base = base
        self._opened = base
        self._machine: DockerMachine | None = machine
        self._below = below
        self._own: list[DockerFrozen] = []
        self._changing = anyio.Lock(fast_acquire=True)

    async def spawn(self, command: Command) -> SandboxProcess:
        """Start a command."""
        return await (await self._live()).machine.spawn(command)

    async def read(self, path: str) -> bytes:
        """One file; `FileNotFoundError` if it is not there."""
        return await self._reader().read(path)

    async def write(self, path: str, data: bytes) -> None:
        """Put one file, with the folders above it."""
        await (await self._live()).machine.write(path, data)

    async def list(self, folder: str = "/") -> Sequence[str]:
        """Absolute paths of all files below a folder, sorted; the image's included, `/proc`, `/dev` and `/sys` not."""
        return await self._reader().list_files(folder)

    async def stat(self, path: str) -> ListingEntry:
        """One path as it is, links not followed."""
        return await self._reader().stat(path)

    async def connect(self, where: int | str) -> SandboxStream:
        """Reach a port (number) or unix socket (path) inside, without opening the network."""
        return await (await self._live()).machine.connect(where)

    @asynccontextmanager
    async def listen(self, port: int) -> AsyncGenerator[AsyncIterator[SandboxStream]]:
        """Stand behind a port of the loopback inside; every connection a program makes to it comes out here."""
        async with (await self._live()).machine.listen(port) as connections:
            yield connections

    async def changed(self) -> Mapping[str, int]:
        """Every file that is not the image's, by absolute path: size in bytes, as it is now. Nothing is stopped for it."""
        return await changed_sizes(await self._live(), self._backend.pristine)

    async def kill_all(self) -> int:
        """End every process; the files stay. Returns how many there were."""
        return await (await self._live()).machine.kill_all(freeze=False)

    async def freeze(self) -> DockerSnapshot:
        """The files as they are now; every process is dead before this returns."""
        async with self._changing:
            if self._machine is not None:
                await self._machine.machine.kill_all(freeze=True)
                self._own.append(DockerFrozen(self._backend.docker, self._machine, self._top()))
                self._machine = None
            frozen = self._own[-1]
        return DockerSnapshot(frozen, self._backend.fork, self._backend.pristine)

    async def reset(self) -> None:
        """Back to the bytes it was opened with; processes and snapshots are gone."""
        async with self._changing:
            await self._drop_own()
            self._base = self._opened
            self._machine = await self._backend.start(self._base)

    async def close(self) -> None:
        """Gone without a trace."""
        await self._drop_own()
        if self._below is not None:
            await self._below.release()
            self._below = None

    async def _drop_own(self) -> None:
        machines = [frozen.machine for frozen in self._own]
        if self._machine is not None:
            machines.append(self._machine)
            self._machine = None
        async with anyio.create_task_group() as group:
            for machine in machines:
                group.start_soon(machine.close)
        while self._own:
            await self._own.pop().release()

    def _top(self) -> DockerFrozen | None:
        return self._own[-1] if self._own else self._below

    def _reader(self) -> Machine:
        return (self._machine or self._own[-1].machine).machine

    async def _live(self) -> DockerMachine:
        """The machine to act on; after a freeze, a fresh one on the frozen files."""
        if self._machine is None:
            async with self._changing:
                if self._machine is None:
                    if not self._own:
                        raise SandboxError("the sandbox is closed", kind="closed")
                    self._base = await self._own[-1].base()
                    self._machine = await self._backend.start(self._base)
        return self._machine


class DockerBackend:
    """Makes sandboxes (port `Backend`). Get one from `open_docker`."""

    def __init__(self, docker: DockerApi, tasks: TaskGroup, quota: Quota, pool: int, agent: Path) -> None:
        self.docker = docker
        self._tasks = tasks
        self._quota = quota
        self._pool = pool
        self._agent = agent
        self._labels = owner_labels()
        self._bases: dict[str, DockerBase] = {}
        self._pristine: dict[str, DockerMachine] = {}
        self._ready: dict[str, deque[DockerMachine]] = {}
        self._filling: Counter[str] = Counter()
        self._starting = anyio.CapacityLimiter(_AT_ONCE)
        self._finding = anyio.Lock()

    @asynccontextmanager
    async def open(self, image: str, network: str = "none", limits: Limits | None = None) -> AsyncGenerator[DockerSandbox]:
        """A fresh sandbox, gone without a trace when the context ends. `limits` are kept by whoever holds the deadline."""
        del limits
        if network != "none":
            raise ConfigError(f"network {network!r} for a docker sandbox; there is: `none`")
        base = await self._base(image)
        machine = await self._take(image) or await self.start(base)
        if self._pool:
            self._tasks.start_soon(self._fill, image, base)
        async with _closing(DockerSandbox(self, base, machine)) as sandbox:
            yield sandbox

    @asynccontextmanager
    async def fork(self, frozen: DockerFrozen) -> AsyncGenerator[DockerSandbox]:
        """A sandbox on a frozen one's files."""
        base = await frozen.base()
        machine = await self.start(base)
        async with _closing(DockerSandbox(self, base, machine, frozen.hold())) as sandbox:
            yield sandbox

    async def start(self, base: DockerBase) -> DockerMachine:
        """A machine on an image, when its turn comes."""
        async with self._starting:
            return await start_docker_machine(
                self.docker, self._tasks, base, self._quota, program=self._agent, labels=self._labels
            )

    async def pristine(self, base: DockerBase) -> Machine:
        """A machine on the untouched image, to compare with; one for each image, made when first asked for."""
        async with self._finding:
            known = self._pristine.get(base.pristine)
            if known is None or known.machine.link.is_gone:
                named = next(each for each in self._bases.values() if each.image == base.pristine)
                known = self._pristine[base.pristine] = await self.start(named)
            return known.machine

    async def warm(self, image: str) -> None:
        """Fill the pool for an image now."""
        await self._fill(image, await self._base(image))

    async def probe(self) -> Mapping[str, str]:
        """What this backend isolates on this machine, capability by capability; `no: why` where it does not."""
        return docker_capabilities(await self.docker.info(), self.docker.version)

    async def digest(self, image: str) -> str:
        """What an image was made from, for the environment's fingerprint."""
        return (await self._base(image)).image

    async def count(self) -> int:
        """Machines the engine has of ours, the pool's included; those kept to compare with are not counted."""
        made = await self.docker.containers(f"{_RUN}={self._labels[_RUN]}")
        return len({each.id for each in made} - {machine.container for machine in self._pristine.values()})

    async def settle(self, expected: int) -> None:
        """Wait until no more than this many machines live: what does not go away is a leak. Bound it by a deadline."""
        while await self.count() > expected:  # noqa: ASYNC110 - the engine removes them; there is nobody to set an event
            await anyio.sleep(0.02)

    def pooled(self) -> int:
        """Machines waiting in the pool."""
        return sum(len(ready) for ready in self._ready.values())

    async def _base(self, name: str) -> DockerBase:
        async with self._finding:
            if name not in self._bases:
                self._bases[name] = await find_docker_image(self.docker, name)
            return self._bases[name]

    async def _take(self, image: str) -> DockerMachine | None:
        ready = self._ready.get(image)
        while ready:
            machine = ready.popleft()
            if not machine.machine.link.is_gone:
                return machine
            await machine.close()
        return None

    async def _fill(self, image: str, base: DockerBase) -> None:
        ready = self._ready.setdefault(image, deque())
        while len(ready) + self._filling[image] < self._pool:
            self._filling[image] += 1
            try:
                ready.append(await self.start(base))
            except SandboxError as error:  # nobody asked for this one; whoever asks next starts their own and hears why
                _log.warning("the pool could not be filled", extra={"image": image, "error": str(error)})
                return
            finally:
                self._filling[image] -= 1

    async def reap(self) -> int:
        """Remove what Sandlot processes left behind that are dead now. Returns how much there was."""
        machines = [made.id for made in await self.docker.containers(_RUN) if owner_is_dead(made.labels or {})]
        images = [image.id for image in await self.docker.images(_RUN) if owner_is_dead(image.labels or {})]
        for container in machines:
            await self.docker.remove(container)
        for container in images:
            await self.docker.remove_image(container)
        return len(machines) + len(images)

    async def close(self) -> None:
        """Let the pool go, and what was kept to compare with."""
        machines = [machine for ready in self._ready.values() for machine in ready] + list(self._pristine.values())
        self._ready.clear()
        self._pristine.clear()
        async with anyio.create_task_group() as group:
            for machine in machines:
                group.start_soon(machine.close)


@asynccontextmanager
async def _closing(sandbox: DockerSandbox) -> AsyncGenerator[DockerSandbox]:
    try:
        yield sandbox
    finally:
        with anyio.move_on_after(20, shield=True):
            await sandbox.close()


@asynccontextmanager
async def open_docker(socket: str = "", *, quota: Quota | None = None, pool: int = 0) -> AsyncGenerator[DockerBackend]:
    """The docker backend for as long as the context lasts; `pool` sandboxes of each used image are kept ready.

    `socket`: the engine's, if it is not `$DOCKER_HOST` or the usual one.
    """
    path = find_socket(socket)
    agent = await anyio.to_thread.run_sync(find_program)
    try:
        async with open_docker_api(path) as docker, anyio.create_task_group() as tasks:
            backend = DockerBackend(docker, tasks, quota or Quota(), pool, agent)
            try:
                await backend.reap()
                yield backend
            finally:
                with anyio.move_on_after(20, shield=True):
                    await backend.close()
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:  # our tasks raise nothing: the one error in it is the caller's own
        raise unwrapped(group) from None
