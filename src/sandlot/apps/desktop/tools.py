"""The tools of an open desktop: look (screenshot, tree, windows), point, type, and start applications.

Each acting tool waits until the applications have done what was due, and answers with the windows that are open then.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal

import anyio

from sandlot.apps.desktop.screen import MAX_WAIT_S, DesktopScreen, wait_for
from sandlot.core.errors import AuthorError, ToolError, boundary
from sandlot.core.images import Image
from sandlot.core.ports.world import ToolSpec, World
from sandlot.core.text import one_line
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.tools.arguments import checked_arguments, clean
from sandlot.tools.function import DECLARE_IMAGES, pictured_result
from sandlot.tools.schema import ToolSignature, signature_of

_MAX_COUNT = 50


async def desktop_screenshot(screen: DesktopScreen) -> list[str | Image]:
    """Show the screen as an image. Coordinates of other tools are its pixels, from the upper left corner."""
    width, height = screen.size
    windows = await screen.windows()
    titles = ", ".join(f'"{window.title}"' for window in windows[:8]) or "no windows"
    shown = Image(await screen.shot(), alt=f"the desktop with {titles}")
    return [f"The screen, {width} x {height}. {await screen.describe()}", shown]


async def desktop_tree(screen: DesktopScreen, window: str | None = None, element: str | None = None, text: str = "") -> str:
    """Read what the windows of an application show, as a tree of elements: roles, names, values, and references such as e12.

    window: a window's number (w2) or a part of its title; `all` for every application; else the active one
    element: only what is below this element
    text: only elements with this text, with those above them
    """
    return await screen.tree(window, element, text)


async def desktop_windows(screen: DesktopScreen) -> str:
    """List the open windows."""
    return await screen.describe()


async def desktop_window(screen: DesktopScreen, window: str, action: Literal["focus", "close", "maximize"]) -> str:
    """Bring a window to the front, close it (as its close button does), or maximize it.

    window: its number (w2) or a part of its title
    """
    await screen.act_on(await screen.window(window), action)
    return await _after(screen)


async def desktop_open(screen: DesktopScreen, application: str, path: str | None = None) -> str:
    """Start an application, with a file or folder if you like, and wait for its window.

    path: the whole path of what it opens
    """
    await screen.open(application, path)
    return await _after(screen)


async def desktop_click(
    screen: DesktopScreen,
    element: str | None = None,
    x: int | None = None,
    y: int | None = None,
    button: Literal["left", "middle", "right"] = "left",
    count: int = 1,
    modifiers: list[str] = [],  # noqa: B006 - never changed
) -> str:
    """Click on an element, or at a place of the screen.

    element: a reference from desktop_tree, such as e12
    count: 2 for a double click
    modifiers: keys held meanwhile: ctrl, shift, alt
    """
    if not 1 <= count <= 3:
        raise ToolError(f"`count` is {count}; click 1, 2 or 3 times")
    where = await screen.place(element, x, y)
    await screen.click(where, button, count, modifiers)
    return await _after(screen)


async def desktop_move(screen: DesktopScreen, element: str | None = None, x: int | None = None, y: int | None = None) -> str:
    """Move the mouse pointer onto an element or to a place, without a click."""
    await screen.move(await screen.place(element, x, y))
    return await _after(screen)


async def desktop_drag(screen: DesktopScreen, x: int, y: int, to_x: int, to_y: int) -> str:
    """Press the left button at x,y, move to to_x,to_y, and release it there."""
    start, end = await screen.place(None, x, y), await screen.place(None, to_x, to_y)
    await screen.drag(start, end)
    return await _after(screen)


async def desktop_scroll(
    screen: DesktopScreen, x: int, y: int, direction: Literal["up", "down", "left", "right"], clicks: int = 3
) -> str:
    """Turn the mouse wheel at a place of the screen."""
    if not 1 <= clicks <= _MAX_COUNT:
        raise ToolError(f"`clicks` is {clicks}; choose 1 to {_MAX_COUNT}")
    await screen.scroll(await screen.place(None, x, y), direction, clicks)
    return await _after(screen)


async def desktop_type(screen: DesktopScreen, text: str) -> str:
    """Type text with the keyboard, into what has the focus. A newline is the Return key, a tab the Tab key."""
    await screen.type(text)
    return await _after(screen)


async def desktop_press(screen: DesktopScreen, keys: str, count: int = 1) -> str:
    """Press a key, or keys together: `Return`, `ctrl+s`, `alt+F4`, `shift+Tab`.

    count: how often
    """
    if not 1 <= count <= _MAX_COUNT:
        raise ToolError(f"`count` is {count}; choose 1 to {_MAX_COUNT}")
    await screen.press(keys, count)
    return await _after(screen)


async def desktop_wait(screen: DesktopScreen, seconds: float = 1.0, title: str | None = None, *, closed: bool = False) -> str:
    """Wait some seconds; with a title, at most so long until a window with this in its title is open, or until none is.

    seconds: at most 30
    closed: true to wait until no window has the title
    """
    if not 0 <= seconds <= MAX_WAIT_S:
        raise ToolError(f"`seconds` is {seconds}; choose 0 to {MAX_WAIT_S:g}")
    if title is None:
        await anyio.sleep(seconds)
        return await _after(screen)
    wanted = title.casefold()

    async def is_so() -> bool:
        return any(wanted in window.title.casefold() for window in await screen.windows()) != closed

    if not await wait_for(is_so, seconds):
        what = "a window still has" if closed else "no window has"
        raise ToolError(f"{what} {one_line(title, 80)!r} in its title after {seconds:g} s. {await screen.describe()}")
    return await _after(screen)


async def _after(screen: DesktopScreen) -> str:
    quiet = await screen.settle()
    return ("" if quiet else "(An application is still at work.) ") + await screen.describe()


_FUNCTIONS: tuple[Callable[..., Awaitable[Any]], ...] = (
    desktop_screenshot,
    desktop_tree,
    desktop_windows,
    desktop_window,
    desktop_open,
    desktop_click,
    desktop_move,
    desktop_drag,
    desktop_scroll,
    desktop_type,
    desktop_press,
    desktop_wait,
)


@cache
def _signature(function: Callable[..., Awaitable[Any]]) -> ToolSignature:
    return signature_of(function, given="screen")


@contextmanager
def _hostile_answers() -> Generator[None]:
    """Errors of reading what programs of the desktop answered are for the agent: such a program must not void the rollout."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ToolError("the desktop gave an answer that cannot be read") from error


class DesktopTool:
    """One tool of an open desktop."""

    def __init__(self, function: Callable[..., Awaitable[Any]], screen: DesktopScreen) -> None:
        self._function = function
        self._screen = screen
        self._signature = _signature(function)
        description = self._signature.description
        if function is desktop_open:
            description += f" Applications: {', '.join(screen.applications)}."
        self.spec = ToolSpec(name=function.__name__, description=description, parameters=self._signature.parameters)

    @property
    def concurrent(self) -> bool:
        """False: there is one mouse and one keyboard."""
        return False

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """Check the arguments and do it; errors come with the fix."""
        try:
            keywords = self._signature.check(checked_arguments(call))
            with boundary(AuthorError, f"tool `{self.spec.name}`"), _hostile_answers():
                result = await self._function(self._screen, **keywords)
            if isinstance(result, str):
                return ToolResult(call=call.id, text=clean(result))
            return await pictured_result(world, call, result)
        except ToolError as error:
            return ToolResult(call=call.id, text=clean(str(error)), error=True)
        except LookupError as error:
            raise AuthorError(f"a desktop with `screenshots=True`: {DECLARE_IMAGES}") from error


def desktop_tools(screen: DesktopScreen, *, screenshots: bool) -> list[DesktopTool]:
    """All tools of an open desktop, with or without screenshots."""
    return [DesktopTool(function, screen) for function in _FUNCTIONS if screenshots or function is not desktop_screenshot]
