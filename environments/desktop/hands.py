"""Plays a desktop through its tools as a careful person would: every element is found in the tree that was read last."""

import re

from sandlot import Agent

_LINE = re.compile(r'\s*- (?P<role>[\w ]+?)(?: "(?P<name>(?:[^"\\]|\\.)*)")? \[(?P<ref>e\d+)\](?P<rest>.*)')


class Hands:
    """One desktop, with the text of its last answer and of the last tree."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.shown = ""
        self.shown_tree = ""

    async def do(self, tool: str, **arguments: object) -> str:
        self.shown = await self._agent.call(f"desktop_{tool}", **arguments)
        return self.shown

    async def open(self, application: str, path: str | None = None, title: str = "") -> None:
        """Start an application; with a title, wait until a window shows it."""
        await self.do("open", application=application, **({"path": path} if path else {}))
        if title:
            await self.wait(title)

    async def wait(self, title: str) -> None:
        await self.do("wait", title=title, seconds=20)

    async def wait_closed(self, title: str) -> None:
        await self.do("wait", title=title, seconds=20, closed=True)

    async def press(self, *keys: str) -> None:
        for each in keys:
            await self.do("press", keys=each)

    async def type(self, text: str) -> None:
        await self.do("type", text=text)

    async def find(self, role: str, name: str, *, window: str = "", after: str = "") -> str:
        """The reference of the first element with this role (or any of `a|b`) and name; `*` at its end stands for anything."""
        for _ in range(8):
            arguments = {"window": window} if window else {}
            self.shown_tree = await self.do("tree", **arguments)
            lines = self.shown_tree.splitlines()
            start = next((number for number, line in enumerate(lines) if after in line), len(lines)) if after else 0
            for line in lines[start:]:
                found = _LINE.match(line)
                if found is None or found["role"] not in role.split("|"):
                    continue
                named = (found["name"] or "").replace('\\"', '"').replace("\\\\", "\\")
                if named == name or (name.endswith("*") and named.startswith(name[:-1])):
                    return found["ref"]
            await self.do("wait", seconds=0.5)
        raise LookupError(f"no {role} {name!r} after {after!r} in the tree:\n{self.shown_tree}")

    async def click(self, role: str, name: str, *, window: str = "", after: str = "", count: int = 1) -> None:
        ref = await self.find(role, name, window=window, after=after)
        await self.do("click", element=ref, count=count)

    async def menu(self, *names: str) -> None:
        """Choose from the menu bar of the active window: `menu("Document", "Line Ending", "DOS / Windows (CR LF)")`."""
        for name in names:
            await self.click("menu|menu item|check item|radio menu item", name)

    async def fill(self, text: str) -> None:
        """Replace the text of the focused field, and look whether it is there: file dialogs complete what is typed."""
        for _ in range(5):
            await self.press("ctrl+a")
            await self.type(text)
            await self.press("Delete")  # what was completed is selected
            for line in (await self.do("tree", text="[focused]")).splitlines():
                found = _LINE.match(line)
                if found is not None and "[focused]" in found["rest"] and f': "{text}"' in found["rest"]:
                    return
        raise LookupError(f"the field does not take {text!r}:\n{self.shown}")

    async def go_to_cell(self, place: str) -> None:
        """Walk to a cell of a spreadsheet with the arrow keys."""
        letters, row = place.rstrip("0123456789"), int(place.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
        await self.press("ctrl+Home")
        for key, count in (("Down", row - 1), ("Right", ord(letters) - ord("A"))):
            if count:
                await self.do("press", keys=key, count=count)
