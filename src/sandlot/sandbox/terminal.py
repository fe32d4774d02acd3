"""Connects a user's terminal to a shell in a sandbox.

With a terminal, the shell gets a terminal of its own, and every key is passed on until the shell ends; then the user's terminal
is restored. Without one (a pipe, a file) the shell reads commands from the stream, like any shell.
"""

import os
import shutil
import termios
import tty
from collections.abc import Generator
from contextlib import contextmanager

import anyio
import anyio.lowlevel

from sandlot.core.ports.sandbox import Command, Process, Sandbox

_PIECE = 64 << 10
_BEST_SHELL = "exec $(command -v bash || command -v sh) -i"


async def run_shell(sandbox: Sandbox, *, stdin: int = 0, stdout: int = 1, stderr: int = 2, cwd: str | None = None) -> int:
    """Run a shell on these descriptors until it ends; returns its exit code."""
    at_terminal = os.isatty(stdin)
    size = shutil.get_terminal_size()
    argv = ("/bin/sh", "-c", f"stty rows {size.lines} cols {size.columns} 2>/dev/null; {_BEST_SHELL}")
    command = Command(argv=argv if at_terminal else ("/bin/sh",), cwd=cwd, pty=at_terminal, env={"PS1": "sandbox:\\w# "})
    process = await sandbox.spawn(command)
    places = {"stdout": stdout, "stderr": stderr}
    with _raw_mode(stdin, at_terminal):
        async with anyio.create_task_group() as group:
            group.start_soon(_feed, process, stdin)
            async for name, data in process.output():
                _write(places[name], data)
            group.cancel_scope.cancel()
    return await process.wait()


async def _feed(process: Process, stdin: int) -> None:
    """Pass on the input; its end is the end of the shell's input."""
    while True:
        try:
            await anyio.wait_readable(stdin)
        except PermissionError:  # a regular file: always readable, and the kernel cannot wait for it
            await anyio.lowlevel.checkpoint()
        data = os.read(stdin, _PIECE)
        await process.send(data)
        if not data:
            return


def _write(where: int, data: bytes) -> None:
    while data:
        data = data[os.write(where, data) :]


@contextmanager
def _raw_mode(terminal: int, at_terminal: bool) -> Generator[None]:  # noqa: FBT001 - the one thing it depends on
    """Set the terminal to raw mode, and restore it afterwards."""
    if not at_terminal:
        yield
        return
    before = termios.tcgetattr(terminal)
    try:
        tty.setraw(terminal, termios.TCSADRAIN)  # keeps what was already typed
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
