"""What a web page can send reaches no server of ours."""

import aiohttp
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from sandlot.core.errors import ConfigError
from sandlot.model.wire.listening import serve_app
from sandlot.serve.guard import Guard

TOKEN = "correct horse battery"
JSON = {"Content-Type": "application/json"}


async def answered(host="127.0.0.1", allowed=(), method="POST", headers=JSON, token=None):
    async def ok(request):
        return PlainTextResponse("ok")

    app = Starlette(routes=[Route("/", ok, methods=["GET", "POST", "DELETE"])])
    body = b"{}" if method == "POST" else None
    async with (
        serve_app(Guard(app, host, allowed, token=token), drain_s=1) as address,
        aiohttp.ClientSession() as client,
        client.request(method, address, data=body, headers=headers) as reply,
    ):
        return reply.status, await reply.text()


async def test_a_program_that_sends_json_is_answered():
    assert await answered() == (200, "ok")
    assert await answered(headers=JSON | {"Content-Type": "application/json; charset=utf-8"}) == (200, "ok")
    assert await answered(method="GET", headers={}) == (200, "ok")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8900", "localhost.evil.example", "127.0.0.1.evil.example", "", "a@b:c:d"]
)
async def test_an_unknown_host_is_refused_with_the_fix(host):
    status, text = await answered(headers=JSON | {"Host": host})
    assert status in {400, 421}
    if status == 421:
        assert f"unknown host `{host}`" in text
        assert "--allow-host" in text


@pytest.mark.parametrize("origin", ["http://evil.example", "https://evil.example:443", "null", "http://localhost.evil.example"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_foreign_page_is_refused(origin, method):
    status, text = await answered(method=method, headers=JSON | {"Origin": origin})
    assert status == 403
    assert origin in text


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""])
async def test_a_body_that_a_form_could_send_is_refused(kind):
    status, text = await answered(headers={"Content-Type": kind})
    assert status == 415
    assert "application/json" in text


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:8900", "Model.Lan:80"])
async def test_names_it_is_known_by_are_answered(host):
    headers = JSON | {"Host": host, "Origin": f"http://{host}"}
    assert await answered(allowed=["model.lan"], headers=headers) == (200, "ok")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
async def test_a_server_at_every_address_is_known_by_the_one_that_was_asked(host):
    async def ask(name, origin=None):
        headers = JSON | {"Host": name, "Authorization": f"Bearer {TOKEN}"} | ({} if origin is None else {"Origin": origin})
        return (await answered(host=host, headers=headers, allowed=["model.lan"], token=TOKEN))[0]

    assert await ask("127.0.0.1:8900", "http://127.0.0.1:8900") == 200
    assert await ask("model.lan", "https://model.lan") == 200
    assert (await ask("10.1.2.3:8900"), await ask("evil.example")) == (421, 421)
    assert (await ask("model.lan", "http://127.0.0.1"), await ask("127.0.0.1:8900", "http://127.0.0.1:8901")) == (403, 403)
    assert (await answered(headers=JSON | {"Host": "10.1.2.3:8900"}))[0] == 421


async def test_a_guard_of_an_open_address_is_not_made_without_a_token():
    with pytest.raises(ConfigError, match=r"`0\.0\.0\.0:0`, so it needs a token"):
        await answered(host="0.0.0.0")


async def test_what_is_no_request_is_closed():
    messages = []

    async def send(message):
        messages.append(message)

    await Guard(unreachable, "127.0.0.1")({"type": "websocket", "headers": []}, None, send)
    assert messages == [{"type": "websocket.close", "code": 1008}]


async def unreachable(scope, receive, send):
    raise AssertionError("it was passed on")
