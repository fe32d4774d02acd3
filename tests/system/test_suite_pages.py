"""The pages of seven apps in a real Chromium, through the tools that agents have."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from sandlot import Environment, Limits, Task, World
from sandlot.apps import BROWSER_IMAGE, Browser, LiveApps
from sandlot.core.trace import Message, ToolCall
from sandlot.core.types import Role
from sandlot.env.session import open_session
from sandlot.sandbox.native.backend import open_native
from worlds.office_suite import ADA, SUITE, fill_suite

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]


class Surfer:
    """Plays the browser by what its snapshots show."""

    def __init__(self, session: Any) -> None:
        self._session, self.page = session, ""

    @property
    def apps(self) -> LiveApps:
        return self._session.world.apps

    async def do(self, name: str, **arguments: Any) -> None:
        call = ToolCall(id="c", name=f"browser_{name}", arguments=arguments)
        step = await self._session.step(Message(role=Role.ASSISTANT, parts=(call,)))
        result = step.messages[0].parts[0]
        assert not result.error, result.text
        self.page = result.text

    def ref(self, role: str, name: str) -> str:
        found = re.search(rf'- {role} "{re.escape(name)}".*?\[ref=(e\d+)\]', self.page)
        assert found is not None, (role, name, self.page)
        return found[1]

    async def open(self, site: str, path: str = "/") -> None:
        await self.do("navigate", url=f"http://{site}.example{path}")

    async def click(self, role: str, name: str) -> None:
        await self.do("click", target=self.ref(role, name))

    async def fill(self, **values: str) -> None:
        fields: list[dict[str, str]] = []
        for label, value in values.items():
            name = label.replace("_", " ")
            fields.append({"target": self.ref("textbox", name), "name": name, "type": "textbox", "value": value})
        await self.do("fill_form", fields=fields)


@asynccontextmanager
async def surfing() -> AsyncGenerator[Surfer]:
    env = Environment("suite", image=BROWSER_IMAGE, tools=[], apps=[app.offering() for app in SUITE], limits=Limits(turns=200))

    @env.base
    def fill(apps: LiveApps, _rng: Random) -> None:
        fill_suite(apps)

    @env.setup
    def prepare(world: World, _task: Task) -> None:
        world.apps.actor = ADA

    env.use(Browser(sites={f"{app.name}.example": app.name for app in SUITE}))
    async with open_native() as backend, open_session(env, Task("t", prompt="x"), backend=backend) as session:
        await session.reset()
        yield Surfer(session)


async def test_every_app_is_used_in_a_real_browser():
    async with surfing() as surf:
        await surf.open("tickets")
        await surf.click("link", "OPS-1")
        await surf.fill(Add_a_comment="On it.")
        await surf.click("button", "Add comment")
        assert "On it." in surf.page
        await surf.open("wiki", "/page/65538/edit")
        await surf.fill(Change_note="shorter")
        await surf.click("button", "Save")
        assert "Version 2" in surf.page
        await surf.open("crm", "/deals")
        await surf.click("link", "Chairs")
        await surf.fill(Note="Wants a rebate.")
        await surf.click("button", "Add note")
        await surf.open("accounting", "/invoices?type=ACCPAY")
        await surf.click("link", "P-7")
        await surf.click("button", "Approve")
        await surf.open("files")
        await surf.click("link", "finance")
        await surf.fill(Name_of_the_new_folder="2026")
        await surf.click("button", "Create folder")
        await surf.open("code", "/corp/shop/issues/1")
        await surf.fill(Add_a_comment="Fixed.")
        await surf.click("button", "Close issue")
        await surf.open("directory", "/time-off")
        await surf.click("button", "Approve Bob Ward, 2026-02-02")
        apps = surf.apps
        assert apps.tickets.value("SELECT body FROM comment ORDER BY id DESC") == "On it."
        assert apps.wiki.value("SELECT version FROM page WHERE id = 65538") == 2
        assert apps.crm.value("SELECT count(*) FROM note") == 2
        assert apps.accounting.value("SELECT status FROM invoice WHERE number = 'P-7'") == "AUTHORISED"
        assert apps.files.value("SELECT kind FROM entry WHERE path = '/files/finance/2026'") == "directory"
        assert apps.code.value("SELECT state FROM issue WHERE number = 1") == "closed"
        assert apps.directory.value("SELECT status FROM time_off") == "approved"
