"""A program that drives another package in that package's own Python, asked in JSON Lines over its standard streams.

One process serves many rollouts, since packages of this kind take seconds to import. Each request has a number, and answers come
in any order. The process ends when its standard input closes, so it does not outlive us, and whatever it started ends with it. It
gets only the environment variables that a Python needs and those that the user names: no keys of model providers by accident. Its
answers are checked for size and shape; a request that is not answered in time kills it. A process that it started may keep its
pipes open: nothing here waits for that.

Whoever asks for what it fails at, does not answer or ends at, with nobody else waiting, has caused that. To the others that it
served it is gone through no doing of theirs (`ProgramGoneError`), and their rollouts are tried again.
"""

import atexit
import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotAnswered
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec
from packaging.version import InvalidVersion, Version

from sandlot.core.errors import AuthorError, ConfigError, SandboxError
from sandlot.core.types import Json

_MAX_ANSWER_BYTES = 64 * 2**20
_SHOWN_CHARS = 1_000
_MAX_PRINTED_BYTES = 4096
_MAX_VERSION_CHARS = 200
_PRINT_S = 60.0
_END_S = 5.0
"""Maximum time for a program to end what it started; it is killed then."""
_LOOK_S = 0.2
"""How often a program that is silent is asked whether it has ended."""
_PIECE_BYTES = 2**16
_MAX_PIPE_BYTES = 2**20
"""What a pipe holds at most: more than that was written after the program ended, by something else."""
_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "LD_LIBRARY_PATH")

_P = TypeVar("_P", bound="RunningProgram")


class _Answer(msgspec.Struct, frozen=True):
    """One line of the program: the number of the request, and what it returned or why it failed."""

    id: int
    result: Json = msgspec.field(default_factory=dict)
    failed: str = ""


def passed_variables(named: Sequence[str] = ()) -> dict[str, str]:
    """The environment of such a program: what a Python needs, and what the user names. `ConfigError` for one that is not set."""
    missing = [name for name in named if name not in os.environ]
    if missing:
        raise ConfigError(f"the environment variable `{missing[0]}` is not set")
    return {name: os.environ[name] for name in (*_VARIABLES, *named) if name in os.environ}


class ProgramGoneError(AuthorError):
    """The program ended before it was asked, or while several waited for answers: it is not known who caused it."""


class PackageProcess:
    """The running program. Its methods may be called from any thread."""

    def __init__(
        self, python: str, program: Path, *, cwd: Path | None = None, variables: Sequence[str] = (), settings: Json | None = None
    ) -> None:
        given = passed_variables(variables)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the interpreter that the user named
                [python, "-u", str(program)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                cwd=cwd,
                env=given | (settings or {}) | {"PYTHONDONTWRITEBYTECODE": "1"},
                start_new_session=True,
            )
        except OSError as error:
            self._log.close()
            raise ConfigError(f"`{python}` cannot be run: {error.strerror or error}") from error
        self._waiting: dict[int, Future[Json]] = {}
        self._num_requests = 0
        self._ended = False
        self._is_closed = False
        """It was ended from here: what waits then did not cause it."""
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        atexit.register(self.close)
        self._reader = threading.Thread(target=self._read, name="foreign-answers", daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        """True while it answers."""
        return self._process.poll() is None

    def ask(self, do: str, *, within_s: float, **arguments: object) -> Json:
        """Ask for one thing and wait for the answer. `AuthorError` if it fails, ends, or takes longer than `within_s`.

        `ProgramGoneError` if another request may have caused that.
        """
        future: Future[Json] = Future()
        with self._lock:
            if self._ended:
                raise ProgramGoneError(f"the foreign program has ended{self.last_words()}")
            self._num_requests += 1
            number = self._num_requests
            self._waiting[number] = future
        assert self._process.stdin is not None
        try:
            with self._writing:
                self._process.stdin.write(msgspec.json.encode({"id": number, "do": do, **arguments}) + b"\n")
                self._process.stdin.flush()
        except (OSError, ValueError):
            with self._lock:
                self._waiting.pop(number, None)
            raise ProgramGoneError(f"the foreign program has ended{self.last_words()}") from None
        try:
            return future.result(within_s)
        except NotAnswered:
            self.close()
            raise AuthorError(f"the foreign program did not answer `{do}` within {within_s:g} s", kind="timeout") from None

    def _read(self) -> None:
        """Hand each answer to who waits for it."""
        reason = "has ended"
        try:
            for line in _lines(self._process):
                answer = msgspec.json.decode(line, type=_Answer)
                with self._lock:
                    future = self._waiting.pop(answer.id, None)
                if future is not None and answer.failed:
                    future.set_exception(AuthorError(answer.failed[:_SHOWN_CHARS]))
                elif future is not None:
                    future.set_result(answer.result)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
            reason = f"sent what is no answer: {error}"
        self._kill()
        self._fail_waiting(reason)

    def _fail_waiting(self, reason: str) -> None:
        with self._lock:
            self._ended = True
            waiting, self._waiting = self._waiting, {}
        words = self.last_words()
        kind = AuthorError if len(waiting) == 1 and not self._is_closed else ProgramGoneError
        for future in waiting.values():
            future.set_exception(kind(f"the foreign program {reason}{words}"))

    def last_words(self) -> str:
        """The end of what it wrote to its standard error."""
        if self._log.closed:
            return ""
        size = os.fstat(self._log.fileno()).st_size
        said = os.pread(self._log.fileno(), _SHOWN_CHARS, max(0, size - _SHOWN_CHARS)).decode(errors="replace").strip()
        return f"; it wrote: {said}" if said else ""

    def _kill(self) -> None:
        self._process.terminate()  # what keeps it then ends whatever it started (`inside/request_loop.py`)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        _kill_group(self._process.pid)
        self._process.wait()

    def close(self) -> None:
        """End it. Requests that wait fail."""
        self._is_closed = True
        atexit.unregister(self.close)
        self._kill()
        self._reader.join(_END_S)
        self._fail_waiting("has ended")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._writing.acquire(timeout=_END_S):  # not while somebody writes to a pipe that nobody reads
            with contextlib.suppress(OSError):  # what it did not read
                self._process.stdin.close()
            self._writing.release()
        if not self._reader.is_alive():
            self._process.stdout.close()
        self._log.close()


class RunningProgram(Protocol):
    """A program that may have ended."""

    @property
    def alive(self) -> bool:
        """True while it answers."""
        ...

    def close(self) -> None:
        """End it, and what is left of it."""
        ...


class RunningPrograms(Generic[_P]):
    """Running programs by what they serve: started the first time, and again after they end. A forked process has its own."""

    def __init__(self) -> None:
        self._running: dict[bytes, _P] = {}
        self._starting: dict[bytes, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()

    def running(self, source: object, start: Callable[[], _P]) -> _P:
        """The program that serves this source. Whoever wants another one does not wait, nor for the end of the one before."""
        key = msgspec.json.encode((os.getpid(), source))
        with self._lock:
            starting = self._starting[key]
        with starting:
            before = self._running.get(key)
            if before is not None and before.alive:
                return before
            program = self._running[key] = start()
        if before is not None:
            before.close()
        return program


@dataclass(slots=True)
class ServedRollout:
    """A rollout that a program serves."""

    process: PackageProcess
    within_s: float
    """Maximum time for an answer."""
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def ask(self, do: str, *, within_s: float | None = None, **arguments: object) -> Json:
        """Ask for something in this rollout. `SandboxError` if the program is gone through no doing of this rollout."""
        try:
            return self.process.ask(do, within_s=within_s or self.within_s, rollout=self.name, **arguments)
        except ProgramGoneError as error:
            raise SandboxError(str(error), kind="gone") from error

    def drop(self) -> None:
        """Let the program forget it."""
        with contextlib.suppress(AuthorError, SandboxError):  # the program has ended, and the rollout with it
            self.ask("drop")


def _lines(process: "subprocess.Popen[bytes]") -> Iterator[bytes]:
    """The lines that a program writes until it ends. What it started may keep the pipe open, and even write into it."""
    assert process.stdout is not None
    source, begun, left = process.stdout.fileno(), bytearray(), _MAX_PIPE_BYTES
    readable = select.poll()
    readable.register(source, select.POLLIN)
    while left > 0:
        ended = process.poll() is not None  # asked first: all that it wrote is in the pipe then
        if not readable.poll(0 if ended else _LOOK_S * 1000):
            if ended:
                return
            continue
        piece = os.read(source, _PIECE_BYTES)
        if not piece:
            return
        left -= len(piece) if ended else 0
        *whole, rest = piece.split(b"\n")
        for line in whole:
            yield bytes(begun) + line
            begun.clear()
        begun += rest
        if len(begun) > _MAX_ANSWER_BYTES:
            raise ValueError(f"a line of more than {_MAX_ANSWER_BYTES:,} bytes")


def python_at(name: str) -> str:
    """The path of an interpreter that the user names. It stays the same where another folder is the current one."""
    found = shutil.which(name) or name
    return os.path.abspath(found) if "/" in found else found  # noqa: PTH100 - a link of a venv must stay one


def package_version_of(python: str, package: str) -> str:
    """The version of a package in another Python; `ConfigError` with the command that installs it."""
    version = _printed(python, "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))", package)
    if version is None:
        raise ConfigError(f"the package `{package}` is not installed for `{python}`; `{python} -m pip install {package}`")
    try:
        known = Version(version)  # an importer writes it into files: it must be nothing but a version
    except InvalidVersion:
        known = None
    if known is None or len(version) > _MAX_VERSION_CHARS:
        raise ConfigError(f"`{python}` gives {version[:40]!r} as the version of `{package}`, which is none")
    return version


def package_folder_of(python: str, module: str) -> Path:
    """The folder of a package that is installed in another Python, found without importing it."""
    place = _printed(python, "import importlib.util, sys; print(importlib.util.find_spec(sys.argv[1]).origin)", module)
    if place is None or not place.endswith("__init__.py"):
        raise ConfigError(
            f"`{python}` has no package `{module}`; name a folder as `./{module}`, or another Python with `?python=`"
        )
    return Path(place).parent


def _printed(python: str, code: str, argument: str) -> str | None:
    """What a line of Python prints there; None if it fails."""
    try:
        process = subprocess.Popen(  # noqa: S603 - the interpreter that the user named
            [python, "-I", "-c", code, argument],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=passed_variables(),
            start_new_session=True,
        )
    except OSError as error:
        raise ConfigError(f"`{python}` cannot be run: {error.strerror or error}") from error
    late = threading.Timer(_PRINT_S, _kill_group, [process.pid])
    late.start()
    assert process.stdout is not None
    try:
        said = process.stdout.read(_MAX_PRINTED_BYTES + 1)
        if len(said) > _MAX_PRINTED_BYTES:
            raise ConfigError(f"`{python}` prints more than {_MAX_PRINTED_BYTES:,} bytes when it is asked about `{argument}`")
        status = process.wait()
    finally:
        late.cancel()
        _kill_group(process.pid)
        process.wait()
        process.stdout.close()
    if status == -signal.SIGKILL:
        raise ConfigError(f"`{python}` cannot be run: it did not end within {_PRINT_S:g} s")
    return said.decode(errors="replace").strip() if status == 0 else None


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
