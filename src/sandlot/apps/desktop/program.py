"""One program inside the sandbox that answers JSON requests, one line each, on its standard input and output.

Programs of the desktop can kill it, stop it or write to its pipe: answers are checked, every wait has a limit, and the end of a
program that had started is an error for the agent, not a failure of the sandbox.
"""

import json
from contextlib import suppress
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup

from sandlot.core.errors import SandboxError, ToolError
from sandlot.core.ports.sandbox import Command, Process
from sandlot.core.ports.world import World

Fields = dict[str, Any]
"""A request's arguments or its result."""

_MAX_LINE_BYTES = 12 * 2**20
_TAIL_BYTES = 4_000
_MAX_ERROR_CHARS = 1_000


class InsideProgram:
    """A program inside. Get one from `start_program`."""

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self._process = process
        self._count = 0
        self._turn = anyio.Lock()
        self._answers: dict[int, Fields] = {}
        self._came = anyio.Event()
        self._tail = b""
        self._unasked = 0
        """Bytes that came since the last request, or since its answer was taken."""
        self.over = ""
        """Why it has ended; empty while it runs."""

    async def call(self, do: str, *, most_s: float, **arguments: Any) -> Fields:
        """One request. `ToolError` if it is refused; `TimeoutError` if no answer came in time; `SandboxError` if it has ended."""
        async with self._turn:
            self._count += 1
            number = self._count
            await self._require_open()
            self._unasked = 0
            await self._process.send(json.dumps({"id": number, "do": do, **arguments}).encode() + b"\n")
            with anyio.fail_after(most_s):
                while number not in self._answers:
                    await self._require_open()
                    self._came = anyio.Event()
                    await self._came.wait()
            answer = self._answers.pop(number)
            self._unasked = 0
        if (refused := answer.get("error")) is not None:
            raise ToolError(str(refused)[:_MAX_ERROR_CHARS])
        result = answer.get("result")
        if not isinstance(result, dict):
            raise ToolError(f"{self.name} gave an answer that cannot be read")
        return cast("Fields", result)

    async def close(self) -> None:
        """Kill it and everything it started."""
        self.over = self.over or "it was stopped"
        with anyio.move_on_after(5, shield=True), suppress(SandboxError):
            await self._process.kill()

    async def read(self) -> None:
        """Receive answers until it ends; one that sends too much or nonsense is killed."""
        try:
            self.over = await self._receive() or f"it ended with exit code {await self._process.wait()}"
        except SandboxError as error:
            self.over = str(error)
        except (ArithmeticError, ValueError, LookupError, TypeError, RecursionError) as error:
            self.over = f"it sent an answer that cannot be read ({type(error).__name__})"
        finally:
            self.over = self.over or "it was stopped"
            self._came.set()
        await self.close()

    async def _receive(self) -> str:
        """Take lines until there are no more, or too much comes: then the words for it."""
        buffer = bytearray()
        async for name, data in self._process.output():
            if name == "stderr":
                self._tail = (self._tail + data)[-_TAIL_BYTES:]
                continue
            buffer += data
            self._unasked += len(data)
            if len(buffer) > _MAX_LINE_BYTES:
                return f"it sent an answer of more than {_MAX_LINE_BYTES} bytes"
            if self._unasked > _MAX_LINE_BYTES * (1 + self._turn.locked()):  # a request can wait behind one late answer
                return f"it sent more than {_MAX_LINE_BYTES} bytes that nobody asked for"
            if b"\n" in data:
                *whole, buffer = buffer.split(b"\n")
                for line in whole:
                    self._take(bytes(line))
        return ""

    def _take(self, line: bytes) -> None:
        answer = json.loads(line)
        if not isinstance(answer, dict):
            raise TypeError("not an object")
        fields = cast("Fields", answer)
        if fields.get("id") == self._count:  # a late answer to a request that was given up is dropped
            self._answers = {self._count: fields}
            self._came.set()

    async def _require_open(self) -> None:
        if self.over:
            raise SandboxError(f"{self.name}: {self.over}; {self._tail.decode(errors='replace')[-1000:]}")


async def start_program(world: World, name: str, source: str, command: Command, group: TaskGroup) -> InsideProgram:
    """Start a program inside: Python code, which the command reads as its first line. Its answers are read in the task group."""
    process = await world.spawn(command)
    await process.send(json.dumps(source).encode() + b"\n")
    program = InsideProgram(name, process)
    group.start_soon(program.read)
    return program
