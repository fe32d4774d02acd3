"""The browser's tools, with the names, arguments and results of the public Playwright MCP server (`schemas/playwright.json`).

Left out are the tools that run code in the page or look past it (evaluate, console, network) and those for files. Differences:
results carry the snapshot itself instead of the name of a file with it, and not the Playwright code that would do the same.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, Literal
from urllib.parse import urlsplit

import anyio
import msgspec

from sandlot.apps.browser.sites import SiteServer
from sandlot.apps.browser.window import Window
from sandlot.apps.recorded import RecordedServer
from sandlot.core.errors import AuthorError, ToolError, boundary
from sandlot.core.images import Image
from sandlot.core.ports.world import ToolSpec, World
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.tools.arguments import checked_arguments, clean
from sandlot.tools.function import DECLARE_IMAGES, pictured_result

_MAX_WAIT_S = 30.0
_TEXT_WAIT_S = 5.0
_POLL_S = 0.05
_CONTEXT_LINES = 2
_MAX_FOUND = 20
_MAX_LINES = 10_000
_MAX_LINE_CHARS = 500
_MAX_REGEX_CHARS = 200
_MAX_REGEX_STEPS = 100_000_000
"""Steps that a search with a regular expression may take in the worst case: about a second."""


class _Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool that takes none, and the base of all others."""


class _OnElement(_Arguments, frozen=True, kw_only=True):
    target: str
    element: str | None = None


class _Navigate(_Arguments, frozen=True, kw_only=True):
    url: str


class _Snapshot(_Arguments, frozen=True, kw_only=True):
    target: str | None = None
    filename: str | None = None
    depth: float | None = None
    boxes: bool | None = None


class _Find(_Arguments, frozen=True, kw_only=True):
    text: str | None = None
    regex: str | None = None
    filename: str | None = None


class _Click(_OnElement, frozen=True, kw_only=True):
    doubleClick: bool = False  # noqa: N815 - the name in the public schema
    button: Literal["left", "right", "middle"] = "left"
    modifiers: list[Literal["Alt", "Control", "ControlOrMeta", "Meta", "Shift"]] = []


class _Type(_OnElement, frozen=True, kw_only=True):
    text: str
    submit: bool = False
    slowly: bool = False


class _Field(_OnElement, frozen=True, kw_only=True):
    name: str
    type: Literal["textbox", "checkbox", "radio", "combobox", "slider"]
    value: str


class _FillForm(_Arguments, frozen=True, kw_only=True):
    fields: list[_Field]


class _Choose(_OnElement, frozen=True, kw_only=True):
    values: list[str]


class _Press(_Arguments, frozen=True, kw_only=True):
    key: str


class _Dialog(_Arguments, frozen=True, kw_only=True):
    accept: bool
    promptText: str | None = None  # noqa: N815 - the name in the public schema


class _Tabs(_Arguments, frozen=True, kw_only=True):
    action: Literal["list", "new", "close", "select"]
    index: float | None = None
    url: str | None = None


class _Wait(_Arguments, frozen=True, kw_only=True):
    time: float | None = None
    text: str | None = None
    textGone: str | None = None  # noqa: N815 - the name in the public schema


class _Screenshot(_Arguments, frozen=True, kw_only=True):
    element: str | None = None
    target: str | None = None
    type: Literal["png", "jpeg", "webp"] = "png"
    filename: str | None = None
    fullPage: bool = False  # noqa: N815 - the name in the public schema
    scale: Literal["css", "device"] = "css"


# -- the tools ---------------------------------------------------------------------------------------------------------


async def _navigate(window: Window, given: _Navigate) -> str:
    await window.tab.navigate(checked_url(given.url))
    return await _page(window)


async def _navigate_back(window: Window, given: _Arguments) -> str:  # noqa: ARG001 - all tools have one shape
    await window.tab.go_back()
    return await _page(window)


async def _snapshot(window: Window, given: _Snapshot) -> str:
    _refuse(filename=given.filename, boxes=given.boxes)
    return await _page(window, given.target, int(given.depth or 0))


async def _find(window: Window, given: _Find) -> str:
    _refuse(filename=given.filename)
    if (given.text is None) == (given.regex is None):
        raise ToolError("give either `text` or `regex`")
    lines = (await window.tab.snapshot()).splitlines()[:_MAX_LINES]
    hits = find_lines(lines, given.text, given.regex)
    if not hits:
        return f"### Result\nNo matches for {given.text or given.regex!r} in {len(lines)} lines of the snapshot."
    pieces: list[str] = []
    for number in hits[:_MAX_FOUND]:
        around = lines[max(0, number - _CONTEXT_LINES) : number + _CONTEXT_LINES + 1]
        pieces.append("```yaml\n" + "\n".join(around) + "\n```")
    more = f"\n{len(hits) - _MAX_FOUND} more matches are not shown." if len(hits) > _MAX_FOUND else ""
    return f"### Result\n{len(hits)} matches\n" + "\n".join(pieces) + more


def find_lines(lines: Sequence[str], text: str | None, regex: str | None) -> list[int]:
    """The numbers of the lines that have the text, or match the expression.

    An expression that could take too long on these lines is refused before it is tried: it runs on the host.
    """
    if text is not None:
        return [number for number, line in enumerate(lines) if text.lower() in line.lower()]
    pattern, flags = regex or "", 0
    if (slashed := re.fullmatch(r"/(.*)/([a-z]*)", pattern, re.DOTALL)) is not None:
        pattern, flags = slashed[1], re.IGNORECASE if "i" in slashed[2] else 0
    shown = [line[:_MAX_LINE_CHARS] for line in lines]
    if len(pattern) > _MAX_REGEX_CHARS or _most_steps(pattern, shown) > _MAX_REGEX_STEPS:
        raise ToolError("the regular expression is too complex; use `text`, or one with fewer repetitions and alternatives")
    try:
        found = re.compile(pattern, flags)
    except (re.error, OverflowError) as error:
        raise ToolError(f"`regex` is not a regular expression: {error}") from error
    return [number for number, line in enumerate(shown) if found.search(line) is not None]


def _most_steps(pattern: str, lines: Sequence[str]) -> int:
    """An upper bound of the steps of a search; `ToolError` for what has none: a repeated group, or one that looks around."""
    bare = re.sub(r"\\.", "x", pattern, flags=re.DOTALL)
    bare = re.sub(r"\[\^?\]?[^\]]*\]", "x", bare).replace("(?:", "(")
    if re.search(r"\)[*+?{]|\(\?", bare):
        raise ToolError("`regex` has a group that is repeated or begins with `(?`; use `text`, or write it without that group")
    bare = re.sub(r"([*+?}])[?+]", r"\1", bare)
    num_repeats = sum(bare.count(sign) for sign in "*+{")
    num_choices = bare.count("?") + (bare.count("|") if "(" in bare else 0)
    return 2**num_choices * len(pattern) * sum((len(line) + 1) ** (num_repeats + 1) for line in lines)


async def _click(window: Window, given: _Click) -> str:
    tab = window.tab
    await tab.click(await tab.element(given.target), given.button, count=1 + given.doubleClick, modifiers=given.modifiers)
    return await _after(window)


async def _hover(window: Window, given: _OnElement) -> str:
    await window.tab.hover(await window.tab.element(given.target))
    return await _after(window)


async def _type(window: Window, given: _Type) -> str:
    tab = window.tab
    await tab.fill(await tab.element(given.target), given.text, slowly=given.slowly)
    if given.submit:
        await tab.press("Enter")
    if given.submit or given.slowly:
        return await _after(window)
    await window.settle()
    return f"### Result\nTyped {len(given.text)} characters into {given.target}"


async def _fill_form(window: Window, given: _FillForm) -> str:
    tab = window.tab
    for entry in given.fields:
        element = await tab.element(entry.target)
        match entry.type:
            case "textbox" | "slider":
                await tab.fill(element, entry.value)
            case "combobox":
                await tab.choose(element, [entry.value])
            case "checkbox" | "radio":
                if entry.value not in {"true", "false"}:
                    raise ToolError(
                        f"field {entry.name!r}: the value of a {entry.type} is `true` or `false`, not {entry.value[:40]!r}"
                    )
                await tab.set_checked(element, checked=entry.value == "true")
    return await _after(window)


async def _select_option(window: Window, given: _Choose) -> str:
    tab = window.tab
    await tab.choose(await tab.element(given.target), given.values)
    return await _after(window)


async def _press_key(window: Window, given: _Press) -> str:
    await window.tab.press(given.key)
    return await _after(window)


async def _handle_dialog(window: Window, given: _Dialog) -> str:
    if window.tab.dialog is None:
        raise ToolError('The tool "browser_handle_dialog" can only be used when there is related modal state present.')
    await window.tab.handle_dialog(given.promptText, accept=given.accept)
    return await _after(window)


async def _tabs(window: Window, given: _Tabs) -> str:
    match given.action:
        case "new":
            tab = await window.new()
            if given.url:
                await tab.navigate(checked_url(given.url))
        case "close":
            await window.close(given.index)
        case "select":
            await window.select(given.index)
        case "list":
            pass
    return f"### Result\n{await window.list()}"


async def _wait_for(window: Window, given: _Wait) -> str:
    if given.time is None and given.text is None and given.textGone is None:
        raise ToolError("Either time, text or textGone must be provided")
    if given.time is not None:
        await anyio.sleep(min(max(given.time, 0), _MAX_WAIT_S))
    for text, wanted in ((given.textGone, False), (given.text, True)):
        if text is None:
            continue
        with anyio.move_on_after(_TEXT_WAIT_S) as waiting:
            while await window.tab.shows(text) != wanted:  # noqa: ASYNC110 - the page is in another process
                await anyio.sleep(_POLL_S)
        if waiting.cancelled_caught:
            state = "did not appear" if wanted else "was still there"
            raise ToolError(f"{text[:100]!r} {state} within {_TEXT_WAIT_S:g} s; look at the page with `browser_snapshot`")
    return f"### Result\nWaited for {given.text or given.textGone or given.time}\n{await _page(window)}"


async def _take_screenshot(window: Window, given: _Screenshot) -> list[str | Image]:
    _refuse(filename=given.filename)
    if given.target and given.fullPage:
        raise ToolError("`fullPage` cannot be used with an element; leave one of the two out")
    tab = window.tab
    element = await tab.element(given.target) if given.target else None
    data = await tab.screenshot(given.type, element, whole=given.fullPage)
    what = "element" if element else "full page" if given.fullPage else "viewport"
    url, title = await tab.location()
    return [f"### Result\nScreenshot of {what}", Image(data, alt=f"{title or 'a page'} ({url})")]


# -- results -----------------------------------------------------------------------------------------------------------


def checked_url(url: str) -> str:
    """The address with its scheme. Files and the browser's own pages are refused."""
    whole = url if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", url) and not re.match(r"[^/:]+:\d", url) else f"http://{url}"
    try:
        scheme = urlsplit(whole).scheme
    except ValueError as error:
        raise ToolError(f"`{url[:200]}` is not an address: {error}") from error
    if scheme not in {"http", "https"} and whole != "about:blank":
        raise ToolError(f'Access to "{scheme}:" protocol is blocked. Attempted URL: {url[:200]}; only http and https are allowed')
    return whole


def _refuse(**given: object) -> None:
    for name, value in given.items():
        if value:
            raise ToolError(f"`{name}` is not supported here; leave it out")


async def _after(window: Window) -> str:
    await window.settle()
    return await _page(window)


async def _page(window: Window, target: str | None = None, depth: int = 0) -> str:
    await window.update()
    tab = window.tab
    if tab.dialog is not None:
        kind, text = tab.dialog["type"], tab.dialog["message"]
        return f'### Modal state\n- ["{kind}" dialog with message "{text[:2000]}"]: can be handled by browser_handle_dialog'
    if tab.crashed:
        raise ToolError("the page crashed; open it again with `browser_navigate`")
    url, title = await tab.location()
    parts = [f"### Open tabs\n{await window.list()}"] if len(window.tabs) > 1 else []
    parts.append(f"### Page\n- Page URL: {url}" + (f"\n- Page Title: {title}" if title else ""))
    parts.append(f"### Snapshot\n```yaml\n{await tab.snapshot(target, depth)}\n```")
    return "\n".join(parts)


_RUN: dict[str, tuple[type[_Arguments], Callable[[Window, Any], Awaitable[str | list[str | Image]]]]] = {
    "browser_navigate": (_Navigate, _navigate),
    "browser_navigate_back": (_Arguments, _navigate_back),
    "browser_snapshot": (_Snapshot, _snapshot),
    "browser_find": (_Find, _find),
    "browser_click": (_Click, _click),
    "browser_hover": (_OnElement, _hover),
    "browser_type": (_Type, _type),
    "browser_fill_form": (_FillForm, _fill_form),
    "browser_select_option": (_Choose, _select_option),
    "browser_press_key": (_Press, _press_key),
    "browser_handle_dialog": (_Dialog, _handle_dialog),
    "browser_tabs": (_Tabs, _tabs),
    "browser_wait_for": (_Wait, _wait_for),
    "browser_take_screenshot": (_Screenshot, _take_screenshot),
}
OFFERED = tuple(_RUN)
"""The names of the tools, in order."""
_DURING_DIALOG = {"browser_handle_dialog", "browser_tabs"}


def arguments_of(name: str) -> type[msgspec.Struct]:
    """The arguments that a tool takes."""
    return _RUN[name][0]


@cache
def recorded_tool(name: str) -> ToolSpec:
    """A tool of the public server, as it lists it."""
    recorded = RecordedServer.read("playwright").tool(name)
    return ToolSpec(name=name, description=recorded.description, parameters=recorded.input_schema)


class BrowserTool:
    """One tool of an open browser."""

    def __init__(self, name: str, window: Window, server: SiteServer) -> None:
        self.spec = recorded_tool(name)
        self._server = server
        self._window = window
        self._arguments, self._run = _RUN[name]

    @property
    def concurrent(self) -> bool:
        """False: there is one mouse and one keyboard."""
        return False

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """Check the arguments and do it; errors come with the fix."""
        try:
            with boundary(AuthorError, f"tool `{self.spec.name}`"):
                result = await self._answer(checked_arguments(call))
            return (
                ToolResult(call=call.id, text=clean(result))
                if isinstance(result, str)
                else await pictured_result(world, call, result)
            )
        except ToolError as error:
            return ToolResult(call=call.id, text=clean(f"### Error\n{error}"), error=True)
        except LookupError as error:
            raise AuthorError(f"a browser with `screenshots=True`: {DECLARE_IMAGES}") from error
        finally:
            error, self._server.error = self._server.error, None
            if error is not None:
                raise error

    async def _answer(self, arguments: dict[str, Any]) -> str | list[str | Image]:
        try:
            given = msgspec.convert(arguments, self._arguments)
        except msgspec.ValidationError as error:
            raise ToolError(f'Invalid arguments for tool "{self.spec.name}": {error}') from error
        self._window.devtools.require_open()
        try:
            return await self._act(given)
        except (AttributeError, LookupError, TypeError, ValueError) as error:  # a program in the sandbox can forge answers
            what = f"{type(error).__name__}: {str(error)[:200]}"
            raise ToolError(f"the browser gave an answer that cannot be read ({what}); open the page again") from error

    async def _act(self, given: _Arguments) -> str | list[str | Image]:
        dialog = self._window.tab.dialog if self._window.tabs else None
        if dialog is not None and self.spec.name not in _DURING_DIALOG:
            raise ToolError(
                f'Tool "{self.spec.name}" does not handle the modal state: ["{dialog["type"]}" dialog with message'
                f' "{dialog["message"][:500]}"]; answer it with `browser_handle_dialog`'
            )
        return await self._run(self._window, given)


def browser_tools(window: Window, server: SiteServer, *, screenshots: bool) -> list[BrowserTool]:
    """All tools of an open browser, with or without screenshots."""
    return [BrowserTool(name, window, server) for name in _RUN if screenshots or name != "browser_take_screenshot"]
