"""Serves an environment to clients of OpenEnv: `reset`, `step` and `state` over a WebSocket at `/ws`.

    reset   {"task": ID} or {"seed": N}      the next rollout; without either, the tasks follow each other
    step    {"text": ..., "calls": [{"name": ..., "arguments": {...}}]}      one message of the model

An observation holds the messages that follow and the tools. The reward comes with the last step, when `done` is true. A rollout
that fails is an error of the step and never a reward. Closing the connection, or another `reset`, drops a rollout that goes on.
"""

import base64
import hmac
import itertools
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread
import msgspec
from aiohttp import WSMsgType, web

from sandlot.core.errors import AuthorError, ConfigError, SandlotError, boundary
from sandlot.core.types import Json
from sandlot.env.load import load
from sandlot.interop.driven_server import DrivenService
from sandlot.interop.stage import StageConfig, open_stage
from sandlot.serve.guard import Guard

_T = TypeVar("_T")
_MAX_SESSIONS = 256
_MAX_MESSAGE_BYTES = 16 * 2**20
_MIN_TOKEN = 8
_LOCAL = frozenset({"127.0.0.1", "::1", "localhost"})
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


class _Call(msgspec.Struct, frozen=True):
    name: str
    arguments: dict[str, Any] | str = msgspec.field(default_factory=dict[str, Any])
    id: str = ""


class _Reset(msgspec.Struct, frozen=True):
    task: str | None = None
    seed: int | None = None
    episode_id: str | None = None


class OpenEnvAction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A step's action: one message of the model."""

    text: str = ""
    calls: tuple[_Call, ...] = ()


class _Refused(SandlotError):  # noqa: N818 - what happened to the message
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class OpenEnvSession:
    """One connection: at most one rollout at a time."""

    def __init__(self, service: DrivenService, tasks: list[str], next_task: Callable[[], str]) -> None:
        self._service = service
        self._tasks = tasks
        self._next_task = next_task
        self._rollout: str | None = None
        self._tools: list[Json] = []
        self._state: Json = {"episode_id": None, "step_count": 0}

    def answer(self, line: str | bytes) -> Json:
        """The reply to one message of the client."""
        try:
            message = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.ValidationError as error:
            return _error("VALIDATION_ERROR", str(error))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _error("INVALID_JSON", str(error))
        try:
            with boundary(AuthorError, "the rollout"):
                return self._answered(message)
        except _Refused as error:
            return _error(error.code, str(error))
        except SandlotError as error:
            self.drop()
            return _error("EXECUTION_ERROR", str(error))

    def _answered(self, message: Json) -> Json:
        match message.get("type"):
            case "reset":
                return self._observation(**self._reset(message.get("data") or {}))
            case "step":
                return self._observation(**self._step(message.get("data")))
            case "state":
                return {"type": "state", "data": self._state}
            case other:
                raise _Refused("UNKNOWN_TYPE", f"unknown type `{str(other)[:100]}`; use reset, step, state or close")

    def _reset(self, data: Any) -> Json:
        self.drop()
        asked = _converted(data, _Reset)
        seeded = None if asked.seed is None else self._tasks[asked.seed % len(self._tasks)]
        begun = self._service.begin(asked.task or seeded or self._next_task())
        self._rollout, self._tools = begun["rollout"], begun["tools"]
        self._state = {"episode_id": asked.episode_id or begun["rollout"], "step_count": 0, "task": begun["task"]}
        return {"messages": begun["messages"], "reward": None, "done": False}

    def _step(self, data: Any) -> Json:
        if self._rollout is None:
            raise _Refused("SESSION_ERROR", "no rollout is going on; call `reset`")
        action = _converted(data, OpenEnvAction)
        self._state["step_count"] += 1
        calls = [
            {
                "id": call.id or f"call{self._state['step_count']}-{number}",
                "name": call.name,
                "arguments": call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments),
            }
            for number, call in enumerate(action.calls)
        ]
        moved = self._service.move(self._rollout, {"text": action.text, "calls": calls})
        if not moved["over"]:
            return {"messages": moved["messages"], "reward": None, "done": False}
        end = self._service.finish(self._rollout)
        self.drop()
        if end["reward"] is None:
            raise _Refused("EXECUTION_ERROR", f"the rollout failed and has no reward: {end['failed']}")
        return {"messages": moved["messages"], "reward": end["reward"], "done": True}

    def _observation(self, messages: list[Json], reward: float | None, *, done: bool) -> Json:
        seen = {"messages": messages, "tools": self._tools}
        return {"type": "observation", "data": {"observation": seen, "reward": reward, "done": done}}

    def drop(self) -> None:
        """Drop the rollout, if one is going on."""
        if self._rollout is not None:
            self._service.drop(self._rollout)
            self._rollout = None


def _converted(data: Any, kind: type[_T]) -> _T:
    """What the client sent. Only this is the client's fault: what fails later is not."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise _Refused("VALIDATION_ERROR", str(error)) from error


def _error(code: str, message: str) -> Json:
    return {"type": "error", "data": {"message": message[:2000], "code": code}}


async def serve_openenv(env: str, place: OpenEnvPlace, *, ready: Callable[[str], object]) -> None:
    """Serve the environment until it is cancelled. `ConfigError` for an address beyond this machine without a token."""
    if place.token is None and place.host not in _LOCAL:
        raise ConfigError(f"anyone who reaches `{place.host}` could play: add `--token TOKEN`, or listen on 127.0.0.1")
    if place.token is not None and not (place.token.isascii() and place.token.isprintable() and len(place.token) >= _MIN_TOKEN):
        raise ConfigError(f"the token must have at least {_MIN_TOKEN} printable ASCII characters")
    environment = load(env)
    run = place.run or Path("runs") / f"openenv-{environment.name}"
    config = StageConfig(env=environment, run=run, model="openenv", training=False, judge=place.judge, at_once=_MAX_SESSIONS)
    threads = anyio.CapacityLimiter(_MAX_SESSIONS)
    with anyio.from_thread.start_blocking_portal() as portal:
        opened = portal.wrap_async_context_manager(open_stage(config))
        stage = await anyio.to_thread.run_sync(opened.__enter__)
        try:
            tasks = list(stage.tasks)
            if place.task is not None and place.task not in tasks:
                raise ConfigError(f"environment `{environment.name}` has no task `{place.task}`; it has: {', '.join(tasks[:8])}")
            app = _application(DrivenService(portal, stage), tasks, place, threads)
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
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(opened.__exit__, None, None, None)


def _application(
    service: DrivenService, tasks: list[str], place: OpenEnvPlace, threads: anyio.CapacityLimiter
) -> web.Application:
    turn: Iterator[str] = itertools.repeat(place.task) if place.task is not None else itertools.cycle(tasks)
    guard = Guard(_no_application, place.host, place.allow_hosts)
    open_sessions: set[OpenEnvSession] = set()

    @web.middleware
    async def guarded(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        refusal = guard.refusal(request.method, request.headers)
        if refusal is None and place.token is not None and not _knows(request.headers, place.token):
            refusal = 401, "the token is missing or wrong; send `Authorization: Bearer TOKEN`, or use http://any:TOKEN@HOST:PORT"
        if refusal is not None:
            return web.json_response({"error": refusal[1]}, status=refusal[0])
        return await handler(request)

    async def connect(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(max_msg_size=_MAX_MESSAGE_BYTES, heartbeat=_HEARTBEAT_S)
        await socket.prepare(request)
        if len(open_sessions) >= _MAX_SESSIONS:
            await socket.send_json(_error("CAPACITY_REACHED", f"{_MAX_SESSIONS} sessions are open"))
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


def _knows(headers: Mapping[str, str], token: str) -> bool:
    """True if a request has the token: as a bearer token, or as a password with any name."""
    scheme, _, told = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            told = base64.b64decode(told, validate=True).decode().partition(":")[2]
        except ValueError:
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(told.encode(errors="surrogateescape"), token.encode())


async def _no_application(*_: Any) -> None:
    """The guard is only asked."""
