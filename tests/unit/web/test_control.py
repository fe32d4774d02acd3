"""Steering a run from its page: only with `--control`, only by these pages, only runs of the folder."""

from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from sandlot.run.control import FILE, RunOrder, RunStatus, serve_control
from sandlot.web.app import serve_view
from sandlot.web.site import Site, link


class Going:
    """A process that writes a run, as far as its socket shows."""

    def __init__(self) -> None:
        self.orders: list[RunOrder] = []

    def obey(self, order: RunOrder) -> RunStatus:
        self.orders.append(order)
        return RunStatus(run="going", pid=1, state="running", at_once=order.at_once or 1, in_flight=1, done=2, planned=3, since=0)


@pytest.fixture
def folder(tmp_path) -> Path:
    for name in ("going", "ended"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text("{}")
    return tmp_path


async def posted(site: Site, run: str, order: object, **headers: str) -> tuple[int, dict]:
    async with serve_view(site) as address, aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with session.get(URL(address("/static/view.css"), encoded=True)):
            pass
        own = address("/").partition("/?")[0]
        where = URL(own + link(run, "control"), encoded=True)
        async with session.post(where, json=order, headers={"Origin": str(where.origin())} | headers) as answer:
            return answer.status, await answer.json() if "json" in answer.content_type else {}


async def test_an_order_reaches_the_run_if_the_pages_may_steer(folder):
    going = Going()
    async with serve_control(folder / "going", going.obey):
        status, answer = await posted(Site(folder, control=True), "going", {"do": "set", "at_once": 7})
    assert (status, answer["at_once"]) == (200, 7)
    assert going.orders == [RunOrder(do="set", at_once=7)]


async def test_pages_that_only_read_may_ask_how_it_stands_and_nothing_else(folder):
    going = Going()
    async with serve_control(folder / "going", going.obey):
        assert (await posted(Site(folder), "going", {"do": "status"}))[0] == 200
        for order in ("pause", "resume", "stop", "requeue"):
            status, answer = await posted(Site(folder), "going", {"do": order})
            assert (status, "sandlot view --control" in answer["problem"]) == (400, True)
    assert [order.do for order in going.orders] == ["status"]


async def test_a_run_that_has_ended_is_said_to_have_ended(folder):
    site = Site(folder, control=True)
    assert "is not running" in (await posted(site, "ended", {"do": "status"}))[1]["problem"]
    status, answer = await posted(site, "ended", {"do": "pause"})
    assert (status, "is not running" in answer["problem"]) == (400, True)


@pytest.mark.parametrize(
    ("run", "order"),
    [
        ("..", {"do": "stop"}),
        ("../going", {"do": "stop"}),
        ("nope", {"do": "stop"}),
        ("going", {"do": "explode"}),
        ("going", {"do": "stop", "path": "/"}),
        ("going", {"do": "set", "at_once": "<b>"}),
        ("going", {"do": ["stop"]}),
        ("going", ["stop"]),
        ("going", {}),
    ],
)
async def test_what_is_no_order_for_a_run_of_the_folder_is_refused(folder, run, order):
    going = Going()
    async with serve_control(folder / "going", going.obey):
        status, _ = await posted(Site(folder, control=True), run, order)
    assert status in {400, 404, 405}
    assert going.orders == []


async def test_another_page_cannot_steer_it(folder):
    going = Going()
    async with serve_control(folder / "going", going.obey):
        for origin in ("http://evil.example", "null"):
            assert (await posted(Site(folder, control=True), "going", {"do": "stop"}, Origin=origin))[0] == 403
    assert going.orders == []
    assert not (folder / "going" / FILE).exists()
