"""The process that runs samples of an Inspect task, in the Python that has Inspect, and what it may say.

Its lines are checked for size and shape: the task's code is foreign, and what it sends is not ours. It asks for the next message
of a conversation, of the agent's or of a role's, and at the end sends the scores.
"""

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from sandlot.core.errors import AuthorError, ConfigError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.types import Json, Role
from sandlot.interop.package_process import passed_variables

PYTHON = "SANDLOT_INSPECT_PYTHON"
_START_S = 90.0
ANSWER_S = 300.0
"""Maximum time for one answer. To score a sample of tau2 takes ten seconds of a free processor."""
_MAX_LINE_BYTES = 64 * 2**20
_PIECE = 1 << 20
_MAX_MESSAGES = 50_000
"""Above what an agent with many calls in every turn can cause: that must not fail its rollout."""
_MAX_TOOLS = 1_000
_MAX_ROLE_CHARS = 100


class InspectServer:
    """The process that runs samples of one task."""

    def __init__(self, source: str, arguments: Json) -> None:
        self._folder = tempfile.mkdtemp(prefix="sandlot-inspect-")
        self._address = f"{self._folder}/socket"
        self._errors = Path(self._folder, "errors")
        python = os.environ.get(PYTHON) or sys.executable
        worker = Path(__file__).with_name("worker.py")
        command = [python, "-P", str(worker), self._address, str(os.getpid()), source, json.dumps(arguments)]
        try:
            with self._errors.open("wb") as errors:
                nothing = subprocess.DEVNULL
                self._process = subprocess.Popen(  # noqa: S603 - the Python that the user named
                    command,
                    stdin=nothing,
                    stdout=nothing,
                    stderr=errors,
                    env=passed_variables([name for name in os.environ if name.startswith("INSPECT_")]),
                    start_new_session=True,
                )
        except OSError as error:
            raise ConfigError(
                f"`{python}` cannot be started: {error}; `{PYTHON}` names the Python that has inspect-ai"
            ) from error
        self._processes: set[int] = set()
        """The numbers of its jobs' processes."""
        atexit.register(self.close)
        self._wait(python)

    def _wait(self, python: str) -> None:
        until = time.monotonic() + _START_S
        while not Path(self._address).exists():
            if self._process.poll() is not None or time.monotonic() > until:
                said = self._errors.read_text(errors="replace")
                self.close()
                raise ConfigError(f"Inspect did not start with `{python}`: {said.strip()[-500:] or 'it takes too long'}")
            time.sleep(0.05)

    @property
    def alive(self) -> bool:
        """False if the process has ended."""
        return self._process.poll() is None

    def job(self, request: Json) -> "InspectJob":
        """Begin a job."""
        return InspectJob(self._address, request, self._process.pid, self._processes)

    def close(self) -> None:
        """End the process and its jobs."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class InspectJob:
    """One job of the server. `AuthorError` if it fails, ends or takes too long.

    A thread that asks may be left behind, when the time of a tool is up or a rollout is cancelled. What it reads still counts:
    whoever asks next waits for it first, with `settle`.
    """

    def __init__(self, address: str, request: Json, session: int, processes: set[int]) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(ANSWER_S)
        self._socket.connect(address)
        self._received = b""
        self._asking = threading.Lock()
        self._failure: AuthorError | None = None
        self.seen: Json = {}
        self._processes = processes
        self._pid: int | None = None
        self._pid_fd: int | None = None
        try:
            self._pid, self._pid_fd = _process_of(self._answer(), session, processes)
            self.ask(request)
        except AuthorError:
            self.close()
            raise

    def settle(self) -> None:
        """Wait for the answer to an earlier call, whose time was up; `AuthorError` if it failed."""
        with self._asking:
            self._require_sound()

    def ask(self, value: Json) -> Json:
        """Send a line and read the answer: a question to the agent or to a role, or the end."""
        with self._asking:
            self._require_sound()
            try:
                self.seen = self._ask(value)
            except AuthorError as error:
                self._failure = error
                raise
            return self.seen

    def _ask(self, value: Json) -> Json:
        try:
            self._socket.settimeout(ANSWER_S)
            self._socket.sendall(json.dumps(value).encode() + b"\n")
        except OSError as error:
            raise AuthorError(f"Inspect's process ended: {error}") from error
        answer = self._answer()
        if "failed" in answer:
            raise AuthorError(f"Inspect: {answer['failed']}")
        if "messages" in answer:
            question_of(answer)
        return answer

    def _require_sound(self) -> None:
        if self._failure is not None:
            raise AuthorError(f"Inspect failed in an earlier call: {self._failure}", kind=self._failure.kind)

    def _answer(self) -> Json:
        try:
            # A score may be NaN, which Python's reader takes.
            return msgspec.convert(json.loads(self._line()), dict[str, Any])
        except TimeoutError as error:
            raise AuthorError(f"Inspect did not answer within {ANSWER_S:g} s", kind="timeout") from error
        except (OSError, ValueError, RecursionError) as error:
            raise AuthorError(f"Inspect's process ended: {error}") from error

    def _line(self) -> bytes:
        """The next line. The time is that of the whole line: a process that sends a byte now and then is too slow too."""
        until = time.monotonic() + ANSWER_S
        found = bytearray(self._received)
        while b"\n" not in found[-_PIECE:] and len(found) <= _MAX_LINE_BYTES:
            self._socket.settimeout(max(until - time.monotonic(), 0.001))
            piece = self._socket.recv(_PIECE)
            if not piece:
                break
            found += piece
        line, _, self._received = bytes(found).partition(b"\n")
        if len(line) > _MAX_LINE_BYTES:
            raise AuthorError(f"Inspect's process sent a line of more than {_MAX_LINE_BYTES:,} bytes")
        return line

    @property
    def done(self) -> bool:
        """True if the sample is over and scored."""
        return bool(self.seen.get("done"))

    def close(self) -> None:
        """End it, also if a tool or a scorer does not end."""
        if self._pid_fd is not None:
            with suppress(ProcessLookupError):
                if not self.done:
                    signal.pidfd_send_signal(self._pid_fd, signal.SIGKILL)
            os.close(self._pid_fd)
            self._pid_fd = None
        if self._pid is not None:
            self._processes.discard(self._pid)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that was left behind
        self._socket.close()


def _process_of(hello: Json, session: int, processes: set[int]) -> tuple[int, int]:
    """The process that runs the job, to be killed at its end, and its descriptor: its number may be used again.

    `AuthorError` for one that the server did not start, or that runs another job.
    """
    pid = hello.get("pid")
    try:
        if type(pid) is int and pid > 1 and pid not in {session, *processes}:
            pid_fd = os.pidfd_open(pid)
            if os.getsid(pid) == session:
                processes.add(pid)
                return pid, pid_fd
            os.close(pid_fd)
    except (OSError, OverflowError):
        pass
    raise AuthorError(f"Inspect's process says that its number is {pid!r:.80}, which is no process of the server")


class InspectCall(msgspec.Struct, frozen=True):
    """A call in a message of a role."""

    id: str
    name: str
    arguments: Json


class InspectMessage(msgspec.Struct, frozen=True):
    """A message of a conversation, as the process sends it."""

    role: Role
    text: str
    kinds: list[str] = []
    call: str | None = None
    """The call that it is the result of."""
    error: str | None = None
    calls: list[InspectCall] = []


class ModelQuestion(msgspec.Struct, frozen=True):
    """What the process asks: the next message of a conversation."""

    messages: list[InspectMessage]
    tools: list[ToolSpec]
    role: str = ""
    """Empty for the agent."""
    scoring: bool = False
    """True if a scorer asks."""


def question_of(seen: Json) -> ModelQuestion:
    """A question of the process; `AuthorError` if it is none."""
    try:
        question = msgspec.convert(seen, ModelQuestion)
    except msgspec.ValidationError as error:
        raise AuthorError(f"Inspect's process asked what is no question: {error}") from error
    if len(question.messages) > _MAX_MESSAGES or len(question.tools) > _MAX_TOOLS:
        raise AuthorError(
            f"Inspect's process asked with {len(question.messages):,} messages and {len(question.tools):,} tools; "
            f"at most {_MAX_MESSAGES:,} and {_MAX_TOOLS:,} are taken"
        )
    if len(question.role) > _MAX_ROLE_CHARS or not (question.role or "agent").isprintable():
        raise AuthorError(f"Inspect's process asked a model in the role {question.role[:_MAX_ROLE_CHARS]!r}, which is no name")
    return question


_LOCK = threading.Lock()
_SERVERS: dict[str, InspectServer] = {}


def server_of(source: str, arguments: Json) -> InspectServer:
    """The server of a task, started if there is none."""
    key = json.dumps([os.environ.get(PYTHON), source, arguments], sort_keys=True)
    with _LOCK:
        if key not in _SERVERS or not _SERVERS[key].alive:
            _SERVERS[key] = InspectServer(source, arguments)
        return _SERVERS[key]
