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
_MAX_MESSAGES = 5_000
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
        return InspectJob(self._address, request, self._process.pid)

    def close(self) -> None:
        """End the process and its jobs."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class InspectJob:
    """One job of the server. `AuthorError` if it fails, ends or takes too long."""

    def __init__(self, address: str, request: Json, session: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(ANSWER_S)
        self._socket.connect(address)
        self._lines = self._socket.makefile("rwb")
        self._busy = False
        self.seen: Json = {}
        self._pid: int | None = None
        try:
            self._pid = _process_of(self._answer(), session)
            self.ask(request)
        except AuthorError:
            self.close()
            raise

    def ask(self, value: Json) -> Json:
        """Send a line and read the answer: a question to the agent or to a role, or the end."""
        if self._busy:
            raise AuthorError("Inspect has not answered an earlier call, whose time was up")
        self._busy = True
        try:
            self._lines.write(json.dumps(value).encode() + b"\n")
            self._lines.flush()
        except OSError as error:
            raise AuthorError(f"Inspect's process ended: {error}") from error
        answer = self._answer()
        self._busy = False
        if "failed" in answer:
            raise AuthorError(f"Inspect: {answer['failed']}")
        if "messages" in answer:
            question_of(answer)
        self.seen = answer
        return answer

    def _answer(self) -> Json:
        try:
            line = self._lines.readline(_MAX_LINE_BYTES + 1)
            if len(line) > _MAX_LINE_BYTES:
                raise AuthorError(f"Inspect's process sent a line of more than {_MAX_LINE_BYTES:,} bytes")
            return msgspec.convert(json.loads(line), dict[str, Any])  # a score may be NaN, which Python's reader takes
        except TimeoutError as error:
            raise AuthorError(f"Inspect did not answer within {ANSWER_S:g} s", kind="timeout") from error
        except (OSError, ValueError, RecursionError) as error:
            raise AuthorError(f"Inspect's process ended: {error}") from error

    @property
    def done(self) -> bool:
        """True if the sample is over and scored."""
        return bool(self.seen.get("done"))

    def close(self) -> None:
        """End it, also if a tool or a scorer does not end."""
        if self._pid is not None and not self.done:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        with suppress(OSError):  # what could not be written to a process that has ended
            self._lines.close()
        self._socket.close()


def _process_of(hello: Json, session: int) -> int:
    """The process that runs the job, to be killed at its end; `AuthorError` for one that the server did not start."""
    pid = hello.get("pid")
    try:
        if type(pid) is int and pid > 1 and os.getsid(pid) == session:
            return pid
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
