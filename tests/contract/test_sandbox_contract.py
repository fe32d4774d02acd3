"""Our sandbox backends, held to the suite that we ship. What they promise beyond it: test_machine_backend_contract.py."""

import anyio
import pytest

from drive.native_sandboxes import KINDS, backend_of
from fakes.docker_engine import IMAGE as DOCKER_IMAGE
from sandlot.sandbox.docker.backend import open_docker
from sandlot.testing.local import LocalBackend
from sandlot.testing.sandbox import *

DOCKER = pytest.param("docker", marks=pytest.mark.system)
IMAGES = {"docker": DOCKER_IMAGE, "local": "none"}


@pytest.fixture(params=[*KINDS, "local", DOCKER])
def kind(request):
    return request.param


@pytest.fixture
async def backend(kind, request):
    if kind == "local":
        yield LocalBackend()
        return
    with anyio.fail_after(50):
        async with backend_of(kind) if kind in KINDS else open_docker(request.getfixturevalue("docker_socket")) as opened:
            yield opened


@pytest.fixture
def image(kind):
    return IMAGES.get(kind, "host")


async def test_only_a_backend_without_isolation_is_excused_from_tests(kind, backend):
    said = {name: text.partition(":")[0] for name, text in (await backend.probe()).items()}
    assert [said[name] for name in ("processes", "files", "network")] == ["no" if kind == "local" else "yes"] * 3
