"""A machine made by a Docker engine: the agent as first process of what the engine made, and the link over its streams.

The agent's program is mounted read-only at `/dev/init`, where it leaves no trace in the image or in what was written. It dies
when its input closes, which the engine does when our connection ends, and the engine removes what has ended: so nothing outlives
us, even when we are killed.
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
"""From asking the engine to the agent's first word, on a machine where many start at once."""

CAPABILITIES = (*("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "NET_BIND_SERVICE", "SYS_CHROOT"),)
"""What a root user needs to install and run software; the same nine as in a native sandbox."""

MOUNTED = {
    "/etc/hostname": f"{HOSTNAME}\n".encode(),
    "/etc/hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost\n".encode(),
    "/etc/resolv.conf": b"",
}
"""Files the engine mounts over every image's. They are no part of what it commits, and would say something about the host."""


_MOST_PATHS = 200_000
_MOST_PATH_BYTES = 64 << 20
"""Changed paths that are read from the engine's folder: so many, and so many characters of them. An agent decides how many."""


class TouchedPaths(NamedTuple):
    """Paths that may differ from the pristine image, as far as they are listed."""

    paths: frozenset[str]
    left_out: int = 0
    """Paths and folders that were seen and are not in `paths`."""


_NOTHING = TouchedPaths(frozenset())


@dataclass(frozen=True, slots=True)
class DockerBase:
    """What a machine starts from."""

    image: str
    """The engine's id."""
    pristine: str
    """The id of the image the user named: what changes are told against."""
    defaults: CommandDefaults
    """What the image wants every command to start with."""
    mounted: Mapping[str, bytes]
    """What the files the engine mounts hold."""
    changed: TouchedPaths = _NOTHING
    """Paths in which `image` already differs from `pristine`, as the engine shows them."""


class DockerMachine:
    """A live agent; `machine` is what it offers."""

    def __init__(self, docker: DockerApi, container: str, machine: Machine, base: DockerBase) -> None:
        self._docker = docker
        self.container = container
        self.machine = machine
        self.base = base

    async def changed_paths(self) -> TouchedPaths:
        """Every path that may differ from the pristine image, except for the mounted files; names as `shown` shows them.

        Found in the folder the engine keeps for it, if we may look there: the engine itself compares every file of the image,
        which took it a hundred times as long for a small one.
        """
        upper = await self._docker.upper_folder(self.container)
        try:
            if upper is not None:
                return self.add_base_changes(await anyio.to_thread.run_sync(list_paths, upper))
        except OSError:
            pass  # another user's, or another machine's
        return self.add_base_changes(TouchedPaths(frozenset(await self._docker.changed_paths(self.container))))

    def add_base_changes(self, touched: TouchedPaths) -> TouchedPaths:
        """What its base had changed, and this."""
        return TouchedPaths(self.base.changed.paths | touched.paths, self.base.changed.left_out + touched.left_out)

    async def read_mounted(self) -> dict[str, bytes]:
        """What the files the engine mounts hold now."""
        return {path: await self.machine.read(path) for path in MOUNTED}

    async def commit(self) -> DockerBase:
        """Its files as something others can start from. It must be frozen."""
        return DockerBase(
            image=await self._docker.commit(self.container),
            pristine=self.base.pristine,
            defaults=self.base.defaults,
            mounted=await self.read_mounted(),
            changed=await self.changed_paths(),
        )

    async def close(self) -> None:
        """End it; returns when the engine has removed it."""
        await self.machine.close()
        await _wait_removed(self._docker, self.container)


def json_name(name: str) -> str:
    """A name as the engine's JSON shows it: every byte that is not text became the same mark."""
    return "".join("\ufffd" if "\udc80" <= letter <= "\udcff" else letter for letter in name)


def list_paths(folder: str, most: int = _MOST_PATHS, most_bytes: int = _MOST_PATH_BYTES) -> TouchedPaths:
    """The paths below a folder of the host, as seen from it, nearest first. No file is opened, no link is followed."""
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
            if error.errno != errno.ENAMETOOLONG:  # deeper than anyone can name: the folder itself is in the list
                raise
    return TouchedPaths(frozenset(found), left_out + len(waiting) if left_out else 0)


async def _wait_removed(docker: DockerApi, container: str) -> None:
    """Wait for a machine whose agent was told to end; if it does not, end it."""
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
        with anyio.CancelScope(shield=True):  # cancelled in between, it would be there and nobody would know its name
            container = await docker.create(_container_config(base, quota, program, labels))
        link: Link | None = None
        try:
            link = Link(await docker.attach(container), partial(_cause_of_death, docker, container))
            await docker.start(container)
            await link.read_hello()
            tasks.start_soon(link.run)
            made = DockerMachine(docker, container, Machine(link, -1, quota, base.defaults), base)
            await _write_mounted(made.machine, base.mounted)
        except BaseException:
            with anyio.move_on_after(10, shield=True):
                if link is not None:
                    link.close()
                await docker.remove(container)
            raise
    return made


async def _cause_of_death(docker: DockerApi, container: str) -> SandboxError:
    """The error for a machine whose connection broke."""
    with suppress(SandboxError):  # an engine that does not answer says nothing about the cause
        if await docker.was_out_of_memory(container):
            return SandboxOutOfMemory(OUT_OF_MEMORY)
    return SandboxError("the sandbox died", kind="died")


async def _write_mounted(machine: Machine, mounted: Mapping[str, bytes]) -> None:
    async with anyio.create_task_group() as group:
        for path, data in mounted.items():
            group.start_soon(machine.write, path, data)


def _container_config(base: DockerBase, quota: Quota, program: Path, labels: Mapping[str, str]) -> dict[str, Any]:
    """What the engine is asked for. Whatever the image would run, check or log is replaced or switched off."""
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
