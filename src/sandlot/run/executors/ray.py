"""Rollouts on a Ray cluster: `sandlot run ENV --on ray`, `--on ray:16`, `--on ray:HOST:6379`.

Ray places the workers, carries the messages and notices deaths. Each worker is an actor with one CPU (`ray_worker.py`) that does
what a worker process does, with the same messages: it is told orders, and asked for what it has to say, many messages at a time.
One that dies is replaced by a new actor, which Ray places wherever there is room. A message lost with its actor is a rollout that
is taken again.

Without a number there are as many workers as the cluster has CPUs, and more when nodes join. Workers that find no room wait for
it, which an autoscaler sees as demand.

This process must run on one of the cluster's nodes. Ray's client server (`ray://HOST:PORT`), which would let it run elsewhere, is
refused: that server forks a process for each connection beside its gRPC threads, and the process may die at once
(ray-project/ray, issue 63202). From elsewhere the command is submitted as a Ray job, as Ray's makers recommend.
"""

import logging
import os
import re
import signal
import socket
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from sandlot.core.errors import ConfigError, HarnessError, boundary, unwrapped
from sandlot.run.executors.executor import ExecutorPlan
from sandlot.run.executors.messages import (
    CancelRollout,
    FromWorker,
    GradeRollout,
    SetUp,
    TakeRollout,
    WorkerReady,
    WorkerRefused,
)
from sandlot.run.executors.pool import END_S, START_S, WorkerPool
from sandlot.run.executors.ray_worker import ActorPlace, RayWorker
from sandlot.run.executors.setup import MOST_WORKERS, pack_files, setup_of
from sandlot.store.entry import encode_escaped

_ROOM_S = 900.0
"""Time for the first worker to find room: an autoscaler needs minutes for a node."""
_ANSWER_S = 10.0
"""Time for a cluster's port to take a connection."""
_LOOK_S = 5.0
"""Between two looks at how many CPUs the cluster has."""
_OBJECT_STORE_BYTES = 200_000_000
"""Of a Ray that is started here: only large results pass through its store."""
_log = logging.getLogger(__name__)
_ADDRESS = re.compile(r"auto|local|([\w.-]+|\[[0-9a-fA-F:]+\]):\d{1,5}")
_CLIENT = "ray://"


@dataclass(slots=True)
class _RayLink:
    """An actor of ours that is ready."""

    ray: Any
    actor: Any
    place: ActorPlace
    serving: Any
    """The call of `serve`."""
    error: BaseException | None = None
    at_once: None = None
    decoder: msgspec.msgpack.Decoder[FromWorker] = field(default_factory=lambda: msgspec.msgpack.Decoder(FromWorker))

    @property
    def pid(self) -> int:
        return self.place.pid

    async def send(self, message: TakeRollout | GradeRollout | CancelRollout) -> None:
        try:
            await self.actor.tell.remote(encode_escaped(message))
        except self.ray.exceptions.RayError as error:
            self.error = error
            self.ray.kill(self.actor)  # an order is lost, perhaps without its death: what it has is taken again elsewhere
            raise anyio.BrokenResourceError from error

    async def messages(self) -> AsyncGenerator[FromWorker]:
        while True:
            try:
                heard: list[bytes] = await self.actor.hear.remote()
            except self.ray.exceptions.RayError as error:
                self.error = error
                return
            if not heard:
                return
            for each in heard:
                try:
                    message = self.decoder.decode(each)
                except msgspec.DecodeError as error:
                    self.error = error
                    return  # whoever sends this is not to be trusted with more
                yield message

    async def describe_end(self) -> str:
        if self.error is None:
            with anyio.move_on_after(END_S):
                try:
                    await self.serving
                except self.ray.exceptions.RayError as error:
                    self.error = error
        return f"a Ray worker (process {self.place.pid} on {self.place.host}) ended: {_reason_of(self.error)}"


def _reason_of(error: BaseException | None) -> str:
    """One line of what Ray says about a death."""
    if error is None:
        return "it stopped"
    text = str(error)
    found = re.search(r"The actor is dead because (.+)", text) or re.search(r"Worker exit detail: (.+)", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (found[1] if found else lines[-1] if lines else type(error).__name__)[:300]


class _Starter:
    """Starts actors for one run."""

    def __init__(self, ray: Any, setup: SetUp) -> None:
        self._ray = ray
        self._actors = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD")(RayWorker)
        self._setup = ray.put(encode_escaped(setup))  # once for each machine

    @asynccontextmanager
    async def start(self) -> AsyncGenerator[_RayLink]:
        """An actor that is ready, until the block ends. It waits for room as long as there is none."""
        actor: Any = self._actors.remote()
        serving: Any = None
        try:
            place = await self._find_place(actor)
            serving = actor.serve.remote(self._setup, str(Path.cwd()))
            link = _RayLink(self._ray, actor, place, serving)
            await _require_ready(link)
            yield link
        finally:
            with anyio.CancelScope(shield=True):
                await self._end(actor, serving)

    async def _find_place(self, actor: Any) -> ActorPlace:
        try:
            place: ActorPlace = await actor.place.remote()
        except self._ray.exceptions.RayError as error:
            raise HarnessError(
                f"a Ray worker could not start: {_reason_of(error)}; "
                f"every node needs this Python, Ray {self._ray.__version__} and Sandlot {version('sandlot')}"
            ) from error
        if place.sandlot != version("sandlot"):
            raise ConfigError(f"Ray node {place.host} has Sandlot {place.sandlot}, this is {version('sandlot')}; use one version")
        return place

    async def _end(self, actor: Any, serving: Any) -> None:
        """Let the worker close its worlds, then remove it."""
        if serving is not None:
            with anyio.move_on_after(END_S), suppress(self._ray.exceptions.RayError):
                await actor.end.remote()
                await serving
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(actor)


async def _require_ready(link: _RayLink) -> None:
    try:
        with anyio.fail_after(START_S):
            first = await anext(link.messages(), None)
    except TimeoutError as error:
        raise HarnessError(f"a Ray worker on {link.place.host} was not ready after {START_S:g} s") from error
    match first:
        case WorkerReady():
            return
        case WorkerRefused(reason=reason) as refused:
            raise msgspec.structs.replace(refused, reason=f"Ray node {link.place.host}: {reason}").as_error()
        case _:
            raise HarnessError(f"{await link.describe_end()}, before it was ready")


@dataclass(frozen=True, slots=True)
class RayPlace:
    """Which cluster, and how many workers."""

    address: str | None
    """As `ray.init` takes it. None: `RAY_ADDRESS`, else the Ray that runs on this machine, else one that is started."""
    count: int | None
    """None for one worker on each CPU of the cluster."""


def read_ray_place(given: str) -> RayPlace:
    """The cluster and the number of workers in what follows `ray:`."""
    if given.startswith("//"):
        given = f"ray:{given}"
    _refuse_client_server(given.partition("@")[2] or given)
    number, mark, address = given.partition("@")
    if not mark and not number.isdecimal():
        number, address = "", given
    if number and not (number.isdecimal() and 1 <= int(number) <= MOST_WORKERS):
        raise ConfigError(f"`ray:{given}`: give a number of workers from 1 to {MOST_WORKERS}, such as `ray:4`")
    if (address or mark) and not _ADDRESS.fullmatch(address):
        raise ConfigError(
            f"`ray:{given}`: `{address}` is no address of a Ray cluster; write `ray:HOST:6379` or `ray:auto` on one of "
            "its nodes, or `ray:N@ADDRESS` for N workers"
        )
    return RayPlace(address or None, int(number) if number else None)


def _refuse_client_server(address: str) -> None:
    """`ConfigError` for the address of a client server, with what to do instead."""
    if address.startswith(_CLIENT):
        host = address.removeprefix(_CLIENT).rpartition(":")[0] or "HOST"
        raise ConfigError(
            f"`{address}` is Ray's client server, which is not used: connections to it fail at random (Ray's issue 63202). On "
            f"one of the cluster's nodes, write `--on ray:{host}:6379` or `--on ray:auto`; from elsewhere, submit that command "
            f"to the cluster: `ray job submit --address http://{host}:8265 -- sandlot run ... --on ray:auto`"
        )


def import_ray() -> Any:
    """The package `ray`; `ConfigError` with the install command if it is missing."""
    try:
        return import_module("ray")
    except ImportError as error:
        raise ConfigError(
            f"`--on ray` needs the package `ray`, which cannot be imported ({error}); install it: pip install 'sandlot[ray]'"
        ) from error


class _Connection:
    """The connection to Ray. A process has only one, which all its runs share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._ours = False
        self._address: str | None = None

    def open(self, ray: Any, place: RayPlace) -> None:
        """Connect, unless that is done: by another run, or by the program that calls us."""
        with self._lock:
            if self._users and self._ours and place.address != self._address:
                raise ConfigError(f"this process uses Ray at `{self._address or 'ray'}` already; one process uses one cluster")
            if not self._users:
                self._ours, self._address = not ray.is_initialized(), place.address
                if self._ours:
                    _connect(ray, place)
            self._users += 1

    def close(self, ray: Any) -> None:
        """Disconnect after the last run, and end a Ray that was started here."""
        with self._lock:
            self._users -= 1
            if not self._users and self._ours:
                ray.shutdown()


_CONNECTION = _Connection()


def _connect(ray: Any, place: RayPlace) -> None:
    # Prints of workers stay in Ray's own logs: this process's output is a result.
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    address = place.address or os.environ.get("RAY_ADDRESS")
    _refuse_client_server(address or "")
    if address in {None, "local"}:
        if address is None:
            with suppress(ConnectionError):
                ray.init("auto", **quiet)
                return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        cores = len(os.sched_getaffinity(0))
        # On the loopback address: whoever can reach a Ray can run code on it.
        store = {"object_store_memory": _OBJECT_STORE_BYTES, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        with boundary(HarnessError, "Ray did not start on this machine"):
            ray.init("local", num_cpus=max(place.count or 0, cores), **store, **quiet)
        return
    try:
        if ":" in (address or ""):
            _require_answer(str(address))
        ray.init(address, **quiet)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        raise ConfigError(f"no Ray cluster answers at `{address}`: {_reason_of(error)}") from error


def _require_answer(address: str) -> None:
    """`OSError` if nothing listens there. Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()


@asynccontextmanager
async def _connected(ray: Any, place: RayPlace) -> AsyncGenerator[None]:
    await anyio.to_thread.run_sync(_CONNECTION.open, ray, place)  # it takes seconds
    _take_back_signals()
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_CONNECTION.close, ray)


def _take_back_signals() -> None:
    """Let Python handle SIGTERM again. Ray's own handler passes it on, but aborts the process 3 s later, while worlds close."""
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread may, and there it is the caller's business
    handler = signal.getsignal(signal.SIGTERM)
    if handler is not None:  # None: it was not set by Python
        signal.signal(signal.SIGTERM, handler)
        signal.siginterrupt(signal.SIGTERM, False)  # noqa: FBT003 - as asyncio has it


async def _num_cpus(ray: Any) -> int:
    resources: dict[str, float] = await anyio.to_thread.run_sync(ray.cluster_resources)
    return int(resources.get("CPU", 0))


async def _follow(ray: Any, add: Callable[[], object], count: int, most: int) -> None:
    """Have more workers when the cluster has more CPUs."""
    while True:
        await anyio.sleep(_LOOK_S)
        try:
            wanted = min(await _num_cpus(ray), most)
        except (ray.exceptions.RayError, ConnectionError) as error:
            _log.warning("Ray did not say how many CPUs it has", extra={"error": str(error), "next_try_s": _LOOK_S})
            continue
        for _ in range(count, wanted):
            add()
        count = max(count, wanted)


async def _wait_for_room(ray: Any, pool: WorkerPool) -> None:
    with anyio.move_on_after(_ROOM_S) as scope:
        await pool.wait_for_one()
    if scope.cancelled_caught:
        raise HarnessError(
            f"no Ray worker was ready after {_ROOM_S:g} s: the cluster has {await _num_cpus(ray)} CPUs, "
            "and each worker needs a free one; name fewer workers for what else runs there"
        )


@asynccontextmanager
async def open_ray(given: str, plan: ExecutorPlan) -> AsyncGenerator[WorkerPool]:
    """Connect to a cluster or start one; one worker is ready when the block begins, and all have ended when it ends."""
    place, ray = read_ray_place(given), import_ray()
    setup_of(plan, 1)  # what is refused is refused before anything is started
    async with _connected(ray, place):
        most = min(MOST_WORKERS, plan.config.at_once)
        count = place.count or max(1, min(await _num_cpus(ray), most))
        setup = msgspec.structs.replace(setup_of(plan, count), sent=pack_files(plan.env))
        pool, start = WorkerPool(plan.stop), _Starter(ray, setup).start
        try:
            async with anyio.create_task_group() as group:
                for _ in range(count):
                    group.start_soon(pool.keep, start)
                await _wait_for_room(ray, pool)
                pool.begin()
                if place.count is None:
                    group.start_soon(_follow, ray, lambda: group.start_soon(pool.keep, start), count, most)
                yield pool
                group.cancel_scope.cancel()
        except BaseExceptionGroup as errors:
            raise unwrapped(errors) from errors
