"""The native backend: sandboxes from Linux namespaces, without a daemon.

A machine runs on a stack of read-only layers and writes to a layer of its own in memory. Freezing turns that layer into one more
of the stack: it costs nothing to take, and can be forked any number of times.
"""

import logging
import resource
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from sandlot.sandbox.backend import MachineBackend, open_backend
from sandlot.sandbox.changes import survey_of
from sandlot.sandbox.images.image import SandboxImage, unwritable_error
from sandlot.sandbox.images.spec import find_image
from sandlot.sandbox.link.machine import Entries
from sandlot.sandbox.link.wire import Listing
from sandlot.sandbox.native.cgroup import CONTROLLERS, Cgroups, find_cgroups
from sandlot.sandbox.native.files import NativeFiles
from sandlot.sandbox.native.machine import NativeBase, NativeMachine, start_native_machine
from sandlot.sandbox.native.probe import native_capabilities
from sandlot.sandbox.native.zygote import OverlayLayer, OverlayTree, Zygote, open_zygote
from sandlot.sandbox.program import find_program
from sandlot.sandbox.quota import Quota

_log = logging.getLogger(__name__)

_AT_ONCE = 16
"""Machines being started at the same time; more would only wait for each other inside the kernel."""


class NativeMachines:
    """Machines from a zygote (`Machines`). One that was killed takes its machines with it; those after it get another."""

    def __init__(self, zygote: Zygote, renew: Callable[[], Awaitable[Zygote]], tasks: TaskGroup, quota: Quota) -> None:
        self.zygote = zygote
        self._renew = renew
        self._tasks = tasks
        self._quota = quota
        self._images: dict[str, tuple[SandboxImage, NativeBase]] = {}
        self._starting = anyio.CapacityLimiter(_AT_ONCE)
        self._finding = anyio.Lock()

    async def prepare(self, image: str) -> None:
        """Find an image, and build it if it is not there."""
        await self._find(image)

    async def start(self, source: str | NativeFiles, seats: int = 0) -> NativeMachine:
        """A fresh machine on an image, by its name, or on frozen files."""
        base = await self._find(source) if isinstance(source, str) else await source.base()
        return await self._start(base, seats)

    async def freeze(self, machine: NativeMachine) -> NativeFiles:
        """End every process; the files are read by the same machine if it lives, and cost nothing until they are forked."""
        files = NativeFiles(machine, self._start)
        if not await machine.end_processes():
            await files.replace_reader()
        return files

    async def changed(self, machine: NativeMachine) -> Mapping[str, int]:
        """Every file that is not the image's, by absolute path: size in bytes."""
        return (await survey_of(Entries(await machine.machine.list_entries(Listing.CHANGED), 0))).sizes

    async def probe(self) -> Mapping[str, str]:
        """What is isolated on this machine, capability by capability; `no: why` where it is not."""
        await self._find("host")  # whether its files can be the sandbox's own is known once it was tried
        return native_capabilities(self.zygote)

    async def count(self) -> int:
        """Machines alive."""
        return await self.zygote.count()

    async def close(self) -> None:
        """Nothing is kept that does not end with the zygote."""

    async def _start(self, base: NativeBase, seats: int = 0) -> NativeMachine:
        async with self._starting:
            return await start_native_machine(self._tasks, base, self._quota, seats)

    async def _find(self, name: str) -> NativeBase:
        """An image by its name; the image object is kept, since it holds the files in the store."""
        if name not in self._images or self.zygote.is_gone:
            async with self._finding:
                if self.zygote.is_gone:
                    _log.warning("the process that starts sandboxes died, and all its sandboxes with it; another is started")
                    self.zygote = await self._renew()
                    self._images.clear()  # their layers were the dead one's
                if name not in self._images:
                    image = await anyio.to_thread.run_sync(find_image, name)
                    trees = [
                        OverlayTree(place, tuple([await self._layer(image, folder) for folder in folders]))
                        for place, folders in image.trees
                    ]
                    self._images[name] = image, NativeBase(self.zygote, tuple(trees), image.defaults)
        return self._images[name][1]

    async def _layer(self, image: SandboxImage, folder: Path) -> OverlayLayer:
        layer = await self.zygote.add_folder(folder)
        # `host` can be used as it is, and `probe` says what does not work; the files of any other image are there to be changed.
        if image.portable and not layer.owners_mapped:
            raise unwritable_error(image.name, folder)
        return layer


def _raise_open_files() -> None:
    """Each sandbox takes two descriptors here; the usual soft limit of 1024 would end at five hundred of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@asynccontextmanager
async def open_native(
    *, quota: Quota | None = None, pool: int = 0, user: int | None = None
) -> AsyncGenerator[MachineBackend[NativeMachine, NativeFiles]]:
    """The native backend for as long as the context lasts; `pool` sandboxes of each used image are kept ready.

    `user`: make sandboxes with the rights of that user id instead of root's, as an ordinary user would have them.
    """
    path = await anyio.to_thread.run_sync(find_program)
    _raise_open_files()
    async with AsyncExitStack() as zygotes:

        async def start() -> Zygote:
            none = Cgroups(missing=dict.fromkeys(CONTROLLERS, "an ordinary user has none"))
            return await zygotes.enter_async_context(open_zygote(path, find_cgroups() if user is None else none, user))

        first = await start()
        async with open_backend(lambda tasks: NativeMachines(first, start, tasks, quota or Quota()), pool) as backend:
            yield backend
