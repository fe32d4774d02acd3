"""A sample of an Inspect task as a world: Inspect's own runner runs it, and our agent is its model.

The solver, the tools, the limits and the scorers are Inspect's. A tool call of ours is handed to it as a message with one call,
and what its tool answered is the result. A message without calls is handed to it too: if the solver then asks again, that is the
user's reply, and otherwise the sample is over and scored. Inspect runs in a process of its own, in the Python that
`SANDLOT_INSPECT_PYTHON` names, or else in ours.
"""

import atexit
import itertools
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
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec

from sandlot.core.concurrency import author
from sandlot.core.errors import AuthorError, ConfigError, ToolError, boundary
from sandlot.core.ports.grading import Evidence
from sandlot.core.ports.world import Tool, ToolSpec, World
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.core.types import Json
from sandlot.interop.gyms.source import read_score_range
from sandlot.interop.inspect_ai.records import LogScore
from sandlot.interop.inspect_ai.scores import rubric_score
from sandlot.interop.package_process import passed_variables
from sandlot.tools.arguments import checked_arguments, clean

PYTHON = "SANDLOT_INSPECT_PYTHON"
_START_S = 90.0
_ANSWER_S = 120.0
_OVER = "The task is over; say that you are done."
_NUMBERS = itertools.count()


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
        return InspectJob(self._address, request)

    def close(self) -> None:
        """End the process and its jobs."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class InspectJob:
    """One job of the server. `AuthorError` if it fails, ends or takes too long."""

    def __init__(self, address: str, request: Json) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_ANSWER_S)
        self._socket.connect(address)
        self._lines = self._socket.makefile("rw", encoding="utf-8", newline="\n")
        self.seen: Json = {}
        self._pid: int | None = None
        try:
            self._pid = int(self._answer()["pid"])
            self.ask(request)
        except AuthorError:
            self.close()
            raise

    def ask(self, value: Json) -> Json:
        """Send a line and read the answer."""
        try:
            self._lines.write(json.dumps(value) + "\n")
            self._lines.flush()
        except OSError as error:
            raise AuthorError(f"Inspect's process ended: {error}") from error
        answer = self._answer()
        if "failed" in answer:
            raise AuthorError(f"Inspect: {answer['failed']}")
        self.seen = answer
        return answer

    def _answer(self) -> Json:
        try:
            return json.loads(self._lines.readline())
        except TimeoutError as error:
            raise AuthorError(f"Inspect did not answer within {_ANSWER_S:g} s", kind="timeout") from error
        except (OSError, ValueError) as error:
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


_LOCK = threading.Lock()
_SERVERS: dict[str, InspectServer] = {}
_JOBS: dict[str, InspectJob] = {}


def server_of(source: str, arguments: Json) -> InspectServer:
    """The server of a task, started if there is none."""
    key = json.dumps([os.environ.get(PYTHON), source, arguments], sort_keys=True)
    with _LOCK:
        if key not in _SERVERS or not _SERVERS[key].alive:
            _SERVERS[key] = InspectServer(source, arguments)
        return _SERVERS[key]


@dataclass(frozen=True, slots=True)
class InspectWorld:
    """The tools of a sample (a source of tools)."""

    source: str
    arguments: Json
    requires: tuple[str, str]
    """The versions of inspect-ai and of the task's package that it was imported with."""
    checked: list[bool] = field(default_factory=list[bool])

    def open(self, world: World) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Begin the sample, up to its first question to a model."""
        return self._opened(world)

    @asynccontextmanager
    async def _opened(self, world: World) -> AsyncGenerator[Sequence[Tool]]:
        with boundary(AuthorError, "starting Inspect's sample"):
            job = await author.call(self._begin, world.task.data["sample"])
        name = f"{os.getpid()}-{next(_NUMBERS)}"
        _JOBS[name] = job
        world.state["job"] = name
        try:
            system, prompt = opening_of(job.seen)
            if prompt != world.task.prompt or system != world.task.data["system"]:
                raise AuthorError("the sample begins otherwise than when it was imported; import it again")
            yield [_InspectTool(job, ToolSpec(**tool)) for tool in job.seen["tools"]]
        finally:
            _JOBS.pop(name, None)
            await anyio.to_thread.run_sync(job.close)

    def _begin(self, sample: Any) -> InspectJob:
        server = server_of(self.source, self.arguments)
        if not self.checked:
            listed = server.job({"job": "list"})
            found = (listed.seen["version"], listed.seen["package_version"])
            listed.close()
            if found != self.requires:
                raise ConfigError(
                    f"this environment was imported with inspect-ai and its package at {self.requires}; {found} are installed, "
                    "which may have other tasks and scores; install those versions, or import it again"
                )
            self.checked.append(True)
        return server.job({"job": "play", "sample": sample})


def opening_of(seen: Json) -> tuple[str, str]:
    """The system message and the user's first message; `ConfigError` if a conversation begins otherwise."""
    if seen.get("done"):
        raise ConfigError(f"its solver asks no model: {seen.get('error') or 'it is over before the first turn'}")
    messages = seen["messages"]
    if any(kind != "text" for message in messages for kind in message["kinds"]):
        raise ConfigError("its first messages hold more than text, such as images")
    system = "\n\n".join(message["text"] for message in messages if message["role"] == "system")
    others = [message for message in messages if message["role"] != "system"]
    if [message["role"] for message in others] != ["user"]:
        roles = ", ".join(message["role"] for message in others) or "none"
        raise ConfigError(f"it begins with the messages {roles}, and not with one of a user")
    return system, others[0]["text"]


@dataclass(frozen=True, slots=True)
class _InspectTool:
    """One tool of a sample."""

    job: InspectJob
    spec: ToolSpec
    concurrent: bool = False

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """Hand the call to Inspect's solver; the result is what its tool answered."""
        try:
            arguments = checked_arguments(call)
        except ToolError as error:
            return ToolResult(call=call.id, text=str(error), error=True)
        if self.job.done:
            return ToolResult(call=call.id, text=_OVER, error=True)
        number = world.state["calls"] = world.state.get("calls", 0) + 1
        name = f"call{number}"
        asked = {"text": "", "calls": [{"id": name, "name": self.spec.name, "arguments": arguments}]}
        with boundary(AuthorError, f"tool `{self.spec.name}`"):
            seen = await author.call(self.job.ask, asked)
        if self.job.done:
            _record(world, seen)
            return ToolResult(call=call.id, text=_OVER)
        answered = [message for message in seen["messages"] if message["call"] == name]
        said = _said_after(seen["messages"], name)
        if not answered:
            raise AuthorError(f"Inspect's solver did not answer the call of `{self.spec.name}`")
        error = answered[-1]["error"]
        text = "\n\n".join([error or answered[-1]["text"], *said])
        return ToolResult(call=call.id, text=clean(text), error=error is not None)


def _said_after(messages: list[Json], call: str) -> list[str]:
    """What a solver adds after a tool's result, such as "please continue"."""
    places = [number for number, message in enumerate(messages) if message["call"] == call]
    rest = messages[places[-1] + 1 :] if places else []
    return [message["text"] for message in rest if message["role"] == "user"]


async def next_words(world: World, text: str) -> str | None:
    """What the solver says to a message without calls; None if the sample is over."""
    job = _JOBS[world.state["job"]]
    if job.done:
        return None
    seen = await author.call(job.ask, {"text": text, "calls": []})
    if job.done:
        _record(world, seen)
        return None
    messages: list[Json] = seen["messages"]
    last = max((number for number, each in enumerate(messages) if each["role"] == "assistant"), default=-1)
    said = [message["text"] for message in messages[last + 1 :] if message["role"] == "user"]
    return "\n\n".join(said) or "Please continue."


async def end_sample(world: World) -> None:
    """Score a sample that a limit ended. Inspect sees it as a limit of its own."""
    job = _JOBS.get(world.state.pop("job", ""))
    if job is not None and not job.done:
        _record(world, await author.call(job.ask, {"stop": True}))


def _record(world: World, seen: Json) -> None:
    if seen["error"] and not seen["scoring"]:
        raise AuthorError(f"Inspect's sample failed: {seen['error']}")
    if seen["roles"]:  # a scorer may turn the refusal into a score
        raise AuthorError(f"Inspect's sample asked a model in the role `{seen['roles'][0]}`, and there is none")
    world.state["scores"] = seen["scores"]
    world.state["failed"] = seen["error"]


def share_of_scores(evidence: Evidence, scale: str = "") -> tuple[float, str]:
    """The mean of Inspect's scores, 0 to 1. A scorer that raised, or gave no number, raises here too."""
    if evidence.state.get("failed"):
        raise ValueError(f"Inspect's scorer failed: {evidence.state['failed']}")
    scores = msgspec.convert(evidence.state["scores"], dict[str, LogScore])
    found = rubric_score(scores, read_score_range(scale))
    return found.value, "; ".join(f"{check.id} {check.value:g}" for check in found.checks)
