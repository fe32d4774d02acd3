"""Servers that do not speak HTTP as they should: raw bytes over TCP."""

import gzip
import traceback
from contextlib import asynccontextmanager

import anyio
import pytest

from fakes.endpoint import Answer, FakeEndpoint
from sandlot.core.concurrency.clock import Clock
from sandlot.core.errors import ModelError
from sandlot.core.ports.model import Sampling
from sandlot.core.trace import text_message
from sandlot.core.types import Role
from sandlot.model.endpoint.chat import OpenAIConfig, open_openai
from sandlot.model.endpoint.retry import Patience

CANARY = "sk-canary-0123456789abcdefghij"
HELLO = [text_message(Role.USER, "hello")]
OK = b"HTTP/1.1 200 OK\r\n"


@asynccontextmanager
async def raw_server(reply: bytes, *, drip: bytes = b""):
    """Answers every connection with the same bytes; dripping, it never comes to an end."""

    async def serve(stream):
        async with stream:
            await stream.receive()
            with anyio.move_on_after(5):
                await stream.send(reply)
                while drip:
                    await anyio.sleep(0.005)
                    await stream.send(drip)

    def swallow(stream):
        async def guarded():
            try:
                await serve(stream)
            except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError):
                return

        return guarded()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, swallow)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        yield f"http://127.0.0.1:{port}/v1"
        group.cancel_scope.cancel()


def impatient():
    now = iter(range(10**6))
    return Patience(0.0, clock=Clock(lambda: float(next(now)), lambda: 0.0))


async def failure(url: str, **fields) -> ModelError:
    config = OpenAIConfig(**{"model": "m", "url": url, "request_s": 5.0} | fields)
    async with open_openai(config, environ={"SANDLOT_API_KEY": CANARY}, patience=impatient()) as chat:
        with pytest.raises(ModelError) as caught:
            await chat.chat(HELLO, (), Sampling())
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.__context__)
    assert CANARY not in shown
    return caught.value


@pytest.mark.parametrize(
    ("reply", "kinds"),
    [
        (b"", {"connect"}),
        (b"SSH-2.0-OpenSSH_9.2\r\n", {"malformed"}),
        (b"\x00\xff" * 100, {"malformed"}),
        (b"HTTP/9.9 abc\r\n\r\n", {"malformed"}),
        (OK + b"X: " + b"a" * 100_000 + b"\r\n\r\n", {"malformed"}),
        (OK + b"X: a\r\n" * 50_000 + b"\r\n", {"malformed"}),
        (OK + b"Content-Length: abc\r\n\r\n", {"malformed"}),
        (OK + b"Content-Length: 100\r\n\r\nshort", {"malformed"}),
        (OK + b"Content-Length: -1\r\n\r\n", {"malformed"}),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc", {"malformed"}),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", {"malformed"}),
        (OK + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd", {"malformed"}),
        (b"HTTP/1.1 100 Continue\r\n\r\n", {"connect", "malformed"}),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000, {"connect", "malformed"}),
        (OK + b"Content-Type: text/html\r\nContent-Length: 15\r\n\r\n<html>hi</html>", {"malformed"}),
        (OK + b"Content-Type: application/octet-stream\r\nContent-Length: 4\r\n\r\n\x80\x04\x95.", {"malformed"}),
        (OK + b"Content-Type: text/event-stream\r\nContent-Length: 12\r\n\r\ndata: {}\r\n\r\n", {"malformed"}),
        (OK + b"Content-Length: 100000000000000\r\n\r\n{", {"malformed"}),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{", {"malformed"}),
        (OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", {"malformed"}),
        (OK + b"Content-Length: 400000\r\n\r\n" + b"[" * 400_000, {"malformed"}),
        (b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n", {"bad_request"}),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", {"bad_request"}),
    ],
)
async def test_what_is_not_http_is_a_typed_failure(reply, kinds):
    async with raw_server(reply) as url:
        assert (await failure(url)).kind in kinds


@pytest.mark.parametrize(
    ("reply", "drip"),
    [
        (OK + b"Content-Length: 1000000\r\n\r\n", b" "),
        (b"HTTP/1.1 200 O", b"K"),
        (OK + b"X: a", b"a"),
        (OK, b"X: a\r\n"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["body", "status", "header", "headers", "chunks", "interim replies"],
)
async def test_a_reply_that_drips_for_ever_is_a_timeout(reply, drip):
    async with raw_server(reply, drip=drip) as url:
        assert (await failure(url, request_s=0.2)).kind in {"timeout", "malformed"}


async def test_a_clock_that_jumps_neither_hurries_nor_holds_what_waits():
    """A server asks for a wait until a time of day, and the clock is set back or forward by years."""
    busy = Answer(b"{}", status=429, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})
    for wall_s in (0.0, 4e9, -1e9):
        now = iter(range(10**6))
        patience = Patience(3.0, clock=Clock(lambda now=now: float(next(now)), lambda wall_s=wall_s: wall_s))
        async with FakeEndpoint(then=busy) as endpoint:
            config = OpenAIConfig(model="m", url=endpoint.url, request_s=5.0)
            async with open_openai(config, environ={}, patience=patience) as chat:
                with anyio.fail_after(20), pytest.raises(ModelError) as caught:
                    await chat.chat(HELLO, (), Sampling())
        assert caught.value.kind == "rate_limit"


async def test_a_reply_that_unpacks_to_far_more_is_cut_off():
    bomb = Answer(gzip.compress(b" " * 50_000_000), headers={"Content-Encoding": "gzip"})
    async with FakeEndpoint(then=bomb) as endpoint:
        error = await failure(endpoint.url, reply_bytes=1_000_000)
    assert error.kind == "malformed"
    assert "over 1000000 bytes" in str(error)


@pytest.mark.parametrize("host", ["nobody.invalid", "a" * 100 + ".invalid", "xn--\u00e4", "256.256.256.256"])
async def test_a_host_that_is_none_is_a_typed_failure(host):
    assert (await failure(f"http://{host}/v1")).kind in {"connect", "bad_request", "timeout"}
