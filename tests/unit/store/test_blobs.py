import errno
import hashlib
from contextlib import suppress

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.failing_disk import Countdown
from sandlot.core.errors import StoreError
from sandlot.store import blobs as blobs_module
from sandlot.store.blobs import LARGE_BYTES, KeptBlobs, open_blobs
from sandlot.store.layout import large_file, pack_file, pack_index_file, packs_of


async def keep(folder, *contents: bytes) -> list[str]:
    async with open_blobs(folder) as blobs:
        return [await blobs.put(data) for data in contents]


async def test_blobs_are_there_when_opened_again(tmp_path):
    big = b"B" * (LARGE_BYTES + 1)
    names = await keep(tmp_path, b"one", b"two", big)
    async with open_blobs(tmp_path) as blobs:
        assert [await blobs.get(name) for name in names] == [b"one", b"two", big]
    assert [KeptBlobs(tmp_path).read(name) for name in names] == [b"one", b"two", big]


async def test_the_same_bytes_take_no_more_room(tmp_path):
    await keep(tmp_path, b"same" * 100, b"L" * (LARGE_BYTES + 1))
    before = {path: path.stat().st_size for path in tmp_path.rglob("*")}
    await keep(tmp_path, b"same" * 100, b"same" * 100, b"L" * (LARGE_BYTES + 1))
    assert {path: path.stat().st_size for path in tmp_path.rglob("*")} == before


async def test_a_full_pack_gets_an_index_and_the_next_one_is_begun(tmp_path, monkeypatch):
    monkeypatch.setattr(blobs_module, "_PACK_BYTES", 1000)
    contents = [bytes([number]) * 300 for number in range(20)]
    names = await keep(tmp_path, *contents)
    packs = packs_of(tmp_path)
    assert len(packs) > 3
    assert pack_index_file(packs[1]).exists()
    assert [KeptBlobs(tmp_path).read(name) for name in names] == contents
    for path in packs.values():
        pack_index_file(path).unlink(missing_ok=True)
    assert [KeptBlobs(tmp_path).read(name) for name in names] == contents
    pack_index_file(packs[2]).write_bytes(b"not an index")
    assert [KeptBlobs(tmp_path).read(name) for name in names] == contents


async def test_a_reader_sees_what_a_writer_adds(tmp_path):
    async with open_blobs(tmp_path) as blobs:
        first = await blobs.put(b"first")
        reader = KeptBlobs(tmp_path)
        second = await blobs.put(b"second")
        assert await reader.get(first) == b"first"
        assert await reader.get(second) == b"second"
    with pytest.raises(StoreError, match="reading only"):
        await reader.put(b"third")


@pytest.mark.parametrize("size", [10, LARGE_BYTES + 1])
async def test_bytes_that_changed_on_disk_are_refused(tmp_path, size):
    [name] = await keep(tmp_path, b"a" * size)
    path = pack_file(tmp_path, 1) if size == 10 else large_file(tmp_path, name)
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    async with open_blobs(tmp_path) as blobs:
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match="corrupt"):
            await blobs.get(name)


async def test_a_full_disk_is_an_error_for_every_waiter(tmp_path):
    full = Countdown(left=0, error=OSError(errno.ENOSPC, "No space left on device"))
    errors = []
    async with open_blobs(tmp_path) as blobs:
        pass
    async with open_blobs(tmp_path, full.disk) as blobs:

        async def put(data):
            with pytest.raises(StoreError, match="No space left"):
                await blobs.put(data)
            errors.append(data)

        async with anyio.create_task_group() as group:
            for data in (b"a", b"a", b"b", b"L" * (LARGE_BYTES + 1)):
                group.start_soon(put, data)
    assert len(errors) == 4


@given(contents=st.lists(st.binary(max_size=200), max_size=10), steps=st.integers(0, 30), torn=st.integers(0, 300))
async def test_what_was_put_before_a_stop_is_readable_after_it(tmp_path_factory, contents, steps, torn):
    folder = tmp_path_factory.mktemp("stopped")
    kept = {}
    with suppress(StoreError):
        async with open_blobs(folder, Countdown(left=steps, torn=torn).disk) as blobs:
            for data in contents:
                kept[await blobs.put(data)] = data
    async with open_blobs(folder) as blobs:
        assert {name: await blobs.get(name) for name in kept} == kept
        for data in contents:
            await blobs.put(data)
        assert [await blobs.get(hashlib.sha256(data).hexdigest()) for data in contents] == contents
