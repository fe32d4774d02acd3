"""A machine of a Docker engine: a container with our agent as its first process, and the link over its streams.

The agent's program is mounted read-only at `/dev/init`, so it does not show up in the image or in what was written. It exits when
its input closes. The engine closes the input when our connection ends, and removes containers that have ended, so nothing is left
when this process ends or is killed.
"""

import errno
import os
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from sandlot.core.concurrency.clock import deadline
from sandlot.core.errors import SandboxError, SandboxOutOfMemory
from sandlot.sandbox.defaults import CommandDefaults
from sandlot.sandbox.docker.api import DockerApi
from sandlot.sandbox.link.link import Link
from sandlot.sandbox.link.machine import Machine
from sandlot.sandbox.native.cgroup import PERIOD_US, socket_bytes
from sandlot.sandbox.native.zygote import HOSTNAME, OUT_OF_MEMORY
from sandlot.sandbox.quota import Quota

_AGENT = "/dev/init"
_START_S = 120.0
"""Longest time from the call to the engine to the agent's first message, while many machines start at once."""

CAPABILITIES = (*("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "NET_BIND_SERVICE", "SYS_CHROOT"),)
"""What root needs to install and run software; the same nine as in a native sandbox."""

MOUNTED = {
    "/etc/hostname": f"{HOSTNAME}\n".encode(),
    "/etc/hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost\n".encode(),
    "/etc/resolv.conf": b"",
}
"""Files that the engine mounts over those of every image. It does not commit them, and its own would tell about the host."""


_MOST_PATHS = 200_000
_MOST_PATH_BYTES = 64 << 20
"""Limits of the changed paths that are read from the engine's folder: their number and their length in all."""


class TouchedPaths(NamedTuple):
    """Paths that may differ from the pristine image, as far as they are listed."""

    paths: frozenset[str]
    left_out: int = 0
    """Number of paths and folders that are not in `paths`."""


_NOTHING = TouchedPaths(frozenset())


@dataclass(frozen=True, slots=True)
class DockerBase:
    """What a machine starts from."""

    image: str
    """Its id."""
    pristine: str
    """The id of the image that the user named; changes are relative to it."""
    defaults: CommandDefaults
    """The image's defaults for commands."""
    mounted: Mapping[str, bytes]
    """Contents of the files that the engine mounts."""
    changed: TouchedPaths = _NOTHING
    """Paths in which `image` already differs from `pristine`; names as in `json_name`."""


class DockerMachine:
    """A running container with its agent; `machine` has the operations."""

    def __init__(self, docker: DockerApi, container: str, machine: Machine, base: DockerBase) -> None:
        self._docker = docker
        self.container = container
        self.machine = machine
        self.base = base

    @property
    def is_gone(self) -> bool:
        """True if it has died."""
        return self.machine.link.is_gone

    async def changed_paths(self) -> TouchedPaths:
        """Every path that may differ from the pristine image, without the mounted files; names as in `json_name`.

        They are read from the engine's folder for the container if we may: the engine's own call compares every file of the
        image, and took a hundred times as long for a small one.
        """
        upper = await self._docker.upper_folder(self.container)
        try:
            if upper is not None:
                return self.add_base_changes(await anyio.to_thread.run_sync(list_paths, upper))
        except OSError:
            pass  # another user's, or another machine's
        return self.add_base_changes(TouchedPaths(frozenset(await self._docker.changed_paths(self.container))))

    def add_base_changes(self, touched: TouchedPaths) -> TouchedPaths:
        """These paths and those that differ already in its base."""
        return TouchedPaths(self.base.changed.paths | touched.paths, self.base.changed.left_out + touched.left_out)

    async def read_mounted(self) -> dict[str, bytes]:
        """The present contents of the files that the engine mounts."""
        return {path: await self.machine.read(path) for path in MOUNTED}

    async def commit(self) -> DockerBase:
        """Make an image of its files, for others to start from. It must be frozen."""
        return DockerBase(
            image=await self._docker.commit(self.container),
            pristine=self.base.pristine,
            defaults=self.base.defaults,
            mounted=await self.read_mounted(),
            changed=await self.changed_paths(),
        )

    async def close(self) -> None:
        """End it, and wait until the engine has removed it."""
        self.machine.link.close()
        await _wait_removed(self._docker, self.container)


def json_name(name: str) -> str:
    """A name as in the engine's JSON: every byte that is not UTF-8 is U+FFFD."""
    return "".join("\ufffd" if "\udc80" <= letter <= "\udcff" else letter for letter in name)


def list_paths(folder: str, most: int = _MOST_PATHS, most_bytes: int = _MOST_PATH_BYTES) -> TouchedPaths:
    """The paths below a folder of the host, relative to it, nearest first. No file is opened, no link is followed."""
    found: list[str] = []
    waiting = deque([folder])
    left_out = 0
    while waiting and not left_out:
        try:
            with os.scandir(waiting.popleft()) as entries:
                for entry in entries:
                    most_bytes -= len(entry.path)
                    if most_bytes < 0 or len(found) == most:
                        left_out += 1
                        continue
                    found.append(json_name(entry.path[len(folder) :]))
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:  # too deep to open; the folder itself is in the list
                raise
    return TouchedPaths(frozenset(found), left_out + len(waiting) if left_out else 0)


async def _wait_removed(docker: DockerApi, container: str) -> None:
    """Wait until a closed machine's container is removed; if that takes too long, remove it by force."""
    with anyio.move_on_after(5):
        await docker.wait_removed(container)
        return
    await docker.remove(container)


async def start_docker_machine(
    docker: DockerApi, tasks: TaskGroup, base: DockerBase, quota: Quota, *, program: Path, labels: Mapping[str, str]
) -> DockerMachine:
    """A fresh machine, ready for commands; its reader runs in `tasks` until it is closed."""
    container = ""
    with deadline(_START_S, SandboxError, "starting a sandbox"):
        with anyio.CancelScope(shield=True):  # cancelled in between, the container would exist and its id would be lost
            container = await docker.create(_container_config(base, quota, program, labels))
        link: Link | None = None
        try:
            link = Link(await docker.attach(container), partial(_cause_of_death, docker, container))
            await docker.start(container)
            await link.read_hello()
            tasks.start_soon(link.run)
            made = DockerMachine(docker, container, Machine(link, quota, base.defaults), base)
            async with anyio.create_task_group() as writing:
                for path, data in base.mounted.items():
                    writing.start_soon(made.machine.write, path, data)
        except BaseException:
            with anyio.move_on_after(10, shield=True):
                if link is not None:
                    link.close()
                await docker.remove(container)
            raise
    return made


async def _cause_of_death(docker: DockerApi, container: str) -> SandboxError:
    """The error for a machine whose connection broke."""
    with suppress(SandboxError):  # without a reply of the engine the cause is unknown
        if await docker.was_out_of_memory(container):
            return SandboxOutOfMemory(OUT_OF_MEMORY)
    return SandboxError("the sandbox died", kind="died")


def _container_config(base: DockerBase, quota: Quota, program: Path, labels: Mapping[str, str]) -> dict[str, Any]:
    """The container's configuration. Whatever the image would run, check or log is replaced or switched off."""
    limit = {"Soft": quota.open_files, "Hard": quota.open_files}
    return {
        "Image": base.image,
        "Entrypoint": [_AGENT],
        "Cmd": ["agent"],
        "User": "0:0",
        "WorkingDir": "/",
        "Hostname": HOSTNAME,
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": False,
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": dict(labels),
        "HostConfig": {
            "AutoRemove": True,
            "NetworkMode": "none",
            "IpcMode": "private",
            "LogConfig": {"Type": "none"},
            "Mounts": [{"Type": "bind", "Source": str(program), "Target": _AGENT, "ReadOnly": True}],
            "CapDrop": ["ALL"],
            "CapAdd": list(CAPABILITIES),
            "SecurityOpt": ["no-new-privileges"],
            "Memory": quota.memory_bytes,
            "MemorySwap": quota.memory_bytes,
            "KernelMemoryTCP": socket_bytes(quota),  # cgroup version 1 only; elsewhere the engine leaves it out
            "CpuPeriod": PERIOD_US,
            "CpuQuota": max(1000, int(quota.cpus * PERIOD_US)),
            "PidsLimit": quota.pids,
            "Ulimits": [{"Name": "nofile", **limit}, {"Name": "core", "Soft": 1, "Hard": 1}],
        },
    }
