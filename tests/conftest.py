import pytest

from docker_engine import running_engine


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="session")
def docker_socket():
    """The socket of a real engine, started when the first test asks for one. It fails, with the reason, where none can start."""
    with running_engine() as socket:
        yield socket
