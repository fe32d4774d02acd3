"""Commands of a `LocalSandbox`: plain processes of this machine, found again by a mark among their variables."""

import math
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import Process, TaskGroup

from sandlot.core.ports.sandbox import Command
from sandlot.testing.local_stream import LocalQueue

MARK = "SANDLOT_LOCAL"
_PIECE = 65536


class LocalProcess:
    """A running command (port `Process`)."""

    def __init__(self, mark: str, limit: int | None) -> None:
        self.dropped = 0
        self._mark = mark
        self._room = math.inf if limit is None else limit
        self._code: int | None = None
        self._ended = anyio.Event()
        self._pieces = LocalQueue[tuple[str, bytes]]()
        self._outputs: dict[str, int] = {}
        self._input: int | None = None
        self._is_terminal = False

    def fail(self, code: int, why: str) -> "LocalProcess":
        """It could not be started: what a shell would say."""
        self._pieces.put(("stderr", f"{why}\n".encode("utf-8", "replace")))
        self._end(code)
        return self

    def run(self, process: Process, command: Command, ends: Mapping[str, int], tasks: TaskGroup) -> "LocalProcess":
        """It was started, with our ends of its pipes."""
        self._input = ends["stdin"]
        self._outputs = {name: fd for name, fd in ends.items() if name != "stdin"}
        self._is_terminal = command.pty
        for fd in ends.values():
            os.set_blocking(fd, False)
        for name in self._outputs:
            tasks.start_soon(self._pump, name)
        tasks.start_soon(self._watch, process)
        if command.stdin is not None:
            tasks.start_soon(self._feed, command.stdin)
        return self

    def output(self) -> AsyncIterator[tuple[str, bytes]]:
        """Pieces of output until the command ends."""
        return self._pieces

    async def send(self, data: bytes) -> None:
        """Write to its standard input; empty bytes close it. What it does not read is dropped."""
        if not data and self._is_terminal:
            data = b"\x04"
        elif not data:
            self._close_input()
        while data and self._input is not None:
            try:
                data = data[os.write(self._input, data) :]
            except BlockingIOError:
                with suppress(anyio.ClosedResourceError):  # the command has ended
                    await anyio.wait_writable(self._input)
            except OSError:
                return

    async def wait(self) -> int:
        """The exit code; negative for a signal."""
        await self._ended.wait()
        assert self._code is not None
        return self._code

    async def kill(self) -> None:
        """Kill all processes with its mark."""
        kill_marked(self._mark)

    async def _watch(self, process: Process) -> None:
        code = await process.wait()
        for name in list(self._outputs):
            while self._take(name):
                pass
        self._close_input()
        self._end(code)

    def _end(self, code: int) -> None:
        self._code = code
        self._pieces.end()
        self._ended.set()

    async def _feed(self, data: bytes) -> None:
        await self.send(data)
        await self.send(b"")

    async def _pump(self, name: str) -> None:
        """Read until nobody holds the other end: what a background process writes after the command has ended is dropped."""
        fd = self._outputs[name]
        try:
            while name in self._outputs:
                await anyio.wait_readable(fd)
                self._take(name)
        finally:
            os.close(fd)

    def _take(self, name: str) -> bool:
        """Read what is there; False if there is nothing now, or nobody who could write more."""
        try:
            data = os.read(self._outputs[name], _PIECE) if name in self._outputs else b""
        except BlockingIOError:
            return False
        except OSError:  # a terminal that was closed
            data = b""
        if not data:
            self._outputs.pop(name, None)
            return False
        kept = data if self._room == math.inf else data[: int(self._room)]
        self._room -= len(kept)
        self.dropped += len(data) - len(kept)
        if kept and not self._ended.is_set():
            self._pieces.put((name, kept))
        return True

    def _close_input(self) -> None:
        if self._input is not None:
            anyio.notify_closing(self._input)
            os.close(self._input)
        self._input = None


async def start_local(command: Command, cwd: Path, environ: Mapping[str, str], tasks: TaskGroup) -> LocalProcess:
    """Start a command, or say why not, as a shell would."""
    started = LocalProcess(environ[MARK], command.output_bytes)
    if not os.path.isdir(cwd):  # noqa: ASYNC240, PTH112 - a folder of this machine: nothing to wait for
        return started.fail(126, f"cannot enter `{command.cwd}`")
    if command.user not in {None, "root"}:
        return started.fail(126, f"cannot become `{command.user}`: this sandbox has no users of its own")
    if not command.argv:
        return started.fail(126, "cannot start a command: argv is empty")
    ours, theirs = _terminal() if command.pty else _pipes()
    try:
        process = await anyio.open_process(
            command.argv,
            stdin=theirs["stdin"],
            stdout=theirs["stdout"],
            stderr=theirs["stderr"],
            cwd=cwd,
            env=environ,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        for fd in ours.values():
            os.close(fd)
        return started.fail(127 if isinstance(error, FileNotFoundError) else 126, f"cannot start `{command.argv[0]}`: {error}")
    finally:
        for fd in set(theirs.values()):
            os.close(fd)
    return started.run(process, command, ours, tasks)


def _pipes() -> tuple[dict[str, int], dict[str, int]]:
    """Our ends and theirs, by name."""
    (their_in, our_in), (our_out, their_out), (our_err, their_err) = os.pipe(), os.pipe(), os.pipe()
    return (
        {"stdin": our_in, "stdout": our_out, "stderr": our_err},
        {"stdin": their_in, "stdout": their_out, "stderr": their_err},
    )


def _terminal() -> tuple[dict[str, int], dict[str, int]]:
    ours, theirs = os.openpty()
    return {"stdin": os.dup(ours), "stdout": ours}, dict.fromkeys(("stdin", "stdout", "stderr"), theirs)


def kill_marked(mark: str) -> None:
    """Kill every process whose environment has a mark that begins so, until there is none."""
    wanted = f"{MARK}={mark}".encode()
    while sum(_kill_if_marked(int(place.name), wanted) for place in Path("/proc").iterdir() if place.name.isdigit()):
        pass


def _kill_if_marked(number: int, wanted: bytes) -> bool:
    if wanted not in _variables(number):
        return False
    try:
        held = os.pidfd_open(number)
    except OSError:  # it has ended
        return False
    try:
        if wanted in _variables(number):  # still the same process, now that it is held
            signal.pidfd_send_signal(held, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(held)
    return True


def _variables(number: int) -> bytes:
    """The environment of a process; nothing for one that has ended, or is not ours."""
    try:
        fd = os.open(f"/proc/{number}/environ", os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(fd, 1 << 20)
    except OSError:
        return b""
    finally:
        os.close(fd)
