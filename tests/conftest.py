import os

# Triton reads it when it is imported: the kernels are run as they are written, on a machine without a GPU.
os.environ.setdefault("TRITON_INTERPRET", "1")
# One test process a core: more threads would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from pathlib import Path

import pytest
from hypothesis import settings

from costs import Ledger, Meter
from groups import LONG, place_of, scheduler

# No test asserts wall-clock time: a busy machine is not a bug. The same examples each time, so that red means a change was wrong;
# `make test-all` draws more, and new ones.
settings.register_profile("quick", deadline=None, max_examples=30, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=200)
settings.load_profile("quick")


def pytest_addoption(parser: pytest.Parser):
    parser.addoption("--until", type=float, metavar="EPOCH", help="begin no test after this moment; what was not run is named")
    parser.addoption("--costs", nargs="?", const="", metavar="FILE", help="print what tests cost; FILE gets a JSON line a test")


def pytest_configure(config: pytest.Config):
    config.pluginmanager.register(Meter())
    if not hasattr(config, "workerinput"):
        file = config.getoption("costs")
        config.pluginmanager.register(Ledger(Path(file) if file else None, always=file is not None))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log):
    return scheduler(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]):
    """System tests that take long come first, so that the other process has something to do until they end."""
    items.sort(key=lambda item: place_of(item.nodeid) if item.get_closest_marker("system") else len(LONG))


def pytest_runtest_setup(item: pytest.Item):
    """On a machine that is far too slow for CI's time, a part of the system tests is better than none."""
    until = item.config.getoption("--until")
    if until is not None and time.time() > until:
        pytest.skip("not run: no time was left")


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="session")
def sandlot():
    """Run a command: `sandlot("show", "runs/x", cwd=folder)`."""
    from drive.command_line import Nursery  # here, as below

    with Nursery() as nursery:
        yield nursery.run


@pytest.fixture(scope="session")
def docker_socket():
    """The socket of a real engine, started when the first test asks for one. It fails, with the reason, where none can start."""
    from fakes.docker_engine import running_engine  # here: `selection.py` charges its imports to tests that ask for an engine

    with running_engine() as socket:
        yield socket
