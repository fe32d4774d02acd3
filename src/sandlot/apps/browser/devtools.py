"""The DevTools protocol over the browser's own pipe: its standard input and output, with no port open in the sandbox.

Messages are JSON, separated by NUL. Each open page is a session with an id. While a page shows a dialog, the browser answers
nothing that runs in that page, so `release` ends such waits. Programs in the sandbox can write to the pipe and kill the browser,
so messages are checked, and the end of a browser that had started is an error for the agent, not a failure of the sandbox.
"""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import anyio

from sandlot.core.errors import SandboxError, ToolError
from sandlot.core.ports.sandbox import Process

Fields = dict[str, Any]
"""The parameters or the result of a DevTools message."""

_MAX_MESSAGE_BYTES = 8 * 2**20
_MAX_CALL_S = 30.0
"""On a machine with eight busy processes per processor, a click has taken more than ten seconds."""
_TAIL_BYTES = 4_000
_MAX_ERROR_CHARS = 2_000


class NoAnswerError(ToolError):
    """The page did not answer in time: its scripts run for ever, or the machine is far too busy."""


class _Pending:
    """One request that waits for its reply."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.done = anyio.Event()
        self.result: Fields = {}
        self.error = ""


class DevTools:
    """A connection to one browser. Get one from `open_devtools`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._count = 0
        self._pending: dict[int, _Pending] = {}
        self._tail = b""
        self._over = ""
        self.has_started = False
        """True once the browser has opened its first tab."""
        self.on_event: Callable[[str, str, Fields], None] = _ignore
        """Called with session id, method and parameters of each event."""

    async def call(self, method: str, session: str = "", **parameters: Any) -> Fields:
        """Send one request and wait for its result. `ToolError` if the browser refuses it, `NoAnswerError` after some time."""
        pending = _Pending(session)
        self._count += 1
        number = self._count
        message: Fields = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self.require_open()
        self._pending[number] = pending
        try:
            await self._send(message)
            with anyio.move_on_after(_MAX_CALL_S) as waiting:
                await pending.done.wait()
        finally:
            del self._pending[number]
        self.require_open()
        if waiting.cancelled_caught:
            raise NoAnswerError(f"the page did not answer within {_MAX_CALL_S:g} s; navigate to another page")
        if pending.error:
            raise ToolError(pending.error)
        return pending.result

    async def _send(self, message: Fields) -> None:
        try:
            await self._process.send(json.dumps(message).encode() + b"\0")
        except SandboxError as error:
            self._over = self._over or str(error)
            self.require_open()

    def require_open(self) -> None:
        """Raise an error if the browser has ended: the agent's if it had started, else the sandbox's."""
        if not self._over:
            return
        if self.has_started:
            raise ToolError(f"the browser has ended and cannot be used again: {self._over[:200]}")
        raise SandboxError(f"the browser did not start: {self._over}; {self._tail.decode(errors='replace')[-1000:]}")

    def release(self, session: str) -> None:
        """End all waits of a session, with an empty result: its page shows a dialog, or is gone."""
        for pending in self._pending.values():
            if pending.session == session:
                pending.done.set()

    async def read(self) -> None:
        """Receive messages until the browser ends."""
        buffer = bytearray()
        try:
            async for name, data in self._process.output():
                if name == "stderr":
                    self._tail = (self._tail + data)[-_TAIL_BYTES:]
                    continue
                buffer += data
                if len(buffer) > _MAX_MESSAGE_BYTES:
                    self._over = f"it sent a message of more than {_MAX_MESSAGE_BYTES} bytes"
                    return
                if b"\0" in data:
                    *whole, buffer = buffer.split(b"\0")
                    for line in whole:
                        self._take(_message(line))
            self._over = f"it ended with exit code {await self._process.wait()}"
        except SandboxError as error:
            self._over = str(error)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            self._over = f"it sent a message that is not of the DevTools protocol ({type(error).__name__})"
        finally:
            self._over = self._over or "it was stopped"
            for pending in self._pending.values():
                pending.done.set()

    def _take(self, message: Fields) -> None:
        if "id" not in message:
            self.on_event(message.get("sessionId", ""), message["method"], message.get("params", {}))
            return
        pending = self._pending.get(message["id"])
        if pending is not None:
            pending.result = message.get("result", {})
            pending.error = str(message.get("error", {}).get("message", ""))[:_MAX_ERROR_CHARS]
            pending.done.set()


def _message(line: bytearray) -> Fields:
    """One message; `TypeError` if a part of it is not what the protocol has there."""
    message = json.loads(line)
    if not isinstance(message, dict):
        raise TypeError("not an object")
    fields = cast("Fields", message)
    for key, kind in (("id", int), ("method", str), ("sessionId", str), ("params", dict), ("result", dict), ("error", dict)):
        if key in fields and not isinstance(fields[key], kind):
            raise TypeError(key)
    return fields


def _ignore(session: str, method: str, parameters: Fields) -> None:
    """Drop an event that no page waits for."""


@asynccontextmanager
async def open_devtools(process: Process) -> AsyncGenerator[DevTools]:
    """Read what the browser sends until the context ends; then kill the browser and everything it started."""
    devtools = DevTools(process)
    async with anyio.create_task_group() as group:
        group.start_soon(devtools.read)
        try:
            yield devtools
        finally:
            with anyio.move_on_after(5, shield=True), suppress(SandboxError):
                await process.kill()
            group.cancel_scope.cancel()
            devtools.on_event = _ignore  # the window that listens holds these tools as well
