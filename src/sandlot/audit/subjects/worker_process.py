"""What workers of environments and of foreign code share: child processes, the variables they start with, and frames.

A frame is four bytes of length (little-endian) and a body, in both directions. `foreign/inside/sandlot_serve.py` writes the same
frames without this module, since it runs where Sandlot is not installed.
"""

import os
import signal
import struct
import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import Process as AnyioProcess

from sandlot.audit.subject import Conditions

_HEADER = struct.Struct("<I")


class GarbledFrame(Exception):  # noqa: N818 - what it is
    """A worker wrote something that is not a frame."""


class WorkerFrames:
    """Cuts the output of a worker into frames. The worker may lie: a frame longer than `max_bytes` is refused."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Add what the worker wrote."""
        self._data += data

    def next(self) -> bytes | None:
        """The body of the next frame; None if it is not complete yet."""
        if len(self._data) < _HEADER.size:
            return None
        (size,) = _HEADER.unpack_from(self._data)
        if size > self._max_bytes:
            raise GarbledFrame(f"a frame of {size} bytes; at most {self._max_bytes} are allowed")
        end = _HEADER.size + size
        if len(self._data) < end:
            return None
        body = bytes(self._data[_HEADER.size : end])
        del self._data[:end]
        return body


def frame(body: bytes) -> bytes:
    """A body with its length before it."""
    return _HEADER.pack(len(body)) + body


def variables_of(conditions: Conditions) -> dict[str, str]:
    """The environment variables that conditions need when an interpreter starts."""
    return {"PYTHONHASHSEED": str(conditions.hash_seed), "TZ": conditions.timezone, "LC_ALL": conditions.locale}


@asynccontextmanager
async def start_child(
    command: Sequence[str],
    variables: Mapping[str, str],
    *,
    cwd: str | Path | None = None,
    stdin: int = subprocess.PIPE,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
) -> AsyncGenerator[AnyioProcess]:
    """A child process in a session of its own. It and everything it started in that session are killed at the end."""
    async with await anyio.open_process(
        command, stdin=stdin, stdout=stdout, stderr=stderr, env=variables, cwd=cwd, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            kill_session(process.pid)


def kill_session(pid: int) -> None:
    """Kill all processes of a session by its leader."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
