"""The zygote: one child process that starts sandboxes on request, and exits with this process.

Requests go over one SEQPACKET socket, one at a time; a started sandbox answers on its own socket.
"""

import itertools
import os
import socket
import struct
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from sandlot.core.errors import SandboxError, SandboxOutOfMemory
from sandlot.sandbox.link.wire import Fate, FrameKind, FrameReader, pack_frame, pack_text, take_failure, take_number
from sandlot.sandbox.native.cgroup import Cgroups
from sandlot.sandbox.native.subids import find_loan
from sandlot.sandbox.quota import Quota

_FIRST_ID = 0x2000_0000
"""Host id of root in the first sandbox when we are root, far from any user's. Each further sandbox has the next 65536 ids."""

HOSTNAME = "sandbox"

OUT_OF_MEMORY = "the sandbox used up its memory: the kernel killed process 1, and every process inside has ended with it"

_POLL_S = 0.005
_DYING_S = 5.0
"""Longest wait for the kernel to end the processes of a sandbox whose process 1 has died."""


@dataclass(frozen=True, slots=True)
class OverlayLayer:
    """A folder that the zygote holds open; a sandbox's files are a stack of such layers."""

    number: int
    is_image: bool
    owners_mapped: bool = True
    """False if we are root, and this file system does not support id-mapped mounts: files keep their owners."""


@dataclass(frozen=True, slots=True)
class OverlayTree:
    """One overlay of a sandbox's root."""

    mountpoint: str
    layers: tuple[OverlayLayer, ...]
    """Topmost first."""


@dataclass(frozen=True, slots=True)
class _Started:
    """A sandbox that is being started."""

    number: int
    """Its number in requests to the zygote."""
    sock: socket.socket
    """Our end of its socket; it is ready when it sends HELLO."""


class Zygote:
    """The running zygote."""

    def __init__(self, control: socket.socket, process: subprocess.Popen[bytes], cgroups: Cgroups) -> None:
        self._control = control
        self._process = process
        self._is_silent = False
        self._asking = anyio.Lock(fast_acquire=True)
        self._folders: dict[Path, OverlayLayer] = {}
        self._numbers = itertools.count(1)
        self.pid = process.pid
        self.cgroups = cgroups
        self.privileged = False
        self.num_ids = 1
        """Number of user and group ids in a sandbox."""
        self.why_one_id = ""
        """For an ordinary user: why there is only one."""
        self.owners_mapped = True
        """False if some image's files cannot be made to belong to the sandbox's root on its file system."""

    @property
    def is_gone(self) -> bool:
        """True if it has died, and with it every sandbox."""
        return self._is_silent or self._process.poll() is not None

    async def configure(self, user: int) -> None:
        """Let it set up its namespaces, with the subordinate ids of its user."""
        folders = b"".join(pack_text(str(folder)) for folder in self.cgroups.folders)
        users, groups = (
            find_loan(user, Path(f"/etc/{file}"), program) for file, program in (("subuid", "newuidmap"), ("subgid", "newgidmap"))
        )
        loans = b"".join(pack_text(loan.program) + struct.pack("<II", loan.first, loan.count) for loan in (users, groups))
        payload = struct.pack("<II", _FIRST_ID, len(self.cgroups.folders)) + folders + loans
        value = await self._ask(FrameKind.CONFIGURE, payload)
        self.privileged = bool(value & 1)
        self.num_ids = value >> 1
        self.why_one_id = users.missing or groups.missing or f"`{users.program}` refused"

    async def add_folder(self, path: Path) -> OverlayLayer:
        """Add a folder of the host as a read-only layer; the same folder is added once."""
        if path not in self._folders:
            value = await self._ask(FrameKind.ADD_FOLDER, pack_text(str(path)))
            mapped = bool(value >> 32) or not self.privileged
            self.owners_mapped &= mapped
            self._folders[path] = OverlayLayer(number=value & 0xFFFF_FFFF, is_image=True, owners_mapped=mapped)
        return self._folders[path]

    async def add_upper(self, sandbox: int, fd: int) -> OverlayLayer:
        """Add what a frozen sandbox wrote as a layer, by its descriptor."""
        value = await self._ask(FrameKind.ADD_UPPER, sandbox.to_bytes(8, "little"), fd)
        return OverlayLayer(number=value & 0xFFFF_FFFF, is_image=False)

    async def drop_layer(self, layer: OverlayLayer) -> None:
        """Drop a layer; running sandboxes on it keep it until they end."""
        await self._ask(FrameKind.DROP_LAYER, struct.pack("<I", layer.number))

    async def count(self) -> int:
        """Number of live sandboxes: any left after all were closed are a leak."""
        return await self._ask(FrameKind.COUNT, b"")

    async def cause_of_death(self, sandbox: int) -> SandboxError:
        """The error for a sandbox whose connection broke. Waits while the kernel still ends its processes."""
        fate = Fate.LIVES
        with anyio.move_on_after(_DYING_S):
            while fate is Fate.LIVES:
                try:
                    fate = await self._fate(sandbox)
                except SandboxError:
                    break  # the zygote died, and with it every sandbox
                if fate is Fate.LIVES:
                    await anyio.sleep(_POLL_S)
        if fate is Fate.OUT_OF_MEMORY:
            return SandboxOutOfMemory(OUT_OF_MEMORY)
        return SandboxError("the sandbox died", kind="died")

    async def kill_sandbox(self, sandbox: int) -> None:
        """Kill every process of a sandbox from outside, process 1 too."""
        await self._ask(FrameKind.END, sandbox.to_bytes(8, "little"))

    async def wait_ended(self, sandbox: int) -> None:
        """Wait until no process of a sandbox is left. What it wrote stays as long as somebody holds it."""
        while await self._fate(sandbox) is Fate.LIVES:  # noqa: ASYNC110 - the kernel ends them, and sets no event
            await anyio.sleep(_POLL_S)

    async def _fate(self, sandbox: int) -> Fate:
        return Fate(await self._ask(FrameKind.FATE, sandbox.to_bytes(8, "little")))

    async def weigh(self, sandbox: int, *, low: bool) -> None:
        """Let a sandbox's processes run only when no others want to, or as all others. It ends with the sandbox."""
        async with self._asking:
            with suppress(SandboxError):  # the zygote died, and with it every sandbox
                await self._send(pack_frame(FrameKind.WEIGH, 0, sandbox.to_bytes(8, "little") + bytes((low,))), None)

    async def start(self, trees: Sequence[OverlayTree], quota: Quota, seats: int = 0) -> _Started:
        """Request a sandbox; returns at once. `seats`: users in it who must not see each other's processes."""
        number = next(self._numbers)
        lines = self.cgroups.lines(quota)
        data_bytes = 0 if "memory" in self.cgroups.place else quota.memory_bytes
        payload = b"".join(
            (
                number.to_bytes(8, "little"),
                pack_text(HOSTNAME),
                struct.pack("<QQQII", quota.disk_bytes, quota.inodes, data_bytes, quota.open_files, quota.pids),
                struct.pack("<I", len(trees)),
                *(_pack_tree(tree) for tree in trees),
                struct.pack("<I", len(lines)),
                *(struct.pack("<I", index) + pack_text(file) + pack_text(value) for index, file, value in lines),
                struct.pack("<I", seats),
            )
        )
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)  # noqa: FBT003 - the socket module's own signature
        try:
            async with self._asking:
                await self._send(pack_frame(FrameKind.START, 0, payload), theirs.fileno())
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return _Started(number, ours)

    async def _ask(self, kind: FrameKind, payload: bytes, fd: int | None = None) -> int:
        async with self._asking:
            with anyio.CancelScope(shield=True):  # otherwise the next request would read this answer
                await self._send(pack_frame(kind, 0, payload), fd)
                await anyio.wait_readable(self._control)
            try:
                data = self._control.recv(65536)
            except OSError:  # killed before it had read the request
                data = b""
        frames = FrameReader().feed(data)
        if not frames:
            self._is_silent = True
            raise SandboxError("the sandbox zygote died", kind="died")
        if frames[0].kind == FrameKind.FAILED:
            number, message = take_failure(frames[0].payload)
            raise SandboxError(f"the sandbox zygote cannot {message} (error {number})", kind="start")
        return take_number(frames[0].payload)

    async def _send(self, data: bytes, fd: int | None) -> None:
        while True:
            try:
                socket.send_fds(self._control, [data], [fd] if fd is not None else [])
            except BlockingIOError:
                await anyio.wait_writable(self._control)
            except OSError as error:
                self._is_silent = True
                raise SandboxError(f"the sandbox zygote died ({error})", kind="died") from error
            else:
                return

    async def end(self) -> None:
        """Close it, and wait until it and every sandbox have ended."""
        self._control.close()
        await anyio.to_thread.run_sync(self._process.wait, abandon_on_cancel=True)
        with anyio.move_on_after(_DYING_S):
            while not self.cgroups.remove():  # noqa: ASYNC110 - sandboxes of a killed zygote end a moment after it
                await anyio.sleep(0.01)


def _pack_tree(tree: OverlayTree) -> bytes:
    layers = b"".join(struct.pack("<IB", layer.number, layer.is_image) for layer in tree.layers)
    return pack_text(tree.mountpoint) + struct.pack("<I", len(tree.layers)) + layers


@asynccontextmanager
async def open_zygote(program: Path, cgroups: Cgroups, user: int | None = None) -> AsyncGenerator[Zygote]:
    """A zygote for as long as the context lasts, as another user if `user` is given. It gets no environment variables."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)  # noqa: FBT003 - the socket module's own signature
    with theirs:
        process = _launch(program, theirs.fileno(), user)
    zygote = Zygote(ours, process, cgroups)
    try:
        await zygote.configure(os.geteuid() if user is None else user)
        yield zygote
    finally:
        with anyio.move_on_after(10, shield=True):
            await zygote.end()


def _launch(program: Path, control: int, user: int | None) -> subprocess.Popen[bytes]:
    """Sandboxes see its name and arguments as those of their process 1, so they reveal nothing."""
    return subprocess.Popen(
        ["init", "zygote"],  # noqa: S607 - the visible name, not a path
        executable=os.fspath(program),
        stdin=control,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        start_new_session=True,  # Ctrl-C must reach only this process, which then closes its sandboxes
    )
