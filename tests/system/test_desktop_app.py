"""A real desktop in the native sandbox: input, trees, applications that hang, agents that break it."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sandlot import Environment, Limits, Task, World, load
from sandlot.apps import Desktop
from sandlot.core.trace import Message, ToolCall, ToolResult
from sandlot.core.types import Role
from sandlot.env.session import open_session
from sandlot.sandbox.native.backend import open_native

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

IMAGE = load("desktop").image
NOTE = "/home/ada/note.txt"


class Played:
    """A session whose tools are called one by one."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.world: World = session.world

    async def result(self, name: str, **arguments: Any) -> ToolResult:
        call = ToolCall(id="c", name=f"desktop_{name}", arguments=arguments)
        step = await self.session.step(Message(role=Role.ASSISTANT, parts=(call,)))
        return step.messages[0].parts[0]

    async def __call__(self, name: str, **arguments: Any) -> str:
        return (await self.result(name, **arguments)).text


@asynccontextmanager
async def opened() -> AsyncGenerator[Played]:
    env = Environment("screen", image=IMAGE, tools=[], images="describe", limits=Limits(turns=100))
    env.use(Desktop(applications={"editor": ("mousepad",), "terminal": ("xterm",)}, width=800, height=600))
    env.setup(put_note)
    async with open_native() as backend, open_session(env, Task("t", prompt="x"), backend=backend) as session:
        await session.reset()
        yield Played(session)


async def put_note(world: World, task: Task) -> None:
    await world.write(NOTE, "first\nsecond\n")


def ref_of(tree: str, what: str) -> str:
    found = re.search(rf"{re.escape(what)} \[(e\d+)\]", tree)
    assert found is not None, tree
    return found[1]


async def test_a_note_is_opened_read_changed_and_saved():
    async with opened() as call:
        assert "note.txt - Mousepad" in await call("open", application="editor", path=NOTE)
        tree = await call("tree")
        assert "text [e" in tree
        assert '"first\\nsecond\\n"' in tree
        await call("type", text="Łódź, 5 € ~ {x}\n\tend\n")
        assert '"*~/note.txt' in await call("windows")
        await call("press", keys="ctrl+s")
        assert (await call.world.read(NOTE)).decode() == "Łódź, 5 € ~ {x}\n\tend\nfirst\nsecond\n"
        menu = await call("click", element=ref_of(tree, 'menu "Search"'))
        assert "Mousepad" in menu
        item = ref_of(await call("tree", text="Find and Replace"), 'menu item "Find and Replace..."')
        assert "Find and Replace" in await call("click", element=item)
        covered = await call.result("click", element="e9999")
        assert (covered.error, "is gone" in covered.text) == (True, True)


async def test_a_screenshot_is_an_image_of_the_screen():
    async with opened() as call:
        shown = await call.result("screenshot")
        assert [(part.width, part.height, part.media_type) for part in shown.images] == [(800, 600, "image/png")]
        await call("open", application="editor", path=NOTE)
        assert (await call.result("screenshot")).images[0].artifact != shown.images[0].artifact


async def test_an_application_that_hangs_costs_a_bounded_wait_and_the_rest_goes_on():
    async with opened() as call:
        await call("open", application="editor", path=NOTE)
        await call.world.exec("kill -STOP $(pidof mousepad)", check=True)
        assert "does not answer" in await call("tree")
        assert "Mousepad" in await call("windows")
        assert not (await call.result("screenshot")).error
        await call.world.exec("kill -CONT $(pidof mousepad)", check=True)
        assert '"first\\nsecond\\n"' in await call("tree")


async def test_an_agent_that_kills_the_desktop_gets_errors_and_no_failure():
    async with opened() as call:
        await call("open", application="terminal")
        await call("type", text="kill -9 -1\n")
        ended = await call.result("windows")
        assert (ended.error, "has ended" in ended.text) == (True, True)
        assert (await call.result("type", text="x")).error


async def test_a_tree_reader_that_is_killed_is_replaced_and_old_references_are_gone():
    async with opened() as call:
        await call("open", application="editor", path=NOTE)
        old = ref_of(await call("tree"), 'menu "File"')
        await call.world.exec("kill -9 $(pgrep -u ada python3 | tail -1)", check=True)
        assert "does not answer" in await call("tree")
        new = ref_of(await call("tree"), 'menu "File"')
        assert int(new[1:]) > int(old[1:])
        assert "is gone" in await call("click", element=old)


async def test_what_cannot_be_started_or_typed_is_refused_in_words():
    async with opened() as call:
        assert "there are: editor, terminal" in await call("open", application="bash")
        assert "U+001B cannot be typed" in await call("type", text="\x1b")
        assert "there is no key" in await call("press", keys="F77")
        assert "not on the screen" in await call("click", x=799, y=600)
        assert "no window `Nothing`" in await call("window", window="Nothing", action="close")
        assert "after 0.1 s" in await call("wait", title="Nothing", seconds=0.1)
