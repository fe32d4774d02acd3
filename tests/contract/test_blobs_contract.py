"""What every `Blobs` promises. A third party's implementation passes the same suite: add it to `BLOBS`."""

import hashlib
from contextlib import asynccontextmanager

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandlot.store.blobs import LARGE_BYTES, MemoryBlobs, open_blobs


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


@pytest.mark.parametrize("data", [b"", b"x", b"\0" * 1000, b"a" * LARGE_BYTES, b"b" * (LARGE_BYTES + 1)], ids=len)
async def test_bytes_come_back_under_their_hash(blobs, data):
    name = await blobs.put(data)
    assert name == hashlib.sha256(data).hexdigest()
    assert await blobs.get(name) == data


@pytest.mark.parametrize("name", ["", "nothing", "0" * 64, "A" * 64, "../../etc/passwd", "0" * 63 + "/"])
async def test_what_was_never_kept_is_a_key_error(blobs, name):
    with pytest.raises(KeyError):
        await blobs.get(name)


async def test_the_same_bytes_at_once_are_one_blob(blobs):
    names = []

    async def put():
        names.append(await blobs.put(b"same"))

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(put)
    assert len(set(names)) == 1
    assert await blobs.get(names[0]) == b"same"


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.lists(st.binary(max_size=300), max_size=20))
async def test_it_is_a_dict_from_hash_to_bytes(blobs, contents):
    twin = {hashlib.sha256(data).hexdigest(): data for data in contents}
    for data in contents:
        await blobs.put(data)
    assert {name: await blobs.get(name) for name in twin} == twin
