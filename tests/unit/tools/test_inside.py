"""The port of a sandbox on the host, for MCP clients."""

import asyncio

import anyio
import pytest

from sandlot.tools.inside import forward_port
from sandlot.tools.stdio import ServerNotes


class Silent:
    """A connection inside, to a server that says nothing."""

    def __init__(self) -> None:
        self._closed = anyio.Event()

    async def receive(self) -> bytes:
        await self._closed.wait()
        return b""

    async def send(self, data: bytes) -> None: ...

    async def aclose(self) -> None:
        self._closed.set()


class OneServer:
    async def connect(self, port: int) -> Silent:
        return Silent()


@pytest.mark.parametrize("left_open", [False, True])
async def test_a_port_that_is_closed_together_with_its_client_leaves_no_error_in_the_log(left_open, monkeypatch):
    """The client's socket became readable while the task that read it was cancelled: `InvalidStateError`."""
    if left_open:  # then its whole time passes
        monkeypatch.setattr("sandlot.tools.inside.CLOSE_S", 0.05)
    logged = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
    for _ in range(5):
        async with forward_port(OneServer(), 80, ServerNotes()) as path:
            client = await anyio.connect_unix(path)
            await client.send(b"x")
            await anyio.wait_all_tasks_blocked()
            if not left_open:
                await client.aclose()
        await client.aclose()
    assert logged == []
