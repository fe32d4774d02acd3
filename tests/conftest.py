import os

# Triton reads it when it is imported: the kernels are run as they are written, on a machine without a GPU.
os.environ.setdefault("TRITON_INTERPRET", "1")
# One test process a core: more threads would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from fakes.docker_engine import running_engine

settings.register_profile("any machine", deadline=None)  # no test asserts wall-clock time: a busy machine is not a bug
settings.load_profile("any machine")


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="session")
def docker_socket():
    """The socket of a real engine, started when the first test asks for one. It fails, with the reason, where none can start."""
    with running_engine() as socket:
        yield socket
