import pytest

from sandlot.sandbox import memory
from sandlot.sandbox.memory import MemoryFiles


async def test_what_is_written_is_read_back():
    files = MemoryFiles()
    await files.write("/out/a.txt", b"one")
    assert await files.read("/out/a.txt") == b"one"
    assert await files.list("/out") == ["/out/a.txt"]


async def test_a_snapshot_does_not_see_later_writes():
    files = MemoryFiles()
    await files.write("/a", b"before")
    snapshot = await files.freeze()
    await files.write("/a", b"after")
    assert await snapshot.read("/a") == b"before"
    assert await snapshot.list() == {"/a": 6}


@pytest.mark.parametrize("path", ["a.txt", "", "../a"])
async def test_a_relative_path_is_refused_by_name(path):
    with pytest.raises(ValueError, match="not absolute"):
        await MemoryFiles().write(path, b"")


async def test_dots_cannot_leave_the_root():
    files = MemoryFiles()
    await files.write("/../../etc/passwd", b"mine")
    assert await files.list() == ["/etc/passwd"]


async def test_a_missing_file_is_not_found():
    with pytest.raises(FileNotFoundError):
        await MemoryFiles().read("/nothing")


async def test_a_file_cannot_be_a_folder_too():
    files = MemoryFiles()
    await files.write("/a", b"")
    with pytest.raises(NotADirectoryError):
        await files.write("/a/b", b"")
    await files.write("/c/d", b"")
    with pytest.raises(IsADirectoryError):
        await files.write("/c", b"")


async def test_a_world_that_writes_without_end_runs_out_of_disk_not_of_our_memory(monkeypatch):
    monkeypatch.setattr(memory, "_MAX_BYTES", 10)
    files = MemoryFiles()
    await files.write("/a", b"12345678")
    await files.write("/a", b"1234567890")
    with pytest.raises(OSError, match="would take 11 bytes"):
        await files.write("/b", b"1")
