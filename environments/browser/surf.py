"""Plays a browser through its tools as a careful person would: every reference is read from the last snapshot."""

import re
from collections.abc import Mapping

from sandlot import Agent

from .seeds import HOSTS, PASSWORDS, PERSON

_LINE = re.compile(r'\s*- (?P<role>\w+)(?: "(?P<name>(?:[^"\\]|\\.)*)")?(?P<marks>(?: \[[^\]]*\])*)')
_REF = re.compile(r"\[ref=(e\d+)\]")


class Surfer:
    """One browser, with the text of its last page."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.page = ""

    async def open(self, site: str, path: str = "/") -> None:
        await self._do("browser_navigate", url=f"http://{HOSTS[site]}{path}")

    async def sign_in(self, site: str, path: str = "/") -> None:
        """Open a page; sign in first if the site asks for it."""
        await self.open(site, path)
        if 'heading "Sign in"' in self.page:
            await self.fill({"User name": PERSON["login"], "Password": PASSWORDS[site]})
            await self.click("button", "Sign in")

    def find(self, role: str, name: str, after: str = "") -> tuple[str, str]:
        """The reference and role of the first element with this role (or any of `a|b`) and name."""
        lines = self.page.splitlines()
        start = next((number for number, line in enumerate(lines) if after in line), len(lines)) if after else 0
        for line in lines[start:]:
            found = _LINE.match(line)
            if found is None or found["role"] not in role.split("|"):
                continue
            named = (found["name"] or "").replace('\\"', '"').replace("\\\\", "\\")
            ref = _REF.search(found["marks"])
            if ref is not None and (named == name or (name.endswith("*") and named.startswith(name[:-1]))):
                return ref[1], found["role"]
        raise LookupError(f"no {role} {name!r} after {after!r} on the page:\n{self.page}")

    def has(self, text: str) -> bool:
        return text in self.page

    async def click(self, role: str, name: str, after: str = "") -> None:
        ref, _ = self.find(role, name, after)
        await self._do("browser_click", target=ref, element=name)

    async def fill(self, values: Mapping[str, str | bool], after: str = "") -> None:
        """Fill fields by label: text, options by their text, boxes by True or False."""
        fields: list[dict[str, str]] = []
        for label, value in values.items():
            ref, role = self.find("textbox|searchbox|combobox|checkbox|radio|spinbutton", label, after)
            kind = role if role in {"checkbox", "radio", "combobox"} else "textbox"
            text = str(value).lower() if isinstance(value, bool) else value
            fields.append({"target": ref, "name": label, "type": kind, "value": text})
        await self._do("browser_fill_form", fields=fields)

    async def answer(self, *, accept: bool) -> None:
        """Answer the question that the page asks."""
        await self._do("browser_handle_dialog", accept=accept)

    async def menu(self, button: str, link: str) -> None:
        """Open a menu and choose a link in it."""
        await self.click("button", button)
        await self.click("link", link)

    async def _do(self, name: str, **arguments: object) -> None:
        self.page = await self._agent.call(name, **arguments)


async def file_outcome(surf: Surfer, result: str, *, reason: str = "", reference: str = "", amount: str = "") -> None:
    """File what came of the errand at the desk."""
    await surf.open("desk")
    await surf.click("link", "*", after='list "Errands"')
    values: dict[str, str | bool] = {result: True, "Reference number": reference, "Amount EUR": amount}
    if reason:
        values["Reason, if not possible"] = reason
    await surf.fill(values)
    await surf.click("button", "File outcome")
