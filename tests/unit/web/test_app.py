"""The pages of `sandlot view`: who may read them, and what hostile text becomes in them. Over a real server."""

import re
from pathlib import Path

import aiohttp
import anyio
import pytest
from yarl import URL

import sandlot
from sandlot.store.lock import is_live, write_lock
from sandlot.web.app import serve_view
from sandlot.web.site import Site, link

ATTACK = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'"
HOSTILE = f'''
from sandlot import Environment, Task

ATTACK = {ATTACK!r}
env = Environment("hostile", system=ATTACK)

@env.tasks
def tasks(rng):
    yield Task(id="attack", prompt=ATTACK)
    yield Task(id="long", prompt="x" * 9000)

@env.tool
def look(world) -> str:
    """Look."""
    return ATTACK

@env.check(points=1)
def said(evidence, task):
    return ATTACK in evidence.answer, ATTACK

@env.solution
async def solve(agent, task):
    await agent.call("look")
    await agent.say(ATTACK)
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("view")
    (place / "hostile.py").write_text(HOSTILE)
    run = sandlot.run(place / "hostile.py", "scripted:golden", runs=place / "runs")
    run.path.rename(place / "runs" / "desk <b>")
    broken = place / "runs" / "broken"
    broken.mkdir()
    (broken / "manifest.json").write_text("{" + ATTACK)
    return place / "runs"


def pages(name: str = "desk <b>") -> list[str]:
    return ["/", link(name), link(name, "group", task="attack"), link(name, "trace", task="attack", rollout=0)]


async def read(session: aiohttp.ClientSession, url: str, **options) -> tuple[int, str]:
    async with session.get(URL(url, encoded=True), **options) as answer:
        return answer.status, await answer.text()


async def test_every_page_shows_hostile_text_and_runs_none_of_it(folder):
    async with serve_view(Site(folder)) as address, aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        for page in pages():
            status, text = await read(session, address(page))
            assert status == 200, text
            assert "<img" not in text
            assert "<b>" not in re.sub(r"<b>(runs|attack|desk &lt;b&gt;|0)</b>", "", text)
            assert text.count("<script") == 1, "ours alone"
        assert "&lt;script&gt;document.title" in text
        assert "broken" in (await read(session, address("/")))[1]


async def test_only_a_reader_with_the_token_sees_anything(folder):
    async with serve_view(Site(folder)) as address, aiohttp.ClientSession() as stranger:
        bare = address("/").partition("?")[0]
        for page in (*pages(), "/static/view.css", "/nowhere"):
            status, text = await read(stranger, bare.rstrip("/") + page)
            assert (status, "hostile" in text) == (403, False)
        status, _ = await read(stranger, f"{bare}?token=guess")
        assert status == 403
        async with stranger.get(URL(address("/"), encoded=True), allow_redirects=False) as answer:
            assert answer.status == 303
            assert answer.headers["Location"] == URL(bare).path
            cookie = answer.cookies[f"sandlot-view-{URL(bare).port}"]
            assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == (URL(bare).path, True, "strict")
            assert {"HttpOnly", "SameSite=strict"} <= set(answer.headers["Set-Cookie"].split("; "))


async def test_an_address_for_one_time_opens_one_time(folder):
    async with serve_view(Site(folder)) as address:
        url = address("/", once=True)
        assert address("/") != url
        for status in (200, 403):
            async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
                assert (await read(session, url))[0] == status


async def test_other_hosts_origins_and_methods_are_refused(folder):
    async with serve_view(Site(folder)) as address, aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        url = address("/")
        assert (await read(session, url, headers={"Host": "evil.example"}))[0] == 421
        assert (await read(session, url, headers={"Origin": "http://evil.example"}))[0] == 403
        assert (await read(session, url))[0] == 200
        own = str(URL(url).origin())
        for origin, status in ((own, 405), ("http://127.0.0.1:1", 403), (None, 403)):
            async with session.post(url.partition("?")[0], json={}, headers={"Origin": origin} if origin else {}) as answer:
                assert answer.status == status, origin


async def test_every_answer_has_the_security_headers(folder):
    async with serve_view(Site(folder)) as address, aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        for page in (*pages(), "/static/view.css", "/nowhere", link("no such run")):
            async with session.get(URL(address(page), encoded=True)) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "unsafe-inline" not in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("name", ["..", ".", "%2e%2e", "../desk", "broken/../broken", "/etc", "nope", "x" * 5000])
async def test_a_name_that_is_no_run_of_the_folder_is_not_found(folder, name):
    async with serve_view(Site(folder)) as address, aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        await read(session, address("/"))
        bare = address("/").partition("/?")[0]
        status, _ = await read(session, f"{bare}/run/{name.replace('/', '%2F')}")
        assert status == 404


async def test_what_cannot_be_read_is_said_and_the_rest_is_shown(folder, tmp_path):
    async with serve_view(Site(folder)) as address, aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        assert "unreadable" in (await read(session, address("/")))[1]
        assert (await read(session, address(link("broken"))))[0] == 404
        assert (await read(session, address(link("desk <b>", "trace", task="attack", rollout=99))))[0] == 404
    async with serve_view(Site(tmp_path)) as address, aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        assert "No runs yet" in (await read(session, address("/")))[1]


async def test_a_run_is_live_while_it_is_written_and_looking_does_not_lock_it(folder):
    path = folder / "desk <b>"
    assert not is_live(path)
    with write_lock(path):
        assert is_live(path)
    with write_lock(path):  # looking has not taken it
        pass


async def test_a_live_run_tells_its_numbers_until_it_ends(folder):
    path = folder / "desk <b>"
    async with serve_view(Site(folder)) as address, aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        with write_lock(path):
            answer = await session.get(URL(address(link("desk <b>", "live")), encoded=True))
            first = await answer.content.readline()
            assert b'"live":true,"rollouts":2,' in first
        with anyio.fail_after(15):
            rest = await answer.content.read()
        assert b'"live":false' in rest


async def test_two_views_in_one_browser_do_not_lock_each_other_out_and_their_cookies_go_nowhere_else(folder):
    jar = aiohttp.CookieJar(unsafe=True)
    async with (
        serve_view(Site(folder)) as first,
        serve_view(Site(folder)) as second,
        aiohttp.ClientSession(cookie_jar=jar) as browser,
    ):
        for address in (first, second):
            assert (await read(browser, address("/")))[0] == 200
        for address in (first, second):
            assert (await read(browser, address("/").partition("?")[0]))[0] == 200
        for elsewhere in ("http://127.0.0.1:1/", "http://127.0.0.1:1/run/x", str(URL(first("/")).origin())):
            assert not jar.filter_cookies(URL(elsewhere)), "browsers send cookies to every port of a host"


async def test_every_address_on_the_pages_is_below_the_path_of_the_view(folder):
    async with serve_view(Site(folder)) as address, aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        own = URL(address("/")).path
        for page in pages():
            _, text = await read(session, address(page))
            addresses = re.findall(r'(?:href|src|action|data-(?:source|post|action|address|live))="(/[^"]*)"', text)
            assert addresses, page
            assert [each for each in addresses if not each.startswith(own)] == [], page
