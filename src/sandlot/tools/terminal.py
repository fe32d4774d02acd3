"""A real terminal as a tool: sessions that stay open between calls, in which the agent types and reads the screen.

`bash` runs one command and gives its output; `terminal` is for programs that talk to a terminal: editors, pagers, password
prompts, installers, interpreters. A session is a shell on a pseudo-terminal in the sandbox. Its output is drawn on a `Screen`;
the agent gets the screen as text. Each session is recorded as an asciicast of the drawn screens, so that a recording holds no
escape sequence that a program chose.

The world holds the sessions (`open_terminals`); they end with it. A program that prints without end cannot keep this process
busy: reading rests four times as long as drawing took.
"""

import re
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol, runtime_checkable

import anyio
import anyio.abc
import msgspec

from sandlot.core.errors import AuthorError, SandboxError, ToolError
from sandlot.core.ports.sandbox import Command, Process
from sandlot.core.ports.world import World
from sandlot.tools.function import FunctionTool
from sandlot.tools.screen import MAX_COLUMNS, MAX_ROWS, Screen

MAX_SESSIONS = 8
NEEDS_SANDBOX = 'the tool `terminal` needs a sandbox; give the environment an image, such as `image="host"`'
_MAX_WAIT_S = 55.0
"""The longest wait of one call; below the usual limit of a tool call."""
_QUIET_S = 0.4
"""Without output for this long, a program is taken to wait."""
_ANSWER_S = 1.5
"""The wait for the first output after something was typed."""
_RECENT = 100
"""Lines above the screen in which a text that is waited for is counted: it may have left the screen while it was printed."""
_START_S = 10.0
_OUTPUT_BYTES = 64 * 2**20
"""Output of one session that is read; the rest is dropped inside the sandbox."""
_REPLY_BYTES = 256
"""Answers to questions about the terminal, until something is typed: a program that does not read them must not block us."""
_PIECE = 4096
"""Bytes drawn at a time."""
_SHARE = 4
"""Reading rests this many times as long as drawing took."""
_FRAME_S = 0.25
"""Seconds between two pictures of a recording."""
_RECORDED_BYTES = 2 * 2**20
"""Size of one recording."""
_SHELL = (
    'printf "\\033]777;%s;%s\\007" "$(tty)" "$$"; stty rows {rows} cols {columns} 2>/dev/null; '
    "if command -v bash >/dev/null; then exec bash --norc -i; else exec sh -i; fi"
)
_HELLO = re.compile(r"777;(/dev/pts/\d+);(\d+)\Z")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}\Z")
_FOREGROUND = (
    "read -r s < /proc/{pid}/stat; set -- ${{s##*) }}; "  # after the name: state, parent, group, session, terminal, foreground
    '[ "$6" -gt 0 ] && kill -s {signal} -- "-$6"'
)

_Signal = Literal["INT", "TERM", "KILL", "HUP", "QUIT", "TSTP", "CONT", "USR1", "USR2"]

_ARROWS = {"Up": "A", "Down": "B", "Right": "C", "Left": "D", "Home": "H", "End": "F"}
_KEYS = {
    "Enter": "\r",
    "Tab": "\t",
    "Esc": "\x1b",
    "Escape": "\x1b",
    "Space": " ",
    "Backspace": "\x7f",
    "Delete": "\x1b[3~",
    "Insert": "\x1b[2~",
    "PageUp": "\x1b[5~",
    "PageDown": "\x1b[6~",
    "BackTab": "\x1b[Z",
    **{f"F{number}": f"\x1bO{letter}" for number, letter in zip(range(1, 5), "PQRS", strict=True)},
    **{f"F{number}": f"\x1b[{code}~" for number, code in zip(range(5, 13), (15, 17, 18, 19, 20, 21, 23, 24), strict=True)},
}
"""Named keys; `C-x` is control and a letter, `M-x` is escape and a character."""


def key_bytes(key: str, *, app_cursor: bool = False) -> bytes:
    """What a terminal sends for a key; `ToolError` for an unknown one."""
    if key in _ARROWS:
        return f"\x1b{'O' if app_cursor else '['}{_ARROWS[key]}".encode()
    if key in _KEYS:
        return _KEYS[key].encode()
    if len(key) == 1:
        return key.encode("utf-8", "replace")
    if key[:2] in {"C-", "^"} or key[:1] == "^":
        letter = key.removeprefix("C-").removeprefix("^").upper()
        if len(letter) == 1 and "@" <= letter <= "_":
            return bytes([ord(letter) - 64])
        if letter in {"?", "SPACE"}:
            return b"\x7f" if letter == "?" else b"\0"
    if key.startswith("M-") and len(key) == 3:
        return b"\x1b" + key[2:].encode("utf-8", "replace")
    known = ", ".join([*_KEYS, *_ARROWS])
    raise ToolError(f"unknown key {key[:40]!r}; keys: {known}, C-a to C-z for control, M-x for meta, or one character")


# -- recordings --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Recording:
    """Pictures of a screen with their times, as asciicast 2."""

    name: str
    started_s: float
    lines: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    full: bool = False
    last_s: float = -1.0
    shown: str = ""

    def add(self, screen: Screen, *, last: bool = False) -> None:
        """Record the screen, unless it is as before or the last picture was a moment ago."""
        now = time.monotonic()
        if self.full or (now - self.last_s < _FRAME_S and not last) or screen.text == self.shown:
            return
        self.last_s, self.shown = now, screen.text
        drawn = "\x1b[H\x1b[2J" + screen.text.replace("\n", "\r\n") + f"\x1b[{screen.row + 1};{screen.column + 1}H"
        line = msgspec.json.encode([round(now - self.started_s, 3), "o", drawn]) + b"\n"
        self.size += len(line)
        self.full = self.size > _RECORDED_BYTES
        if not self.full:
            self.lines.append(line)

    def cast(self, screen: Screen) -> bytes:
        """The whole recording as a file."""
        head = {"version": 2, "width": screen.columns, "height": screen.rows, "title": self.name, "env": {"TERM": "xterm"}}
        return msgspec.json.encode(head) + b"\n" + b"".join(self.lines)


# -- sessions ----------------------------------------------------------------------------------------------------------


class TerminalSession:
    """A shell on a terminal of its own."""

    def __init__(self, name: str, process: Process, screen: Screen, started_s: float) -> None:
        self.name = name
        self.process = process
        self.screen = screen
        self.code: int | None = None
        """The exit code once the shell has ended."""
        self.problem = ""
        self.tty, self.pid = "", 0
        self.recording = _Recording(name, started_s)
        self._changed = anyio.Event()
        self._replies_left = _REPLY_BYTES

    async def type(self, data: bytes) -> None:
        """Send what was typed."""
        self._replies_left = _REPLY_BYTES
        await self.process.send(data)

    async def read(self) -> None:
        """Draw what is printed until the shell ends."""
        try:
            async for _, data in self.process.output():
                for place in range(0, len(data), _PIECE):
                    await self._draw(data[place : place + _PIECE])
            self.code = await self.process.wait()
        except SandboxError as error:
            self.problem = str(error)
        except anyio.get_cancelled_exc_class():
            return  # the world ends; a task that ends as cancelled is freed much later, and with it all that was recorded
        finally:
            self.recording.add(self.screen, last=True)
            self._note_change()

    async def _draw(self, data: bytes) -> None:
        began_s = time.perf_counter()
        self.screen.feed(data)
        if not self.pid and (said := _HELLO.match(self.screen.title_said)):
            self.tty, self.pid = said[1], int(said[2])
        self.recording.add(self.screen)
        spent_s = time.perf_counter() - began_s
        self._note_change()
        replies = self.screen.take_replies()[: self._replies_left]
        if replies:
            self._replies_left -= len(replies)
            await self.process.send(replies)
        await anyio.sleep(min(spent_s * _SHARE, 1.0) if spent_s > 0.001 else 0)

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    @property
    def over(self) -> bool:
        """True once the shell has ended."""
        return self.code is not None or bool(self.problem)

    def count(self, text: str) -> int:
        """How often a text is on the screen and on the last lines above it."""
        if not text:
            return 0
        above = self.screen.scrolled
        recent = [above[place] for place in range(max(0, len(above) - _RECENT), len(above))]
        return "\n".join([*recent, self.screen.text, ""]).count(text.rstrip(" "))

    async def wait(self, text: str, seconds: float, *, before: int = 0, typed: bool = False) -> str:
        """Wait for a text on the screen, or until nothing is printed; says why it ended if that is not clear.

        A text that was there `before` something was typed, or is in what was typed, must appear once more. One that has left the
        screen no longer counts.
        """
        last, quiet_s = self.count(text), _ANSWER_S if typed else _QUIET_S
        with anyio.move_on_after(seconds):
            while not self.over:
                count = self.count(text)
                before, last = max(0, before - max(0, last - count)), count
                if count > before:
                    return ""
                with anyio.move_on_after(None if text else quiet_s) as quiet:
                    await self._changed.wait()
                if quiet.cancelled_caught:
                    return ""
                quiet_s = _QUIET_S
            return ""
        return f"{text!r} did not appear within {seconds:g} s" if text else f"still printing after {seconds:g} s"

    async def wait_started(self) -> None:
        """Wait until the shell has said which terminal it has."""
        with anyio.move_on_after(_START_S):
            while not self.pid and not self.over:
                await self._changed.wait()

    def shown(self, note: str = "", back: int = 0) -> str:
        """The screen as the agent reads it, and a line about it; `back` more lines from above it."""
        screen = self.screen
        above = list(screen.scrolled)[-back:] if back else []
        place = f"cursor at row {screen.row + 1}, column {screen.column + 1}"
        facts = [f"session {self.name}, {screen.rows} rows, {screen.columns} columns, {place}"]
        facts += ["full-screen program"] if screen.alternate else []
        facts += [f"lines above: {len(screen.scrolled)}"] if screen.scrolled and not back and not screen.alternate else []
        facts += [f"ended, exit code {self.code}"] if self.code is not None else [self.problem] if self.problem else []
        facts += [note] if note else []
        return "\n".join([*above, screen.text, f"[{'; '.join(facts)}]"])


class Terminals:
    """The terminal sessions of one world."""

    def __init__(self, world: World, group: anyio.abc.TaskGroup) -> None:
        self._world = world
        self._group = group
        self._open: dict[tuple[str, str], TerminalSession] = {}
        """By seat and name: no seat types into the terminal of another."""
        self._ended: list[tuple[str, TerminalSession]] = []
        self._started_s = time.monotonic()
        self.taking_turns = anyio.Lock()

    def _own(self) -> list[str]:
        """Names of the open sessions of the seat that acts."""
        return [name for seat, name in self._open if seat == self._world.seat]

    async def session(self, name: str, rows: int, columns: int) -> tuple[TerminalSession, bool]:
        """The session of this name, started if there is none; True if it was."""
        seat = self._world.seat
        found = self._open.get((seat, name))
        if found is not None and not found.over:
            return found, False
        if found is not None:
            self._ended.append((seat, self._open.pop((seat, name))))
        own = self._own()
        if len(own) >= MAX_SESSIONS or len([each for each, _ in self._ended if each == seat]) >= MAX_SESSIONS * 8:
            raise ToolError(f"{MAX_SESSIONS} sessions are open: {', '.join(own)}; close one with `close`")
        if not _NAME.match(name):
            raise ToolError(f"session {name[:40]!r}: use 1 to 32 letters, digits, `_` or `-`")
        argv = ("/bin/sh", "-c", _SHELL.format(rows=rows, columns=columns))
        env = {"PS1": "\\w\\$ ", "HISTFILE": "/dev/null", "TERM": "xterm", "BASH_SILENCE_DEPRECATION_WARNING": "1"}
        process = await self._world.spawn(Command(argv=argv, pty=True, env=env, output_bytes=_OUTPUT_BYTES))
        session = self._open[seat, name] = TerminalSession(name, process, Screen(rows, columns), self._started_s)
        self._group.start_soon(session.read)
        await session.wait_started()
        return session, True

    async def resize(self, session: TerminalSession, rows: int, columns: int) -> None:
        """Change the size of the terminal; its programs are told by a signal."""
        session.screen.resize(rows, columns)
        if session.tty:
            await self._world.exec(f"stty rows {rows} cols {columns} < {session.tty}", check=False, user="root")

    async def signal(self, session: TerminalSession, name: str) -> str:
        """Send a signal to what runs in the foreground; says if it could not be sent."""
        done = await self._world.exec(_FOREGROUND.format(pid=session.pid, signal=name), check=False)
        return (
            "" if done.code == 0 else f"the signal was not sent: {done.stderr.strip()[-200:] or 'no program in the foreground'}"
        )

    async def close(self, name: str) -> TerminalSession:
        """End a session and everything that runs in it."""
        seat = self._world.seat
        session = self._open.pop((seat, name), None)
        if session is None:
            raise ToolError(f"no session {name[:40]!r} is open; open: {', '.join(self._own()) or 'none'}")
        self._ended.append((seat, session))
        await session.process.kill()
        return session

    def recordings(self) -> Iterator[tuple[str, bytes]]:
        """The recordings of all sessions, by name: asciicast 2."""
        opened = [(seat, session) for (seat, _), session in self._open.items()]
        for seat, session in [*self._ended, *opened]:
            session.recording.add(session.screen, last=True)
            yield f"{seat}-{session.name}" if seat else session.name, session.recording.cast(session.screen)


@runtime_checkable
class HasTerminals(Protocol):
    """A world in which terminals can be opened."""

    terminals: Terminals | None


@asynccontextmanager
async def open_terminals(world: World) -> AsyncGenerator[Terminals]:
    """Sessions for a world; they end with the context."""
    async with anyio.create_task_group() as group:
        terminals = Terminals(world, group)
        try:
            yield terminals
        finally:
            group.cancel_scope.cancel()


# -- the tool ----------------------------------------------------------------------------------------------------------


async def terminal(  # noqa: PLR0913, PLR0917 - what an agent can do at a terminal, all by name
    world: World,
    text: str = "",
    keys: Sequence[str] = (),
    wait_for: str = "",
    wait_s: Annotated[float, msgspec.Meta(gt=0, le=_MAX_WAIT_S)] = 10.0,
    session: str = "main",
    back: Annotated[int, msgspec.Meta(ge=0, le=500)] = 0,
    signal: _Signal | None = None,
    rows: Annotated[int, msgspec.Meta(ge=2, le=MAX_ROWS)] | None = None,
    columns: Annotated[int, msgspec.Meta(ge=10, le=MAX_COLUMNS)] | None = None,
    close: bool = False,  # noqa: FBT001, FBT002 - an argument of the agent, by name
) -> str:
    """Type into a terminal that stays open between calls, and read its screen; for programs that need a terminal.

    text: typed as it is, before `keys`; a line break is Enter
    keys: pressed one after the other: Enter, Tab, Esc, Up, Down, Left, Right, Home, End, PageUp, PageDown, Backspace, Delete,
        F1 to F12, C-c and other control keys, M-x for meta, or one character
    wait_for: wait until this text appears on the screen, besides where it already is and in what you typed; without it, until
        nothing is printed for a moment
    wait_s: the longest wait, in seconds
    session: the name of the session; a new name opens another terminal with a shell
    back: also show this many lines from above the screen
    signal: sent to the program in the foreground, before anything is typed
    rows: another number of rows
    columns: another number of columns
    close: end the session
    """
    terminals = world.terminals if isinstance(world, HasTerminals) else None
    if terminals is None:
        raise AuthorError(NEEDS_SANDBOX)
    if close:
        ended = await terminals.close(session)
        return f"[session {ended.name} is closed]"
    async with terminals.taking_turns:  # calls of one turn are made one after the other
        opened, new = await terminals.session(session, rows or 24, columns or 80)
        if new:
            await opened.wait("", min(wait_s, 2.0), typed=not opened.screen.text)
        elif rows or columns:
            await terminals.resize(opened, rows or opened.screen.rows, columns or opened.screen.columns)
        note = await terminals.signal(opened, signal) if signal is not None else ""
        acted = bool(text or keys or signal)
        before = opened.count(wait_for) + (text.count(wait_for) if wait_for else 0) if acted else 0
        await _type(opened, text, keys)
        waited = await opened.wait(wait_for, wait_s, before=before, typed=acted)
        return opened.shown("; ".join(filter(None, (note, waited))), back)


async def _type(session: TerminalSession, text: str, keys: Sequence[str]) -> None:
    pressed = b"".join(key_bytes(key, app_cursor=session.screen.app_cursor) for key in keys)
    data = text.replace("\r\n", "\n").replace("\n", "\r").encode("utf-8", "replace") + pressed
    with suppress(SandboxError):  # the shell has just ended: the screen says so
        if data:
            await session.type(data)


TERMINAL = FunctionTool.of(terminal)
