"""Sites are served over a world's port. Here the port is a pair of memory streams instead of a sandbox."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from sandlot.apps.browser.sites import serve_sites
from sandlot.apps.pages import PageRequest, PageResponse
from sandlot.core.errors import AuthorError


class MemoryStream:
    """One connection: what the browser sends, and what it gets."""

    def __init__(self, request: bytes) -> None:
        self._pieces = [request, b""]
        self.got = b""
        self.closed = anyio.Event()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        piece, self._pieces[0] = self._pieces[0][:max_bytes], self._pieces[0][max_bytes:]
        return piece

    async def send(self, data: bytes) -> None:
        self.got += data

    async def aclose(self) -> None:
        self.closed.set()


class PortWorld(SimpleNamespace):
    """A world with one port."""

    @asynccontextmanager
    async def listen(self, port: int) -> AsyncGenerator[AsyncIterator[MemoryStream]]:
        assert port == 80

        async def connections() -> AsyncIterator[MemoryStream]:
            for stream in self.streams:
                yield stream
            await anyio.sleep_forever()

        yield connections()


def page(_world: Any, request: PageRequest) -> PageResponse:
    if request.path == "/broken":
        raise RuntimeError("no such table")
    if request.path == "/go":
        return PageResponse.redirect(f"/?a=%20b&c={request.query['to']}")
    if request.path == "/unsendable":
        return PageResponse(headers={"X": "a\nb"})
    return PageResponse(body=f"{request.method} {request.path} {dict(request.query)} {dict(request.form)}".encode())


async def answers(*requests: bytes) -> tuple[list[bytes], AuthorError | None]:
    world: Any = PortWorld(streams=[MemoryStream(request) for request in requests], apps=None)
    async with serve_sites(world, 80, {"shop.example": page}) as server:
        for stream in world.streams:
            with anyio.fail_after(10):
                await stream.closed.wait()
        return [stream.got for stream in world.streams], server.error


async def test_a_page_gets_path_query_and_form():
    body = b"quantity=2&name=A+B"
    head = b"POST /basket?page=3 HTTP/1.1\r\nHost: Shop.example:80\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    (got,), error = await answers(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert got.endswith(b"POST /basket {'page': '3'} {'quantity': '2', 'name': 'A B'}")
    assert error is None


async def test_one_connection_serves_several_requests():
    one = b"GET /a HTTP/1.1\r\nHost: shop.example\r\n\r\n"
    (got,), _ = await answers(one + one.replace(b"/a", b"/b"))
    assert got.count(b"HTTP/1.1 200") == 2


async def test_other_hosts_are_not_served():
    (got,), _ = await answers(b"GET / HTTP/1.1\r\nHost: bank.example\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 404")


async def test_a_page_that_raises_is_kept_as_the_authors_error():
    (got,), error = await answers(b"GET /broken HTTP/1.1\r\nHost: shop.example\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 500")
    assert b"no such table" not in got
    assert "page `/broken`: RuntimeError: no such table" in str(error)


@pytest.mark.parametrize(
    "request_",
    [
        b"\x00\x01\x02 nonsense\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 3000000\r\n\r\n" + b"x" * 3_000_000,
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000,
        b"GET / HTTP/1.1\r\nHost: shop.example\r\n",
        b"GET /unsendable HTTP/1.1\r\nHost: shop.example\r\n\r\n",
    ],
    ids=["not HTTP", "a body that is too large", "too many headers", "half a request", "a response that is not HTTP"],
)
async def test_a_bad_request_only_ends_its_connection(request_: bytes):
    (bad, good), error = await answers(request_, b"GET /ok HTTP/1.1\r\nHost: shop.example\r\n\r\n")
    assert b"HTTP/1.1 200" not in bad
    assert b"GET /ok" in good
    assert error is None


async def test_too_many_form_fields_are_refused():
    body = b"&".join(b"a=1" for _ in range(2000))
    head = b"POST / HTTP/1.1\r\nHost: shop.example\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    (got,), _ = await answers(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert got.startswith(b"HTTP/1.1 400")


async def test_head_has_no_body():
    (got,), error = await answers(b"HEAD /a HTTP/1.1\r\nHost: shop.example\r\n\r\n")
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert (body, error) == (b"", None)


async def test_the_address_of_a_redirect_is_quoted():
    (got,), _ = await answers(b"GET /go?to=%0D%0AX:y%C3%A4 HTTP/1.1\r\nHost: shop.example\r\n\r\n")
    assert b"\r\nLocation: /?a=%20b&c=%0D%0AX:y%C3%A4\r\n" in got


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (b"", b"200"),
        (b"Origin: http://shop.example\r\n", b"200"),
        (b"Origin: http://SHOP.example:8080\r\n", b"200"),
        (b"Origin: http://evil.example\r\n", b"403"),
        (b"Origin: http://shop.example.evil.example\r\n", b"403"),
        (b"Origin: null\r\n", b"403"),
        (b"Origin: http://[\r\n", b"403"),
    ],
    ids=["no browser", "own page", "own page with a port", "another site", "a similar name", "a hidden site", "not an address"],
)
async def test_a_form_of_another_site_is_refused(origin: bytes, status: bytes):
    """A page of one site must not act on another for the person whose browser it is."""
    head = b"POST /pay HTTP/1.1\r\nHost: shop.example\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    (got,), error = await answers(head + origin + b"Content-Length: 3\r\n\r\na=1")
    assert got.startswith(b"HTTP/1.1 " + status)
    assert error is None


async def test_a_link_from_another_site_is_followed():
    (got,), _ = await answers(b"GET /a HTTP/1.1\r\nHost: shop.example\r\nOrigin: http://evil.example\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 200")
