"""The native backend: sandboxes by namespaces, without a daemon.

A `NativeSandbox` is a stack of read-only layers and one running *machine* on top of it. Freezing ends all processes, turns what
was written into one more layer, and leaves the old machine as the reader of the snapshot; the sandbox goes on, if anybody uses it
again, with a fresh machine on the taller stack. So a snapshot never changes, costs nothing to take, and can be forked any number
of times. Processes and `/dev/shm` are not carried over.
"""

import logging
import resource
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from sandlot.core.errors import ConfigError, SandboxError, SandboxOutOfMemory, unwrapped
from sandlot.core.limits import Limits
from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.defaults import CommandDefaults
from sandlot.sandbox.images.image import Image, unwritable_error
from sandlot.sandbox.images.spec import find_image, image_digest
from sandlot.sandbox.link.machine import Entries, Machine
from sandlot.sandbox.link.process import SandboxProcess
from sandlot.sandbox.link.stream import SandboxStream
from sandlot.sandbox.link.wire import Listing, ListingEntry
from sandlot.sandbox.native.cgroup import CONTROLLERS, Cgroups, find_cgroups
from sandlot.sandbox.native.machine import start_machine
from sandlot.sandbox.native.probe import native_capabilities
from sandlot.sandbox.native.snapshot import NativeFrozen, NativeSnapshot, survey_of
from sandlot.sandbox.native.zygote import OverlayLayer, OverlayTree, Zygote, open_zygote
from sandlot.sandbox.program import find_program
from sandlot.sandbox.quota import Quota

_log = logging.getLogger(__name__)

_AT_ONCE = 16
"""Sandboxes being started at the same time; more would only wait for each other inside the kernel."""


class NativeSandbox:
    """A machine for one rollout (port `Sandbox`)."""

    def __init__(
        self, backend: "NativeBackend", trees: tuple[OverlayTree, ...], machine: Machine, below: NativeFrozen | None = None
    ) -> None:
        self._backend = backend
        self._trees = trees
        self._opened = trees
        self._defaults = machine.defaults
        self._machine: Machine | None = machine
        self._frozen: list[NativeFrozen] = [below] if below is not None else []
        self._own: list[NativeFrozen] = []
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
        """Reach a port (number) or unix socket (path) inside, without opening the network."""
        return await (await self._live()).connect(where)

    @asynccontextmanager
    async def listen(self, port: int) -> AsyncGenerator[AsyncIterator[SandboxStream]]:
        """Stand behind a port of the loopback inside; every connection a program makes to it comes out here."""
        async with (await self._live()).listen(port) as connections:
            yield connections

    async def changed(self) -> Mapping[str, int]:
        """Every file that is not the image's, by absolute path: size in bytes, as it is now. Nothing is stopped for it."""
        found = await self._reader().list_entries(Listing.CHANGED)
        return (await survey_of(Entries(found, 0))).sizes

    async def kill_all(self) -> int:
        """End every process; the files stay. Returns how many there were."""
        return await (await self._live()).kill_all(freeze=False)

    async def freeze(self) -> NativeSnapshot:
        """The files as they are now; every process is dead before this returns."""
        async with self._changing:
            if self._machine is None:
                return NativeSnapshot(self._frozen[-1], self._backend.fork)
            frozen = NativeFrozen(self._machine, self._trees, self._backend.zygote, self._backend.start)
            try:
                await self._machine.kill_all(freeze=True)
            except SandboxOutOfMemory:  # every process has ended, and the files are still there
                await frozen.replace_reader()
            self._frozen.append(frozen)
            self._own.append(frozen)
            self._machine = None
        return NativeSnapshot(frozen, self._backend.fork)

    async def reset(self) -> None:
        """Back to the bytes it was opened with; processes and snapshots are gone."""
        async with self._changing:
            await self._drop_own()
            self._trees = self._opened
            self._machine = await self._backend.start(self._trees, self._defaults)

    async def close(self) -> None:
        """Gone without a trace."""
        await self._drop_own()
        for below in self._frozen:
            await below.release()
        self._frozen = []

    async def _drop_own(self) -> None:
        if self._machine is not None:
            machine, self._machine = self._machine, None
            await machine.close()
        for frozen in self._own:
            await frozen.machine.close()
            self._frozen.remove(frozen)
            await frozen.release()
        self._own = []

    def _reader(self) -> Machine:
        return self._machine or self._frozen[-1].machine

    async def _live(self) -> Machine:
        """The machine to act on; after a freeze, a fresh one on the frozen files."""
        if self._machine is None:
            async with self._changing:
                if self._machine is None:
                    self._trees = await self._frozen[-1].trees()
                    self._machine = await self._backend.start(self._trees, self._defaults)
        return self._machine


class NativeBackend:
    """Makes sandboxes (port `Backend`). Get one from `open_native`."""

    def __init__(self, zygote: Zygote, tasks: TaskGroup, quota: Quota, pool: int) -> None:
        self.zygote = zygote
        self._tasks = tasks
        self._quota = quota
        self._pool = pool
        self._images: dict[str, tuple[Image, tuple[OverlayTree, ...]]] = {}
        self._ready: dict[str, deque[Machine]] = {}
        self._filling: Counter[str] = Counter()
        self._starting = anyio.CapacityLimiter(_AT_ONCE)
        self._finding = anyio.Lock()

    @asynccontextmanager
    async def open(self, image: str, network: str = "none", limits: Limits | None = None) -> AsyncGenerator[NativeSandbox]:
        """A fresh sandbox, gone without a trace when the context ends. `limits` are kept by whoever holds the deadline."""
        del limits
        if network != "none":
            raise ConfigError(f"network {network!r} for a native sandbox; there is: `none`")
        found, trees = await self._image(image)
        machine = await self._take(image) or await self.start(trees, found.defaults)
        if self._pool:
            self._tasks.start_soon(self._fill, image)
        async with _closing(NativeSandbox(self, trees, machine)) as sandbox:
            yield sandbox

    @asynccontextmanager
    async def fork(self, frozen: NativeFrozen) -> AsyncGenerator[NativeSandbox]:
        """A sandbox on a frozen one's files."""
        trees = await frozen.trees()
        machine = await self.start(trees, frozen.machine.defaults)
        async with _closing(NativeSandbox(self, trees, machine, frozen.hold())) as sandbox:
            yield sandbox

    async def start(self, trees: tuple[OverlayTree, ...], defaults: CommandDefaults) -> Machine:
        """A machine on these layers, when its turn comes."""
        async with self._starting:
            return await start_machine(self.zygote, self._tasks, trees, self._quota, defaults)

    async def warm(self, image: str) -> None:
        """Fill the pool for an image now."""
        await self._fill(image)

    async def probe(self) -> Mapping[str, str]:
        """What this backend isolates on this machine, capability by capability; `no: why` where it does not."""
        await self._image("host")  # whether its files can be the sandbox's own is known once it was tried
        return native_capabilities(self.zygote)

    async def digest(self, image: str) -> str:
        """What an image was made from, for the environment's fingerprint."""
        return await anyio.to_thread.run_sync(image_digest, image)

    async def count(self) -> int:
        """Machines alive, the pool's included. One that was closed a moment ago may still be dying; see `settle`."""
        return await self.zygote.count()

    async def settle(self, expected: int) -> None:
        """Wait until no more than this many machines live: what does not go away is a leak. Bound it by a deadline."""
        while await self.count() > expected:  # noqa: ASYNC110 - the kernel ends them; there is nobody to set an event
            await anyio.sleep(0.005)

    def pooled(self) -> int:
        """Machines waiting in the pool."""
        return sum(len(ready) for ready in self._ready.values())

    async def _image(self, name: str) -> tuple[Image, tuple[OverlayTree, ...]]:
        if name in self._images:
            return self._images[name]
        async with self._finding:
            if name not in self._images:
                image = await anyio.to_thread.run_sync(find_image, name)
                trees = [
                    OverlayTree(place, tuple([await self._layer(image, folder) for folder in folders]))
                    for place, folders in image.trees
                ]
                self._images[name] = image, tuple(trees)
            return self._images[name]

    async def _layer(self, image: Image, folder: Path) -> OverlayLayer:
        layer = await self.zygote.add_folder(folder)
        # `host` can be used as it is, and `probe` says what does not work; the files of any other image are there to be changed.
        if image.portable and not layer.owners_mapped:
            raise unwritable_error(image.name, folder)
        return layer

    async def _take(self, image: str) -> Machine | None:
        ready = self._ready.get(image)
        while ready:
            machine = ready.popleft()
            if not machine.link.is_gone:
                return machine
            await machine.close()
        return None

    async def _fill(self, image: str) -> None:
        found, trees = await self._image(image)
        ready = self._ready.setdefault(image, deque())
        while len(ready) + self._filling[image] < self._pool:
            self._filling[image] += 1
            try:
                ready.append(await self.start(trees, found.defaults))
            except SandboxError as error:  # nobody asked for this one; whoever asks next starts their own and hears why
                _log.warning("the pool could not be filled", extra={"image": image, "error": str(error)})
                return
            finally:
                self._filling[image] -= 1

    async def close(self) -> None:
        """Let the pool go."""
        for ready in self._ready.values():
            while ready:
                await ready.pop().close()


@asynccontextmanager
async def _closing(sandbox: NativeSandbox) -> AsyncGenerator[NativeSandbox]:
    try:
        yield sandbox
    finally:
        with anyio.move_on_after(10, shield=True):
            await sandbox.close()


def _raise_open_files() -> None:
    """Each sandbox takes two descriptors here; the usual soft limit of 1024 would end at five hundred of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@asynccontextmanager
async def open_native(*, quota: Quota | None = None, pool: int = 0, user: int | None = None) -> AsyncGenerator[NativeBackend]:
    """The native backend for as long as the context lasts; `pool` sandboxes of each used image are kept ready.

    `user`: make sandboxes with the power of that user id instead of root's, as an ordinary user would have them.
    """
    path = await anyio.to_thread.run_sync(find_program)
    _raise_open_files()
    cgroups = find_cgroups() if user is None else Cgroups(missing=dict.fromkeys(CONTROLLERS, "an ordinary user has none"))
    try:
        async with open_zygote(path, cgroups, user) as zygote, anyio.create_task_group() as tasks:
            backend = NativeBackend(zygote, tasks, quota or Quota(), pool)
            try:
                yield backend
            finally:
                with anyio.move_on_after(10, shield=True):
                    await backend.close()
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:  # our tasks raise nothing: the one error in it is the caller's own
        raise unwrapped(group) from None
