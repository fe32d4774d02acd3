"""The world of a running rollout: what setup, tools and solutions act in."""

import functools
import posixpath
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

from sandlot.core.errors import AuthorError, InsideError, ToolError
from sandlot.core.image_formats import BadImageError
from sandlot.core.images import Image, store_image
from sandlot.core.ports.sandbox import Command, Completed, Files, Process, Sandbox, Stream
from sandlot.core.ports.session import RolePlayer
from sandlot.core.ports.store import Blobs
from sandlot.core.task import Task
from sandlot.core.trace import FileRecord, ImagePart, Message
from sandlot.core.types import digest
from sandlot.grade.gather import SmallFiles
from sandlot.sandbox.command import run_command
from sandlot.sandbox.service import start_service
from sandlot.tools.terminal import Terminals

MAX_ROLLOUT_IMAGE_BYTES = 256 * 2**20
"""Bytes of all images that tools show in one rollout."""
_MAX_SHOWN = 1_000
"""Characters of a failed command, and of the end of its output, in an error message."""


@dataclass(slots=True)
class _Answer:
    """For whom author code runs: a seat, or nobody in particular."""

    seat: str = ""
    given_up: bool = False
    """Its time is up. A plain function goes on in its abandoned thread."""


_answer: ContextVar[_Answer | None] = ContextVar("answer", default=None)
"""Worker threads copy the context, so an abandoned one does not take the name of the seat that acts next."""


class answering:  # noqa: N801 - used as a function; every tool call passes it, and a generator costs more
    """Author code in the block answers a call or message of this seat, until the block is cancelled."""

    __slots__ = ("_given", "_token")

    def __init__(self, seat: str) -> None:
        self._given = _Answer(seat)

    def __enter__(self) -> None:
        self._token = _answer.set(self._given)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._given.given_up = True
        _answer.reset(self._token)


def _answering_seat() -> str:
    answer = _answer.get()
    return answer.seat if answer else ""


def _require_in_time(what: str) -> None:
    answer = _answer.get()
    if answer is not None and answer.given_up:
        raise AuthorError(f"`world.{what}` was called for seat `{answer.seat}` after its time was up; it had no effect")


def _failed(command: str, done: Completed) -> str:
    shown = command if len(command) <= _MAX_SHOWN else f"{command[:_MAX_SHOWN]} ..."
    name, text = ("stderr", done.stderr) if done.stderr.strip() else ("stdout", done.stdout)
    said = f"{name} ends: {text.strip()[-_MAX_SHOWN:]}" if text.strip() else "it printed nothing"
    return f"the command `{shown}` failed with exit code {done.code}; {said}"


def sandbox_of(files: Files) -> Sandbox | None:
    """The files as a `Sandbox`; None if they are in memory."""
    return cast("Sandbox", files) if _is_sandbox(type(files)) else None


@functools.cache
def _is_sandbox(kind: type) -> bool:
    return issubclass(kind, Sandbox)  # 0.1 ms for a Protocol, so once per class


@dataclass(slots=True)
class LiveWorld:
    """The `World` of one rollout. It is closed at the end; only the evidence is kept."""

    state: Any
    task: Task
    rng: Random
    files: Files
    written: dict[str, FileRecord] | None = None
    """Files written into the sandbox so far; None once anything else was done in it, and without a sandbox."""

    small: SmallFiles = field(default_factory=SmallFiles)
    """The content of small files that setup wrote."""

    apps: Any = None
    """The open apps; None without apps."""

    checks: bool = False
    """The default of `exec(check=)`: True during setup."""

    blobs: Blobs | None = None
    """Where images of tools are stored; None if the environment shows no images."""

    images_left: int = MAX_ROLLOUT_IMAGE_BYTES
    """Bytes of images that this rollout may still show."""

    terminals: Terminals | None = None
    """The terminal sessions, if the environment offers the tool."""

    turns: list[Message] = field(default_factory=list[Message])
    """The agent's messages so far. The last one is the one whose calls run, or to which the user replies."""

    seats: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Where several agents act: what each seat is to read before its next turn, by name."""

    users: Mapping[str, Callable[[Command], Command]] = field(default_factory=dict[str, Callable[[Command], Command]])
    """Where seats share a sandbox: the command as each seat's own user runs it, by name."""

    ended: bool = False
    """True once `end` was called."""

    roles: RolePlayer | None = None
    """Plays the roles of a foreign program; None if there are none."""

    seat = cast("str", property(lambda _world: _answering_seat()))  # for a type checker an attribute, as in `World`
    """The seat whose call or message is being answered; empty in setup, between rounds and at the end."""

    def tell(self, seat: str, text: str) -> None:
        """Let a seat read a text before its next turn."""
        _require_in_time("tell")
        if seat not in self.seats:
            raise AuthorError(f"`world.tell`: there is no seat `{seat}`; seats: {', '.join(self.seats) or 'none'}")
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - an author's value
            raise AuthorError(f"`world.tell`: the text for seat `{seat}` is {type(text).__name__} {text!r:.80}; give a str")
        self.seats[seat].append(text)

    def end(self) -> None:
        """End the rollout for all seats."""
        _require_in_time("end")
        if not self.seats:
            raise AuthorError(
                "`world.end`: this environment has no seats; the agent ends its rollout by a message without a call"
            )
        self.ended = True

    async def store_image(self, image: Image) -> ImagePart | None:
        """Store an image that the agent is to see; None if the environment shows no images.

        `ToolError` if it is no image, or the rollout's budget is used up.
        """
        if self.blobs is None:
            return None
        if len(image.data) > self.images_left:
            raise ToolError(f"the image is not shown: this rollout's {MAX_ROLLOUT_IMAGE_BYTES:,} bytes of images are used up")
        try:
            part = await store_image(image, self.blobs)
        except BadImageError as error:
            raise ToolError(f"the image is not shown: {error}") from error
        self.images_left -= len(image.data)
        return part

    async def read(self, path: str) -> bytes:
        """Read a file."""
        return await self.files.read(path)

    async def write(self, path: str, data: bytes | str) -> None:
        """Write a file and create its parent folders. Text is written as UTF-8."""
        content = data.encode() if isinstance(data, str) else data
        await self.files.write(path, content)
        if self.written is not None:
            self.written[posixpath.normpath(path)] = FileRecord(size=len(content), blob=digest(content))
            self.small.add(posixpath.normpath(path), content)

    async def list(self, folder: str = "/") -> Sequence[str]:
        """Absolute paths of all files below a folder, sorted."""
        return await self.files.list(folder)

    async def exec(
        self,
        command: str,
        *,
        stdin: str = "",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        output_bytes: int | None = None,
        check: bool | None = None,
        user: str | None = None,
    ) -> Completed:
        """Run a shell command in the sandbox and wait for it. With `check`, raise if its exit code is not 0.

        It runs as `user`; None: as the seat that acts, if seats have users of their own, else as the image's user.
        Output beyond `output_bytes` (None: 8 MiB) is dropped and counted.
        """
        argv = ("/bin/sh", "-c", command)
        sandbox = self.sandbox("exec")
        asked = Command(argv=argv, cwd=cwd, env=dict(env or {}), stdin=stdin.encode(), output_bytes=output_bytes, user=user)
        done = await run_command(sandbox, self._as_seat(asked))
        if done.code != 0 and (self.checks if check is None else check):
            raise InsideError(_failed(command, done) + ("; write `check=False` if it may fail" if check is None else ""))
        return done

    async def spawn(self, command: Command) -> Process:
        """Start a command in the sandbox and return its process."""
        return await self.sandbox("spawn").spawn(self._as_seat(command))

    async def start(self, command: str, *, ready: int | str | None = None, timeout_s: float = 30.0) -> Process:
        """Start a shell command and leave it running. With `ready`, wait until that port or Unix socket accepts connections."""
        return await start_service(self.sandbox("start"), command, ready=ready, timeout_s=timeout_s, as_user=self._as_seat)

    def _as_seat(self, command: Command) -> Command:
        """The command as the user of the seat that acts, unless it names its user."""
        own = self.users.get(self.seat) if command.user is None else None
        return own(command) if own else command

    async def connect(self, where: int | str) -> Stream:
        """Connect to a port or Unix socket inside the sandbox; the network stays closed."""
        return await self.sandbox("connect").connect(where)

    def listen(self, port: int) -> AbstractAsyncContextManager[AsyncIterator[Stream]]:
        """Serve a port of the sandbox's loopback from the host: yields the connections of programs inside."""
        return self.sandbox("listen").listen(port)

    def sandbox(self, what: str) -> Sandbox:
        """The sandbox, to run `what` in; from then on `written` is unknown. `AuthorError` if there is none."""
        sandbox = sandbox_of(self.files)
        if sandbox is None:
            raise AuthorError(f'`world.{what}`: this environment has no sandbox; give it an image, such as `image="host"`')
        self.written = None
        return sandbox
