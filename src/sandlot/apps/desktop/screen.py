"""The desktop of one world, as the tools use it: two programs inside, one for screen and input, one for the accessibility tree.

They are two because an application that hangs can hold up the second: it is then replaced, and screen and keyboard still work.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, cast

import anyio

from sandlot.apps.desktop.keyboard import checked_keys, checked_modifiers, checked_text
from sandlot.apps.desktop.program import Fields, InsideProgram
from sandlot.apps.desktop.tree import MAX_NODES, MAX_NUMBER, tree_text
from sandlot.core.errors import SandboxError, ToolError
from sandlot.core.text import one_line

_CALL_S = 15.0
_TYPE_S = 40.0
_SETTLE_S = 4.0
_TREE_S = 8.0
_MAX_WINDOWS = 60
"""As many as the program inside lists; more of them are forged."""
_MAX_KNOWN = 5_000
"""Windows whose numbers are kept."""
_POLL_S = 0.1
MAX_WAIT_S = 30.0
_TITLE_CHARS = 120

Button = Literal["left", "middle", "right"]
_BUTTONS: Mapping[str, int] = {"left": 1, "middle": 2, "right": 3}
_SCROLLS: Mapping[str, int] = {"up": 4, "down": 5, "left": 6, "right": 7}


@dataclass(frozen=True, slots=True)
class DesktopWindow:
    """A window of an application."""

    number: int
    """Its number for the agent, such as 3 in `w3`."""
    x_id: int
    title: str
    pid: int
    box: tuple[int, int, int, int]
    active: bool
    hidden: bool

    def line(self) -> str:
        """The window as the agent sees it."""
        x, y, width, height = self.box
        marks = " [active]" * self.active + " [minimized]" * self.hidden
        return f'- w{self.number} "{self.title}" {width}x{height} at {x},{y}{marks}'


@dataclass
class DesktopScreen:
    """An open desktop."""

    program: InsideProgram
    start_reader: Callable[[int], Awaitable[InsideProgram]]
    """Starts the program that reads trees; its elements get numbers from the given one on."""
    size: tuple[int, int]
    applications: Mapping[str, tuple[str, ...]]
    _numbers: dict[int, int] = field(default_factory=dict[int, int])
    _next_number: Iterator[int] = field(default_factory=lambda: count(1))
    _reader: InsideProgram | None = None
    _highest: int = 0

    # -- the two programs ----------------------------------------------------------------------------------------------

    async def _do(self, do: str, most_s: float = _CALL_S, **arguments: Any) -> Fields:
        try:
            return await self.program.call(do, most_s=most_s, **arguments)
        except TimeoutError as error:
            raise ToolError(f"the screen did not answer within {most_s:g} s; try again") from error
        except SandboxError as error:
            raise ToolError(f"the desktop has ended and cannot be used again: {str(error)[:200]}") from error

    async def _read(self, do: str, most_s: float = _CALL_S, **arguments: Any) -> Fields:
        if self._reader is None:
            self._reader = await self.start_reader(self._highest + 1)
        try:
            return await self._reader.call(do, most_s=most_s, **arguments)
        except (TimeoutError, SandboxError) as error:
            await self._reader.close()
            self._reader = None
            raise ToolError("an application does not answer; wait, or use `desktop_screenshot` and the keyboard") from error

    async def close(self) -> None:
        """End both programs and everything they started."""
        for program in (self._reader, self.program):
            if program is not None:
                await program.close()

    async def settle(self) -> bool:
        """Wait until the applications have done what was due; False if they still work after some seconds."""
        return bool((await self._do("settle", most_s=_SETTLE_S + _CALL_S, most_s_inside=_SETTLE_S)).get("quiet"))

    # -- looking -------------------------------------------------------------------------------------------------------

    async def shot(self) -> bytes:
        """The screen as a PNG."""
        found = (await self._do("shot")).get("png")
        try:
            return base64.b64decode(cast("str", found), validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise ToolError("the screenshot cannot be read; try again") from error

    async def windows(self) -> list[DesktopWindow]:
        """All windows of applications, the front one first."""
        found = (await self._do("windows")).get("windows")
        if not isinstance(found, list) or len(cast("list[Any]", found)) > _MAX_WINDOWS:
            raise ToolError("the list of windows cannot be read; try again")
        try:
            return [self._window(each) for each in cast("list[Any]", found)]
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise ToolError("the list of windows cannot be read; try again") from error

    def _window(self, found: Fields) -> DesktopWindow:
        x_id = int(found["id"])
        x, y, width, height = map(int, found["box"])
        title = one_line(str(found["title"]), _TITLE_CHARS)
        pid, active, hidden = int(found["pid"]), bool(found["active"]), bool(found["hidden"])
        return DesktopWindow(self._number_of(x_id), x_id, title, pid, (x, y, width, height), active, hidden)

    def _number_of(self, x_id: int) -> int:
        """The agent's number for a window, never given twice; windows not seen for longest are forgotten first."""
        number = self._numbers.pop(x_id, 0) or next(self._next_number)
        self._numbers[x_id] = number
        if len(self._numbers) > _MAX_KNOWN:
            del self._numbers[next(iter(self._numbers))]
        return number

    async def window(self, name: str) -> DesktopWindow:
        """A window by its number (`w2`) or a part of its title; the front one of several with that title."""
        windows = await self.windows()
        for window in windows:
            if f"w{window.number}" == name:
                return window
        for window in windows:
            if name and name.casefold() in window.title.casefold():
                return window
        raise ToolError(f"no window `{one_line(name, 80)}`; there are:\n{_lines(windows)}")

    async def describe(self) -> str:
        """The windows, for the agent."""
        windows = await self.windows()
        return f"Windows, front first:\n{_lines(windows)}" if windows else "No window is open."

    async def tree(self, window: str | None, element: str | None, text: str) -> str:
        """The accessibility tree of the active window's application, of a named window's, or of everything below an element."""
        number = 0
        pid = 0
        if element is not None:
            number = _number(element)
        elif window != "all":
            windows = await self.windows()
            chosen = await self.window(window) if window else next((each for each in windows if each.active), None)
            pid = chosen.pid if chosen else 0
        found = await self._read("tree", pid=pid, number=number, most_nodes=MAX_NODES, most_s_inside=_TREE_S)
        nodes = found.get("nodes")
        lines, left_out = tree_text(nodes, text)
        self._highest = max([self._highest, *(int(node["number"]) for node in cast("list[Any]", nodes))])
        notes = [one_line(note, 200) for note in _texts(found.get("notes"))[:20]]
        if left_out:
            notes.append(f"{left_out} more lines are not shown; give `text` or `element`")
        if not lines:
            notes.append(f"nothing here has the text {text[:80]!r}" if text else "no elements; look with `desktop_screenshot`")
        return "\n".join([lines, *(f"({note})" for note in notes)]).strip()

    # -- acting --------------------------------------------------------------------------------------------------------

    async def place(self, element: str | None, x: int | None, y: int | None) -> tuple[int, int]:
        """Where to point: the middle of an element, or the given place."""
        if (element is None) == (x is None or y is None):
            raise ToolError("say where: either `element` (as `e12` from `desktop_tree`) or both `x` and `y`")
        if element is not None:
            return await self._middle(element)
        width, height = self.size
        if x is None or y is None or not (0 <= x < width and 0 <= y < height):
            raise ToolError(f"{x},{y} is not on the screen; x is 0 to {width - 1}, y is 0 to {height - 1}")
        return x, y

    async def _middle(self, element: str) -> tuple[int, int]:
        found = await self._read("where", number=_number(element))
        if found.get("gone"):
            raise ToolError(f"`{element}` is gone; read the tree again with `desktop_tree`")
        try:
            left, top, width, height = map(int, found["box"])
            pid = int(found["pid"])
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise ToolError(f"`{element}` has no place on the screen; point with x and y") from error
        if not found.get("showing") or width <= 0 or height <= 0:
            raise ToolError(f"`{element}` is not on the screen now; read the tree again with `desktop_tree`")
        right, bottom = min(left + width, self.size[0]), min(top + height, self.size[1])
        left, top = max(left, 0), max(top, 0)
        if right <= left or bottom <= top:
            raise ToolError(f"`{element}` is outside the screen; scroll to it, or move its window")
        x, y = (left + right) // 2, (top + bottom) // 2
        there = await self._do("at", x=x, y=y)
        if there.get("pid") != pid:
            title = one_line(str(there.get("title", "")), 80)
            raise ToolError(f'`{element}` is covered by "{title}"; bring its window to the front with `desktop_window`')
        return x, y

    async def click(self, where: tuple[int, int], button: Button, count: int, modifiers: list[str]) -> None:
        """Click at a place."""
        held = checked_modifiers(modifiers)
        await self._do("click", x=where[0], y=where[1], button=_BUTTONS[button], count=count, held=held)

    async def move(self, where: tuple[int, int]) -> None:
        """Move the pointer."""
        await self._do("move", x=where[0], y=where[1])

    async def scroll(self, where: tuple[int, int], direction: str, clicks: int) -> None:
        """Turn the wheel at a place."""
        await self._do("click", x=where[0], y=where[1], button=_SCROLLS[direction], count=clicks, held=[])

    async def drag(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Press at one place, move, release at the other."""
        await self._do("drag", x=start[0], y=start[1], to_x=end[0], to_y=end[1])

    async def type(self, text: str) -> None:
        """Type text with the keyboard."""
        await self._do("type", most_s=_TYPE_S, text=checked_text(text))

    async def press(self, keys: str, count: int) -> None:
        """Press keys together."""
        key, held = checked_keys(keys)
        await self._do("press", keys=[key] * count, held=held)

    async def act_on(self, window: DesktopWindow, action: str) -> None:
        """Ask the window manager for something."""
        await self._do("window", window=window.x_id, action=action)

    async def open(self, application: str, path: str | None) -> None:
        """Start an application and wait until it has a new window or a new title; `ToolError` if none comes."""
        if application not in self.applications:
            raise ToolError(f"no application `{one_line(application, 60)}`; there are: {', '.join(self.applications)}")
        if path is not None and not path.startswith("/"):
            raise ToolError(f"`{one_line(path, 100)}` is not a whole path; begin with `/`")
        if path is not None and "\0" in path:
            raise ToolError("the path has a NUL character, which no file name can have")
        before = {(window.x_id, window.title) for window in await self.windows()}
        await self._do("open", argv=[*self.applications[application], *([path] if path else [])])

        async def is_there() -> bool:
            return any((window.x_id, window.title) not in before for window in await self.windows())

        if not await wait_for(is_there, 20.0):
            raise ToolError(f"`{application}` has shown no new window within 20 s; look with `desktop_screenshot`")


async def wait_for(is_there: Callable[[], Awaitable[bool]], most_s: float) -> bool:
    """Ask again and again until it is so; False if it is not within `most_s` seconds."""
    with anyio.move_on_after(most_s):
        while not await is_there():  # noqa: ASYNC110 - the windows are in another process
            await anyio.sleep(_POLL_S)
        return True
    return False


def _lines(windows: list[DesktopWindow]) -> str:
    return "\n".join(window.line() for window in windows) or "none"


def _texts(found: object) -> list[str]:
    """The texts of a list; what is no list or no text is left out."""
    return [each for each in cast("list[Any]", found) if isinstance(each, str)] if isinstance(found, list) else []


def _number(element: str) -> int:
    if not (element[:1] == "e" and element[1:].isascii() and element[1:].isdigit() and len(element) <= len(str(MAX_NUMBER))):
        raise ToolError(f"`{one_line(element, 40)}` is not an element; take one like `e12` from `desktop_tree`")
    return int(element[1:])
