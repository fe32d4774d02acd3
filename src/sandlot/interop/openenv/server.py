"""Serves an environment to clients of OpenEnv: `reset`, `step` and `state` over a WebSocket at `/ws`.

    reset   {"task": ID} or {"seed": N}      the next rollout; without either, the tasks follow each other
    step    {"text": ..., "calls": [{"name": ..., "arguments": {...}}]}      one message of the model

An observation holds the messages that follow and the tools. The reward comes with the last step, when `done` is true. A rollout
that fails is an error of the step and never a reward. Closing the connection, or another `reset`, drops a rollout that goes on.
"""

import itertools
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from aiohttp import WSMsgType, web

from sandlot.core.access import SERVE_TOKEN, require_token
from sandlot.core.address import Address
from sandlot.core.errors import ConfigError
from sandlot.env.load import load
from sandlot.interop.driven_server import DrivenService
from sandlot.interop.openenv.hosting import MAX_SESSIONS, opened_service
from sandlot.interop.openenv.session import OpenEnvAction, OpenEnvSession, error_reply
from sandlot.serve.guard import Guard

_MAX_MESSAGE_BYTES = 16 * 2**20
_HEARTBEAT_S = 60.0
"""A client that does not answer a ping is gone, and its rollout is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEnvPlace:
    """Where the environment is served, and how its tasks are chosen."""

    host: str = "127.0.0.1"
    port: int = 8900
    allow_hosts: tuple[str, ...] = ()
    token: str | None = None
    """What clients must send: `Authorization: Bearer TOKEN`, or as the password of the address, which OpenEnv's client can."""
    task: str | None = None
    """The task of a `reset` that names none; None: one after the other."""
    judge: str | None = None
    run: Path | None = None
    """The run directory. None: `runs/openenv-ENV`."""


async def serve_openenv(env: str, place: OpenEnvPlace, *, ready: Callable[[str], object]) -> None:
    """Serve the environment until it is cancelled. `ConfigError` for an address beyond this machine without a token."""
    require_token(Address(place.host, place.port), place.token, SERVE_TOKEN)
    environment = load(env)
    run = place.run or Path("runs") / f"openenv-{environment.name}"
    threads = anyio.CapacityLimiter(MAX_SESSIONS)
    async with opened_service(environment, run, judge=place.judge) as (service, tasks):
        if place.task is not None and place.task not in tasks:
            raise ConfigError(f"environment `{environment.name}` has no task `{place.task}`; it has: {', '.join(tasks[:8])}")
        app = _application(service, tasks, place, threads)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=5)
        await runner.setup()
        site = web.TCPSite(runner, place.host, place.port)
        await site.start()
        ready(f"{environment.name} for OpenEnv: http://{place.host}:{runner.addresses[0][1]}, rollouts in {run}")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await runner.cleanup()


def _application(
    service: DrivenService, tasks: list[str], place: OpenEnvPlace, threads: anyio.CapacityLimiter
) -> web.Application:
    turn: Iterator[str] = itertools.repeat(place.task) if place.task is not None else itertools.cycle(tasks)
    guard = Guard(_no_application, place.host, place.allow_hosts, token=place.token)
    open_sessions: set[OpenEnvSession] = set()

    @web.middleware
    async def guarded(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        transport = request.transport
        here = str(transport.get_extra_info("sockname", ("",))[0]) if transport is not None else ""
        refusal = guard.refusal(request.method, request.headers, here)
        if refusal is not None:
            return web.json_response({"error": refusal[1]}, status=refusal[0])
        return await handler(request)

    async def connect(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(max_msg_size=_MAX_MESSAGE_BYTES, heartbeat=_HEARTBEAT_S)
        await socket.prepare(request)
        if len(open_sessions) >= MAX_SESSIONS:
            await socket.send_json(error_reply("CAPACITY_REACHED", f"{MAX_SESSIONS} sessions are open"))
            return socket
        session = OpenEnvSession(service, tasks, lambda: next(turn))
        open_sessions.add(session)
        try:
            await _converse(socket, session, threads)
        finally:
            open_sessions.discard(session)
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(session.drop, limiter=threads)
        return socket

    async def health(_: web.Request) -> web.Response:
        return web.json_response({"status": "healthy"})

    async def schema(_: web.Request) -> web.Response:
        return web.json_response({"action": msgspec.json.schema(OpenEnvAction)})

    app = web.Application(middlewares=[guarded])
    app.add_routes([web.get("/ws", connect), web.get("/health", health), web.get("/schema", schema)])
    return app


async def _converse(socket: web.WebSocketResponse, session: OpenEnvSession, threads: anyio.CapacityLimiter) -> None:
    async for message in socket:
        if message.type is not WSMsgType.TEXT or message.data == '{"type": "close"}':
            return
        reply = await anyio.to_thread.run_sync(partial(session.answer, message.data), limiter=threads)
        await socket.send_str(msgspec.json.encode(reply).decode())


async def _no_application(*_: Any) -> None:
    """The guard is only asked."""
