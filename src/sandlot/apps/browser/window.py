"""The browser's tabs: which are open, and which one the tools act on."""

import anyio

from sandlot.apps.browser.devtools import DevTools, Fields
from sandlot.apps.browser.tab import Tab
from sandlot.core.errors import ToolError

_MAX_TABS = 20


class Window:
    """All open tabs. New ones, such as those a link opens, become the current one."""

    def __init__(self, devtools: DevTools) -> None:
        self.devtools = devtools
        self.tabs: list[Tab] = []
        self._place = 0
        self._waiting: list[Tab] = []
        self._came = anyio.Event()
        devtools.on_event = self._take_event

    @property
    def tab(self) -> Tab:
        """The current tab."""
        if not self.tabs:
            raise ToolError("no tab is open; open one with `browser_tabs` and the action `new`")
        return self.tabs[self._place]

    async def open(self) -> None:
        """Attach to the browser's first tab, and to each that opens later."""
        await self.devtools.call("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=False, flatten=True)
        await self.devtools.call("Browser.setDownloadBehavior", behavior="deny")
        if not self._waiting:
            await self.devtools.call("Target.createTarget", url="about:blank")
        await self._wait_for_tab(1)
        self.devtools.has_started = True

    async def settle(self) -> None:
        """Take in tabs that opened, then wait until the current one has loaded."""
        await self.update()
        if self.tabs:
            await self.tab.settle()
        await self.update()

    async def update(self) -> None:
        """Take in tabs that opened since."""
        while self._waiting:
            tab = self._waiting.pop(0)
            await tab.prepare()
            if tab in self.tabs:
                self._place = self.tabs.index(tab)
                await tab.settle()

    async def new(self) -> Tab:
        """Open an empty tab; it becomes the current one."""
        if len(self.tabs) >= _MAX_TABS:
            raise ToolError(f"{_MAX_TABS} tabs are open; close one first")
        wanted = len(self.tabs) + 1
        await self.devtools.call("Target.createTarget", url="about:blank")
        try:
            await self._wait_for_tab(wanted)
        except TimeoutError as error:
            self.devtools.require_open()
            raise ToolError("the new tab did not open in time; try again") from error
        return self.tab

    async def select(self, place: float | None) -> None:
        """Make a tab the current one."""
        self._place = self._checked(place)
        await self.devtools.call("Target.activateTarget", targetId=self.tab.target)

    async def close(self, place: float | None) -> None:
        """Close a tab; the current one without a number."""
        number = self._place if place is None else self._checked(place)
        tab = self.tabs.pop(number)
        self._place = max(0, self._place - (number <= self._place))
        await self.devtools.call("Target.closeTarget", targetId=tab.target)

    async def list(self) -> str:
        """One line for each tab."""
        lines: list[str] = []
        for number, tab in enumerate(self.tabs):
            url, title = await tab.location() if tab.dialog is None else ("", "")
            lines.append(f"- {number}: {'(current) ' if number == self._place else ''}[{title}]({url})")
        return "\n".join(lines) or "No open tabs."

    def _checked(self, place: float | None) -> int:
        if place is None or int(place) != place or not 0 <= place < len(self.tabs):
            raise ToolError(f"no tab with index {place}; there are 0 to {len(self.tabs) - 1}")
        return int(place)

    async def _wait_for_tab(self, wanted: int) -> None:
        with anyio.fail_after(30):
            while len(self.tabs) < wanted:
                self._came = anyio.Event()
                await self._came.wait()
        await self.update()

    def _take_event(self, session: str, method: str, parameters: Fields) -> None:
        match method:
            case "Target.attachedToTarget" if parameters["targetInfo"]["type"] == "page":
                tab = Tab(self.devtools, parameters["sessionId"], parameters["targetInfo"]["targetId"])
                self.tabs.append(tab)
                self._waiting.append(tab)
                self._came.set()
            case "Target.detachedFromTarget":
                self._drop(parameters["sessionId"])
            case _:
                for tab in self.tabs:
                    if tab.session == session:
                        tab.take_event(method, parameters)

    def _drop(self, session: str) -> None:
        """Forget a tab that closed itself."""
        self.devtools.release(session)
        for number, tab in enumerate(self.tabs):
            if tab.session == session:
                del self.tabs[number]
                self._place = max(0, self._place - (number <= self._place))
                return
