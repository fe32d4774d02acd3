"""Our stores of bytes, held to the suite that we ship."""

import hashlib
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandlot.store.blobs import LARGE_BYTES, MemoryBlobs, open_blobs
from sandlot.testing.blobs import *


@asynccontextmanager
async def memory(tmp_path):
    yield MemoryBlobs()


@asynccontextmanager
async def disk(tmp_path):
    async with open_blobs(tmp_path / "blobs") as blobs:
        yield blobs


BLOBS = {"memory": memory, "disk": disk}


@pytest.fixture(params=BLOBS.values(), ids=BLOBS)
async def blobs(request, tmp_path):
    async with request.param(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("size", [LARGE_BYTES, LARGE_BYTES + 1])
async def test_bytes_around_the_size_of_a_file_of_their_own_come_back(blobs, size):
    name = await blobs.put(b"a" * size)
    assert await blobs.get(name) == b"a" * size


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.lists(st.binary(max_size=300), max_size=20))
async def test_it_is_a_dict_from_hash_to_bytes(blobs, contents):
    twin = {hashlib.sha256(data).hexdigest(): data for data in contents}
    for data in contents:
        await blobs.put(data)
    assert {name: await blobs.get(name) for name in twin} == twin
