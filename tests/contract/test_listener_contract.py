"""One rule for all that listens: beyond this machine a token is asked for, and a server at every address takes no other names.

Every listener of ours is in `LISTENERS` or in `PRIVATE`: the last test finds those that are in neither.
"""

import ast
import base64
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aiohttp
import anyio
import pytest

from drive.command_line import ENVIRONMENTS
from drive.ports import free_port
from fakes.toy_tokens import ScriptedTokens, ToyRenderer, ToyWords
from sandlot.core.errors import ConfigError, unwrapped
from sandlot.core.syntax import parse_python
from sandlot.interop.openenv.server import OpenEnvPlace, serve_openenv
from sandlot.model.wire.listening import serve_app
from sandlot.run.executors.workers import open_workers
from sandlot.serve.environment.mcp import serve_mcp
from sandlot.serve.environment.serve import serve_environment
from sandlot.serve.metrics import serve_metrics
from sandlot.serve.model.serve import ModelPlace, guarded_app, serve_model
from sandlot.serve.model.server import ModelServer
from sandlot.web.app import serve_view
from sandlot.web.site import Site
from structure import ROOT
from unit.serve.counting_session import CountingSession
from worlds.executors import plan_of

TOKEN = "correct horse battery"
ELSEWHERE = "198.51.100.7"
"""An address of no machine."""
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
HELLO = (
    b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, '
    b'"clientInfo": {"name": "x", "version": "1"}}}'
)


@asynccontextmanager
async def told(serve) -> AsyncGenerator[str]:
    """What a server that runs until it is cancelled says when it listens."""
    addresses: list[str] = []
    listens = anyio.Event()

    def ready(address: str) -> None:
        addresses.append(address)
        listens.set()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(serve, ready)
            with anyio.fail_after(20):
                await listens.wait()
            yield addresses[0]
            group.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        raise unwrapped(errors) from None


@asynccontextmanager
async def mcp(folder: Path, host: str, token: str | None):
    @asynccontextmanager
    async def session():
        yield CountingSession()

    async with told(
        lambda ready: serve_mcp("counting", session, transport="http", host=host, port=0, token=token, ready=ready)
    ) as url:
        yield "POST", url, HELLO


@asynccontextmanager
async def openenv(folder: Path, host: str, token: str | None):
    place = OpenEnvPlace(host=host, port=0, run=folder / "run", token=token)
    async with told(lambda ready: serve_openenv(str(ENVIRONMENTS / "arithmetic"), place, ready=ready)) as line:
        yield "GET", line.partition(": ")[2].partition(",")[0] + "/health", None


@asynccontextmanager
async def model(folder: Path, host: str, token: str | None):
    server = ModelServer(ScriptedTokens(), ToyRenderer(), ToyWords(), vocabulary=ToyWords.size)
    async with serve_app(guarded_app(server, ModelPlace(host=host, token=token)), host=host, drain_s=1) as address:
        yield "GET", f"{address}/v1/models", None


@asynccontextmanager
async def metrics(folder: Path, host: str, token: str | None):
    with serve_metrics(f"[{host}]:0" if ":" in host else f"{host}:0", token=token) as served:
        yield "GET", served.url, None


Opened = Callable[[Path, str, str | None], AbstractAsyncContextManager[tuple[str, str, bytes | None]]]
LISTENERS: dict[str, Opened] = {"mcp": mcp, "openenv": openenv, "model": model, "metrics": metrics}


@pytest.fixture(params=LISTENERS)
def listener(request) -> Opened:
    return LISTENERS[request.param]


async def status(method: str, url: str, body: bytes | None, **headers: str) -> int:
    async with aiohttp.ClientSession() as client, client.request(method, url, data=body, headers=JSON | headers) as reply:
        return reply.status


BEARER = {"Authorization": f"Bearer {TOKEN}"}
WRONG = [
    {},
    {"Authorization": TOKEN},
    {"Authorization": "Bearer "},
    {"Authorization": f"Bearer {TOKEN}x"},
    {"Authorization": f"Bearer {TOKEN[:-1]}"},
    {"Authorization": "Basic !!"},
    {"Authorization": "Basic " + base64.b64encode(TOKEN.encode()).decode()},
    {"Cookie": f"sandlot-view={TOKEN}"},
]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "example.org"])
async def test_beyond_this_machine_nothing_listens_without_a_token(listener, host, tmp_path, monkeypatch):
    monkeypatch.delenv("SANDLOT_METRICS_TOKEN", raising=False)
    if (listener, host) == (metrics, ""):
        host = "0.0.0.0"  # `:9464` is an address of this machine there
    for token, fix in ((None, "so it needs a token"), ("short", "16 or more printable ASCII characters"), ("é" * 20, "ASCII")):
        with pytest.raises(ConfigError, match=fix):
            async with listener(tmp_path, host, token):
                pass


async def test_at_every_address_only_a_request_with_the_token_and_an_own_name_passes(listener, tmp_path):
    async with listener(tmp_path, "0.0.0.0", TOKEN) as (method, bound, body):
        url = bound.replace("0.0.0.0", "127.0.0.1")
        host = url.removeprefix("http://").partition("/")[0]
        port = host.rpartition(":")[2]
        for headers in WRONG:
            assert await status(method, url, body, **headers) == 401, headers
        basic = {"Authorization": "Basic " + base64.b64encode(f"any:{TOKEN}".encode()).decode()}
        for headers in (
            BEARER,
            basic,
            BEARER | {"Origin": f"http://{host}"},
            BEARER | {"Host": f"{socket.gethostname()}:{port}"},
        ):
            assert await status(method, url, body, **headers) == 200, headers
        for name in (ELSEWHERE, f"{ELSEWHERE}:{port}", "evil.example", f"127.0.0.1.evil.example:{port}", "[::2]"):
            assert await status(method, url, body, **BEARER, Host=name) == 421, name
        for origin in (
            f"http://{ELSEWHERE}",
            f"http://{ELSEWHERE}:{port}",
            "null",
            f"http://localhost:{port}",
            "http://127.0.0.1:1",
        ):
            assert await status(method, url, body, **BEARER, Origin=origin) == 403, origin


async def test_here_a_token_that_is_given_is_asked_for_too(listener, tmp_path):
    async with listener(tmp_path, "127.0.0.1", TOKEN) as (method, url, body):
        assert await status(method, url, body) == 401
        assert await status(method, url, body, **BEARER) == 200
    async with listener(tmp_path, "127.0.0.1", None) as (method, url, body):
        assert await status(method, url, body) == 200
        assert await status(method, url, body, Host=ELSEWHERE) == 421


async def test_commands_that_serve_refuse_before_they_load_anything(tmp_path, monkeypatch):
    monkeypatch.delenv("SANDLOT_WORKER_TOKEN", raising=False)
    fix = r"add `--token TOKEN` or set `SANDLOT_SERVE_TOKEN`, such as `[0-9a-f]{32}`, which is new; or listen on 127.0.0.1"
    with pytest.raises(ConfigError, match=fix):
        await serve_model("no such model", ModelPlace(host="0.0.0.0"))
    with pytest.raises(ConfigError, match=fix):
        await serve_environment("no such environment", transport="http", host="0.0.0.0")
    with pytest.raises(ConfigError, match="set `SANDLOT_WORKER_TOKEN` here and for every worker, such as"):
        async with open_workers("0.0.0.0:0", plan_of(tmp_path)):
            pass


async def test_workers_that_do_not_prove_the_token_are_told_nothing_but_a_challenge(tmp_path, monkeypatch):
    monkeypatch.setenv("SANDLOT_WORKER_TOKEN", TOKEN)
    port = free_port()
    async with open_workers(f"0.0.0.0:{port}", plan_of(tmp_path)), await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n")
        received = b""
        with anyio.fail_after(20):
            while True:
                try:
                    received += await stream.receive()
                except anyio.EndOfStream:
                    break
    assert b"JoinChallenge" in received or b"nonce" in received
    assert len(received) < 200
    assert TOKEN.encode() not in received


async def test_pages_are_served_here_alone_and_only_with_their_token(tmp_path):
    async with serve_view(Site(tmp_path)) as address:
        url = address("/").partition("?")[0]
        assert url.startswith("http://127.0.0.1:")
        assert await status("GET", url, None) == 403
        assert await status("GET", url, None, **BEARER) == 403


BINDS = {"create_server", "create_tcp_listener", "create_unix_listener", "TCPSite", "UnixSite", "bind", "serve_app"}
OF_LISTENERS = {
    "interop/openenv/server.py", "model/wire/listening.py", "run/executors/workers.py", "serve/environment/mcp.py",
    "serve/metrics.py", "serve/model/serve.py", "web/app.py",
}  # fmt: skip
PRIVATE = {
    "harness/captured/command.py": "a unix socket in a folder of this user",
    "interop/inspect_ai/worker.py": "a unix socket in a folder of this user",
    "run/control.py": "a unix socket for this user",
    "tools/inside.py": "a unix socket in a folder of this user",
    "testing/local_stream.py": "127.0.0.1, for tests",
    "testing/running.py": "127.0.0.1, a free port for tests",
    "core/concurrency/blocking.py": "no socket: arguments",
    "grade/checks.py": "no socket: arguments",
}


def test_every_listener_of_ours_is_known_here():
    binding = set()
    for path in ROOT.rglob("*.py"):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text()
        if not any(word in text for word in BINDS) or "/inside/" in name or name.startswith("testing/sandbox"):
            continue  # programs inside of sandboxes
        called = {
            each.func.attr if isinstance(each.func, ast.Attribute) else each.func.id
            for each in ast.walk(parse_python(text))
            if isinstance(each, ast.Call) and isinstance(each.func, (ast.Attribute, ast.Name))
        }
        if called & BINDS:
            binding.add(name)
    assert binding == OF_LISTENERS | set(PRIVATE)
