"""What the files of every world promise, with a sandbox or without.

Your fixture is `files`: empty files.
"""

import pytest

from sandlot.core.ports.sandbox import Files
from sandlot.testing.running import anyio_backend as anyio_backend
from sandlot.testing.running import pytestmark as pytestmark


async def test_bytes_come_back_as_they_were_written(files: Files) -> None:
    data = bytes(range(256)) * 100
    await files.write("/deep/er/data.bin", data)
    assert await files.read("/deep/er/data.bin") == data


async def test_writing_again_replaces(files: Files) -> None:
    await files.write("/a", b"long before")
    await files.write("/a", b"now")
    assert await files.read("/a") == b"now"


async def test_listing_is_sorted_and_below_the_folder_only(files: Files) -> None:
    for path in ("/b/2", "/b/1", "/bb/3", "/a"):
        await files.write(path, b"")
    assert list(await files.list("/b")) == ["/b/1", "/b/2"]
    assert list(await files.list("/b/")) == ["/b/1", "/b/2"]


async def test_what_is_not_there_is_not_found(files: Files) -> None:
    with pytest.raises(FileNotFoundError):
        await files.read("/nothing")
    snapshot = await files.freeze()
    with pytest.raises(FileNotFoundError):
        await snapshot.read("/nothing")


async def test_a_snapshot_stays_as_it_was(files: Files) -> None:
    await files.write("/a", b"1")
    snapshot = await files.freeze()
    await files.write("/a", b"22")
    await files.write("/b", b"333")
    assert dict(await snapshot.list()) == {"/a": 1}
    assert await snapshot.read("/a") == b"1"


async def test_odd_names_are_names(files: Files) -> None:
    for path in ("/with space", "/ünïcode", "/-dash", "/new\nline"):
        await files.write(path, path.encode())
        assert await files.read(path) == path.encode()
