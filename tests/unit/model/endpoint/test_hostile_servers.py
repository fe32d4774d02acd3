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
async def raw_server(reply: bytes, *, drip: bool = False):
    """Answers every connection with the same bytes; dripping, it never comes to an end."""

    async def serve(stream):
        async with stream:
            await stream.receive()
            with anyio.move_on_after(5):
                await stream.send(reply)
                while drip:
                    await anyio.sleep(0.005)
                    await stream.send(b" ")

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
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", {"bad_request"}),
    ],
)
async def test_what_is_not_http_is_a_typed_failure(reply, kinds):
    async with raw_server(reply) as url:
        assert (await failure(url)).kind in kinds


async def test_a_reply_that_drips_for_ever_is_a_timeout():
    async with raw_server(OK + b"Content-Length: 1000000\r\n\r\n", drip=True) as url:
        assert (await failure(url, request_s=0.2)).kind == "timeout"


async def test_a_reply_that_unpacks_to_far_more_is_cut_off():
    bomb = Answer(gzip.compress(b" " * 50_000_000), headers={"Content-Encoding": "gzip"})
    async with FakeEndpoint(then=bomb) as endpoint:
        error = await failure(endpoint.url, reply_bytes=1_000_000)
    assert error.kind == "malformed"
    assert "over 1000000 bytes" in str(error)


@pytest.mark.parametrize("host", ["nobody.invalid", "a" * 100 + ".invalid", "xn--\u00e4", "256.256.256.256"])
async def test_a_host_that_is_none_is_a_typed_failure(host):
    assert (await failure(f"http://{host}/v1")).kind in {"connect", "bad_request", "timeout"}
