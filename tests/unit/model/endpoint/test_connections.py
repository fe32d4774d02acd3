"""Connections are kept and used again, and none is used that the server or a caller has given up."""

import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest
from anyio.streams.tls import TLSListener

from builders.certificates import certificate_of
from sandlot.core.errors import ConfigError, ModelError
from sandlot.model.endpoint.connections import Connections, ReplyTimeoutError, open_connections
from sandlot.model.endpoint.endpoint import EndpointConfig, open_endpoint
from sandlot.model.endpoint.retry import Patience
from sandlot.model.wire.http_reply import HttpReplyError

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Answer = Callable[[anyio.abc.ByteStream, bytes], Awaitable[None]]


class Server:
    """Counts connections and keeps what it was sent; `answer` sends the replies."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.requests: list[bytes] = []
        self.num_connections = 0
        self.closed = anyio.Event()

    async def serve(self, stream: anyio.abc.ByteStream) -> None:
        self.num_connections += 1
        try:
            async with stream:
                while True:
                    request = await stream.receive()
                    self.requests.append(request)
                    await self._answer(stream, request)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.closed.set()


async def reply(stream: anyio.abc.ByteStream, _request: bytes) -> None:
    await stream.send(REPLY)


@asynccontextmanager
async def served(
    answer: Answer = reply, *, unix: Path | None = None, url: str = "http://127.0.0.1:{port}/v1", reply_s: float = 5.0
) -> AsyncGenerator[tuple[Server, Connections]]:
    server = Server(answer)
    opened = anyio.create_tcp_listener(local_host="127.0.0.1") if unix is None else anyio.create_unix_listener(unix)
    async with await opened as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, server.serve)
        port = 0 if unix else listener.extra(anyio.abc.SocketAttribute.local_port)
        opening = open_connections(
            url.format(port=port), {"X-Key": "k"}, unix=unix, connect_s=5.0, reply_s=reply_s, reply_bytes=1000
        )
        async with opening as connections:
            yield server, connections
        with anyio.fail_after(5):
            await server.closed.wait()
        group.cancel_scope.cancel()


async def test_one_connection_carries_requests_one_after_the_other():
    async with served() as (server, connections):
        for _ in range(3):
            assert (await connections.request("POST", "/chat", b"{}")).body == b"ok"
    assert server.num_connections == 1
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    port = head.partition(b"127.0.0.1:")[2].partition(b"\r\n")[0]
    assert head.split(b"\r\n") == [b"POST /v1/chat HTTP/1.1", b"Host: 127.0.0.1:" + port, b"X-Key: k", b"Content-Length: 2"]
    assert body == b"{}"


async def test_requests_at_once_have_a_connection_each():
    async with served() as (server, connections), anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(connections.request, "GET", "/models", None)
    assert 1 < server.num_connections <= 5
    assert len(server.requests) == 5


async def test_a_unix_socket_is_spoken_to(tmp_path):
    async with served(unix=tmp_path / "s", url="http://sandlot/v1") as (server, connections):
        assert (await connections.request("GET", "/models", None)).status == 200
    assert server.requests[0].startswith(b"GET /v1/models HTTP/1.1\r\nHost: sandlot\r\n")


async def test_path_and_query_are_escaped_once():
    async with served(url="http://127.0.0.1:{port}/a b%20c/\u00e4/?k=v w") as (server, connections):
        await connections.request("GET", "/models", None)
    assert server.requests[0].startswith(b"GET /a%20b%20c/%C3%A4/models?k=v%20w HTTP/1.1\r\n")


async def test_a_connection_that_the_server_closes_is_not_used_again():
    async def once(stream: anyio.abc.ByteStream, _request: bytes) -> None:
        await stream.send(REPLY)
        await stream.aclose()

    async with served(once) as (server, connections):
        await connections.request("GET", "/models", None)
        with anyio.fail_after(5):
            await server.closed.wait()
        await anyio.wait_all_tasks_blocked()
        await connections.request("GET", "/models", None)
    assert server.num_connections == 2


async def test_a_request_is_sent_again_if_the_server_closes_a_kept_connection_just_then():
    used: list[anyio.abc.ByteStream] = []

    async def once(stream: anyio.abc.ByteStream, request: bytes) -> None:
        await (stream.aclose() if stream in used else reply(stream, request))
        used.append(stream)

    async with served(once) as (server, connections):
        for _ in range(2):
            assert (await connections.request("POST", "/chat", b"{}")).body == b"ok"
    assert server.num_connections == 2
    assert len(server.requests) == 3


async def test_a_request_is_not_sent_again_if_a_new_connection_ends_or_a_reply_is_cut():
    async def close(stream: anyio.abc.ByteStream, _request: bytes) -> None:
        await stream.aclose()

    async with served(close) as (server, connections):
        with pytest.raises(ConnectionResetError):
            await connections.request("POST", "/chat", b"{}")
    assert len(server.requests) == 1

    async def cut_the_second(stream: anyio.abc.ByteStream, request: bytes) -> None:
        if len(server.requests) == 1:
            await reply(stream, request)
        else:
            await stream.send(REPLY[:-1])
            await stream.aclose()

    async with served(cut_the_second) as (server, connections):
        await connections.request("POST", "/chat", b"{}")
        with pytest.raises(HttpReplyError):
            await connections.request("POST", "/chat", b"{}")
    assert len(server.requests) == 2


async def test_a_cancelled_request_takes_its_connection_with_it():
    received = anyio.Event()

    async def never(_stream: anyio.abc.ByteStream, _request: bytes) -> None:
        received.set()

    async with served(never) as (server, connections):
        async with anyio.create_task_group() as group:
            group.start_soon(connections.request, "POST", "/chat", b"{}")
            with anyio.fail_after(5):
                await received.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(5):
            await server.closed.wait()


async def test_no_whole_reply_in_time_is_an_error():
    async def half(stream: anyio.abc.ByteStream, _request: bytes) -> None:
        await stream.send(REPLY[:-1])

    async with served(half, reply_s=0.05) as (_, connections):
        with pytest.raises(ReplyTimeoutError):
            await connections.request("POST", "/chat", b"{}")


async def test_bytes_that_nobody_asked_for_end_the_connection():
    async def twice(stream: anyio.abc.ByteStream, _request: bytes) -> None:
        await stream.send(REPLY + REPLY)

    async with served(twice) as (server, connections):
        for _ in range(2):
            assert (await connections.request("POST", "/chat", b"{}")).body == b"ok"
    assert server.num_connections == 2


@pytest.mark.parametrize("reset", [False, True])
async def test_a_reply_that_ends_with_the_connection_is_whole_unless_that_was_lost(reset):
    async def open_ended(stream: anyio.abc.ByteStream, _request: bytes) -> None:
        await stream.send(b"HTTP/1.0 200 OK\r\n\r\nhalf")
        if reset:
            await anyio.sleep(0.1)  # what was sent arrives first
            raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await stream.aclose()

    async with served(open_ended) as (_, connections):
        if reset:
            with pytest.raises(HttpReplyError, match="incomplete: the connection was lost") as caught:
                await connections.request("GET", "/models", None)
            assert caught.value.retryable
        else:
            assert (await connections.request("GET", "/models", None)).body == b"half"


async def test_a_header_cannot_bring_another_line():
    async with open_connections(
        "http://127.0.0.1:1", {"X-Team": "a\r\nB: 1"}, connect_s=1, reply_s=1, reply_bytes=10
    ) as connections:
        with pytest.raises(ConfigError, match="X-Team"):
            await connections.request("GET", "/", None)


# -- HTTPS -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "trusted", "accepted"), [("127.0.0.1", True, True), ("127.0.0.1", False, False), ("other.example", True, False)]
)
async def test_only_a_trusted_certificate_of_the_right_host_is_accepted(tmp_path, monkeypatch, name, trusted, accepted):
    file = certificate_of(tmp_path, name)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    server = Server(reply)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with TLSListener(listener, context) as secured, anyio.create_task_group() as group:
        group.start_soon(secured.serve, server.serve)
        config = EndpointConfig(name="m", url=f"https://127.0.0.1:{port}/v1")
        async with open_endpoint(config, environ={}, patience=Patience(60.0)) as endpoint:
            found = await endpoint.get_once("/models", bytes)
        group.cancel_scope.cancel()
    if accepted:
        assert found == b"ok"
    else:
        assert isinstance(found, ModelError)
        assert "certificate is not accepted" in str(found)
        assert not found.retryable
        assert not server.requests
