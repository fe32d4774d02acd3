import errno
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.failing_disk import Countdown
from sandlot.core.errors import StoreError
from sandlot.store.frames import HEAD_BYTES, FrameLog, encode_frames, read_frames, recover, scan

PAYLOADS = st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=4), max_size=6)


def payloads_of(found) -> list[bytes]:
    return [bytes(record.data) for record in found.records]


async def append_each(path: Path, payloads: list[bytes], tag: int = 1) -> None:
    log = FrameLog(path)
    for payload in payloads:
        await log.append(tag, payload)
    await log.close()


async def test_what_is_appended_is_read_back_in_order(tmp_path):
    await append_each(tmp_path / "a.log", [b"one", b"", b"three"], tag=7)
    found = read_frames(tmp_path / "a.log")
    assert payloads_of(found) == [b"one", b"", b"three"]
    assert {record.tag for record in found.records} == {7}
    assert found.torn_bytes == 0


async def test_append_returns_where_the_payload_lies(tmp_path):
    log = FrameLog(tmp_path / "a.log")
    places = {}

    async def one(payload):
        places[payload] = await log.append(1, payload)

    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(one, b"payload %d" % number)
    await log.close()
    data = (tmp_path / "a.log").read_bytes()
    assert all(data[at : at + len(payload)] == payload for payload, at in places.items())


async def test_concurrent_appends_share_syncs(tmp_path):
    counted = Countdown(left=10_000)
    log = FrameLog(tmp_path / "a.log", disk=counted.disk)
    async with anyio.create_task_group() as group:
        for number in range(1000):
            group.start_soon(log.append, 1, b"%d" % number)
    await log.close()
    assert len(read_frames(tmp_path / "a.log").records) == 1000
    assert 10_000 - counted.left < 20  # a write and a sync a frame


async def test_a_reopened_log_goes_on(tmp_path):
    path = tmp_path / "a.log"
    await append_each(path, [b"one"])
    log = FrameLog(path, after=recover(path))
    await log.append(1, b"two")
    await log.close()
    assert payloads_of(read_frames(path)) == [b"one", b"two"]


async def test_cancelling_an_append_does_not_leave_it_half_promised(tmp_path):
    log = FrameLog(tmp_path / "a.log")
    returned = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        returned.append(await log.append(1, b"kept"))
    await log.close()
    assert returned
    assert payloads_of(read_frames(tmp_path / "a.log")) == [b"kept"]


async def test_a_full_disk_reaches_every_waiter_and_ends_the_log(tmp_path):
    full = Countdown(left=3, error=OSError(errno.ENOSPC, "No space left on device"), torn=5)
    log = FrameLog(tmp_path / "a.log", disk=full.disk)
    await log.append(1, b"fits")
    errors = []

    async def one(number):
        with pytest.raises(StoreError, match="No space left") as caught:
            await log.append(1, b"%d" % number)
        errors.append(caught.value)

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(one, number)
    assert len(errors) == 20
    with pytest.raises(StoreError, match="nothing more is written"):
        await log.append(1, b"later")
    await log.close()
    found = recover(tmp_path / "a.log")
    assert payloads_of(found) == [b"fits"]
    assert found.torn_bytes == 5


async def test_appending_to_a_closed_log_is_refused(tmp_path):
    log = FrameLog(tmp_path / "a.log")
    await log.close()
    with pytest.raises(StoreError, match="is closed"):
        await log.append(1, b"late")


async def test_large_frames_are_divided(tmp_path, monkeypatch):
    monkeypatch.setattr("sandlot.store.frames.FRAME_BYTES", 100)
    log = FrameLog(tmp_path / "a.log")
    async with anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(log.append, 1, b"%02d" % number * 20)
    await log.close()
    assert len(read_frames(tmp_path / "a.log").records) == 30


@given(frames=PAYLOADS, data=st.data())
def test_any_truncation_leaves_a_prefix(frames, data):
    """The twin is a plain list; every cut leaves as much of it as fits."""
    payloads = [payload for frame in frames for payload in frame]
    whole = encode_frames((1, payload) for payload in payloads)
    cut = data.draw(st.integers(0, len(whole)))
    found = scan(whole[:cut], "cut")
    kept = payloads_of(found)
    assert kept == payloads[: len(kept)]
    assert found.end + found.torn_bytes == cut
    if cut == len(whole):
        assert kept == payloads


@given(payloads=st.lists(st.binary(max_size=30), min_size=2, max_size=6), data=st.data())
def test_a_flipped_byte_is_corruption_or_a_torn_tail_but_never_a_skipped_record(payloads, data):
    whole = bytearray(encode_frames((1, payload) for payload in payloads))
    at = data.draw(st.integers(16, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    last_frame = len(encode_frames((1, payload) for payload in payloads[:-1]))
    if at < last_frame:
        with pytest.raises(StoreError, match="corrupt at byte"):
            scan(bytes(whole), "flipped")
    else:
        assert payloads_of(scan(bytes(whole), "flipped")) == payloads[:-1]


def test_corruption_in_the_middle_names_file_and_offset(tmp_path):
    whole = bytearray(encode_frames([(1, b"one"), (1, b"two"), (1, b"three")]))
    second = 16 + HEAD_BYTES + 5 + 3
    whole[second + HEAD_BYTES + 6] ^= 1
    (tmp_path / "a.log").write_bytes(whole)
    with pytest.raises(StoreError, match=rf"a\.log` is corrupt at byte {second}"):
        recover(tmp_path / "a.log")
    assert (tmp_path / "a.log").read_bytes() == whole


def test_a_log_inside_a_record_is_not_taken_for_frames():
    inner = encode_frames([(1, b"inner")])
    whole = encode_frames([(1, b"first"), (1, inner * 3)])
    found = scan(whole[:-1], "cut")
    assert payloads_of(found) == [b"first"]


@pytest.mark.parametrize("content", [b"", b"sand", b"\0" * 500])
def test_a_file_without_an_opening_is_a_torn_tail(tmp_path, content):
    (tmp_path / "a.log").write_bytes(content)
    assert recover(tmp_path / "a.log").torn_bytes == len(content)
    assert (tmp_path / "a.log").read_bytes() == b""


def test_a_foreign_file_is_refused(tmp_path):
    (tmp_path / "a.log").write_bytes(b"2024-01-01 INFO started the server\n")
    with pytest.raises(StoreError, match="is not a log of Sandlot"):
        recover(tmp_path / "a.log")


def test_a_newer_format_is_refused():
    newer = bytearray(encode_frames([(1, b"x")]))
    newer[7] = 2
    with pytest.raises(StoreError, match="has format 2"):
        scan(bytes(newer), "newer")


async def test_a_failed_first_write_can_be_gone_on_from(tmp_path):
    stopped = Countdown(left=0, torn=9)
    log = FrameLog(tmp_path / "a.log", disk=stopped.disk)
    with pytest.raises(StoreError):
        await log.append(1, b"lost")
    await log.close()
    again = FrameLog(tmp_path / "a.log", after=recover(tmp_path / "a.log"))
    await again.append(1, b"kept")
    await again.close()
    assert payloads_of(read_frames(tmp_path / "a.log")) == [b"kept"]
