"""What every `Blobs` promises.

Your fixture is `blobs`: an empty store.
"""

import hashlib

import anyio
import pytest

from sandlot.core.ports.store import Blobs
from sandlot.testing.running import anyio_backend as anyio_backend
from sandlot.testing.running import pytestmark as pytestmark


@pytest.mark.parametrize("data", [b"", b"x", b"\0" * 1000, b"a" * 2_000_000], ids=len)
async def test_bytes_come_back_under_their_hash(blobs: Blobs, data: bytes) -> None:
    name = await blobs.put(data)
    assert name == hashlib.sha256(data).hexdigest()
    assert await blobs.get(name) == data


@pytest.mark.parametrize("name", ["", "nothing", "0" * 64, "A" * 64, "../../etc/passwd", "0" * 63 + "/"])
async def test_what_was_never_kept_is_a_key_error(blobs: Blobs, name: str) -> None:
    with pytest.raises(KeyError):
        await blobs.get(name)


async def test_the_same_bytes_at_once_are_one_blob(blobs: Blobs) -> None:
    names: list[str] = []

    async def put() -> None:
        names.append(await blobs.put(b"same"))

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(put)
    assert len(set(names)) == 1
    assert await blobs.get(names[0]) == b"same"
