"""The docker backend: the same sandboxes, made by a Docker engine on this machine.

The first process of each container is our own agent, spoken to over its attached streams: a command costs a message, not an
`exec` of the engine. A frozen machine is committed as an image only when another one is started on its files, which takes the
engine some tenths of a second, and room on its disk until the sandbox is closed.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from sandlot.core.errors import ConfigError
from sandlot.sandbox.backend import MachineBackend, open_backend
from sandlot.sandbox.docker.api import DockerApi, find_socket, open_docker_api
from sandlot.sandbox.docker.files import DockerFiles, survey_machine
from sandlot.sandbox.docker.image import find_docker_image
from sandlot.sandbox.docker.machine import DockerBase, DockerMachine, start_docker_machine
from sandlot.sandbox.docker.probe import docker_capabilities
from sandlot.sandbox.link.machine import Machine
from sandlot.sandbox.owner import owner_is_dead, owner_labels
from sandlot.sandbox.pool import close_machines
from sandlot.sandbox.program import find_program
from sandlot.sandbox.quota import Quota

_AT_ONCE = 8
"""Machines being started at the same time; an engine does most of it one after another."""

_RUN = "sandlot.run"
"""The label of everything made by one process of ours."""


class _DockerMachines:
    """Machines from a Docker engine (`Machines`)."""

    def __init__(self, docker: DockerApi, tasks: TaskGroup, quota: Quota, agent: Path) -> None:
        self.docker = docker
        self._tasks = tasks
        self._quota = quota
        self._agent = agent
        self._labels = owner_labels()
        self._bases: dict[str, DockerBase] = {}
        self._pristine: dict[str, DockerMachine] = {}
        self._starting = anyio.CapacityLimiter(_AT_ONCE)
        self._finding = anyio.Lock()

    async def prepare(self, image: str) -> None:
        """Find an image, and build it if it is not there."""
        await self._find(image)

    async def start(self, source: str | DockerFiles, seats: int = 0) -> DockerMachine:
        """A fresh machine on an image, by its name, or on frozen files."""
        if seats:
            raise ConfigError("Docker cannot hide the processes of seats from each other; use `--sandbox native`")
        return await self._start(await self._find(source) if isinstance(source, str) else await source.base())

    async def freeze(self, machine: DockerMachine) -> DockerFiles:
        """End every process; the files are read by the same machine."""
        await machine.machine.kill_all(freeze=True)
        return DockerFiles(self.docker, machine, self.pristine)

    async def changed(self, machine: DockerMachine) -> Mapping[str, int]:
        """Every file that is not the image's, by absolute path: size in bytes."""
        return (await survey_machine(machine, self.pristine)).sizes

    async def pristine(self, base: DockerBase) -> Machine:
        """A machine on the untouched image, to compare with; one for each image, started when first needed."""
        async with self._finding:
            known = self._pristine.get(base.pristine)
            if known is None or known.is_gone:
                named = next(each for each in self._bases.values() if each.image == base.pristine)
                known = self._pristine[base.pristine] = await self._start(named)
            return known.machine

    async def probe(self) -> Mapping[str, str]:
        """What is isolated on this machine, capability by capability; `no: why` where it is not."""
        return docker_capabilities(await self.docker.info(), self.docker.version)

    async def count(self) -> int:
        """Containers of this process, without those that are kept to compare with."""
        containers = await self.docker.containers(f"{_RUN}={self._labels[_RUN]}")
        return len({each.id for each in containers} - {machine.container for machine in self._pristine.values()})

    async def close(self) -> None:
        """Close the machines that were kept to compare with."""
        machines = list(self._pristine.values())
        self._pristine.clear()
        await close_machines(machines)

    async def _start(self, base: DockerBase) -> DockerMachine:
        async with self._starting:
            return await start_docker_machine(
                self.docker, self._tasks, base, self._quota, program=self._agent, labels=self._labels
            )

    async def _find(self, name: str) -> DockerBase:
        async with self._finding:
            if name not in self._bases:
                self._bases[name] = await find_docker_image(self.docker, name)
            return self._bases[name]


@asynccontextmanager
async def open_docker(
    socket: str = "", *, quota: Quota | None = None, pool: int = 0
) -> AsyncGenerator[MachineBackend[DockerMachine, DockerFiles]]:
    """The docker backend for as long as the context lasts; `pool` sandboxes of each used image are kept ready.

    `socket`: the engine's, if it is not `$DOCKER_HOST` or the usual one.
    """
    path = find_socket(socket)
    agent = await anyio.to_thread.run_sync(find_program)
    async with open_docker_api(path) as docker:
        await _remove_leftovers(docker)
        async with open_backend(lambda tasks: _DockerMachines(docker, tasks, quota or Quota(), agent), pool) as backend:
            yield backend


async def _remove_leftovers(docker: DockerApi) -> None:
    """Remove the containers and images of Sandlot processes that have died."""
    for container in await docker.containers(_RUN):
        if owner_is_dead(container.labels or {}):
            await docker.remove(container.id)
    for image in await docker.images(_RUN):
        if owner_is_dead(image.labels or {}):
            await docker.remove_image(image.id)
