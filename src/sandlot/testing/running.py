"""What every asynchronous suite needs: a test runs on asyncio, and none waits for ever.

A suite imports these names, so that a test file that imports the suite has them too.
"""

from collections.abc import AsyncGenerator
from socket import create_server

import anyio
import pytest

_DEADLINE_S = 60.0
"""For one test: no part that works needs so long, on any machine."""

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop; a fixture of this name in your test file chooses another."""
    return "asyncio"


@pytest.fixture
async def deadline() -> AsyncGenerator[None]:
    """Ends a test that would wait for ever, with an error."""
    with anyio.fail_after(_DEADLINE_S):
        yield


def free_port() -> int:
    """A port on which nobody listens."""
    with create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
