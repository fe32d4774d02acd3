import hashlib
from contextlib import suppress
from itertools import count

import pytest

from builders.traces import make_row, make_trace
from fakes.failing_disk import Countdown, StoppedError
from sandlot.core.concurrency.clock import Clock
from sandlot.core.disk import replace_folder
from sandlot.core.trace import OUTPUT_CUT, Event, ImagePart, Message, Node, Tensor, ToolResult
from sandlot.core.types import Role
from sandlot.store.blobs import LARGE_BYTES
from sandlot.store.directory import open_run
from sandlot.store.gc import collect, last_change, references
from sandlot.store.reader import RunReader

MANIFEST = b'{"format": 1}'


async def make_run(path, live: bytes, *dead: bytes) -> str:
    """A run with one trace that refers to `live`; the other blobs are referred to by nobody."""
    async with open_run(path, manifest=MANIFEST) as run:
        name = await run.blobs.put(live)
        for data in dead:
            await run.blobs.put(data)
        trace = make_trace(blob=name)
        await run.add(trace, make_row(trace))
    return name


def files_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


async def test_a_dry_run_says_what_would_go_and_changes_nothing(tmp_path):
    await make_run(tmp_path / "r", b"live", b"dead", b"D" * (LARGE_BYTES + 1))
    before = files_of(tmp_path)
    found = collect(tmp_path, dry_run=True)
    assert [item.why for item in found.removable] == ["an unreferenced blob", "1 unreferenced blobs"]
    assert found.size_bytes == LARGE_BYTES + 1 + 4
    assert files_of(tmp_path) == before


async def test_what_rollouts_set_aside_refer_to_stays_and_their_half_written_files_go(tmp_path):
    live = await make_run(tmp_path / "r", b"live")
    async with open_run(tmp_path / "r", retake=lambda _row: True):
        pass
    draft = tmp_path / "r/set_aside/000001-aa.parquet.tmp"
    draft.write_bytes(b"half")
    assert [item.path for item in collect(tmp_path, dry_run=False).removable] == [draft]
    assert RunReader(tmp_path / "r").blobs.read(live) == b"live"


async def test_what_nobody_refers_to_goes_and_the_rest_stays_readable(tmp_path):
    big = b"B" * (LARGE_BYTES + 1)
    live = await make_run(tmp_path / "small", b"live", b"dead", big)
    live_big = await make_run(tmp_path / "big", big, b"dead")
    early = RunReader(tmp_path / "small").blobs
    assert early.read(live) == b"live"
    listed = collect(tmp_path, dry_run=True)
    assert collect(tmp_path, dry_run=False) == listed
    assert collect(tmp_path, dry_run=True).removable == ()
    assert early.read(live) == b"live"
    assert RunReader(tmp_path / "small").blobs.read(live) == b"live"
    assert RunReader(tmp_path / "big").blobs.read(live_big) == big
    with pytest.raises(KeyError):
        early.read(hashlib.sha256(b"dead").hexdigest())
    with pytest.raises(KeyError):
        RunReader(tmp_path / "small").blobs.read(hashlib.sha256(b"dead").hexdigest())
    async with open_run(tmp_path / "small") as run:
        assert await run.blobs.get(live) == b"live"
        assert await run.blobs.get(await run.blobs.put(b"dead")) == b"dead"


async def test_old_runs_go_and_young_ones_stay(tmp_path):
    await make_run(tmp_path / "r", b"live")
    changed = last_change(tmp_path / "r")
    assert collect(tmp_path, older_than_s=100, dry_run=False, clock=Clock(wall=lambda: changed + 99)).removable == ()
    found = collect(tmp_path, older_than_s=100, dry_run=False, clock=Clock(wall=lambda: changed + 101))
    assert [(item.path, item.why) for item in found.removable] == [(tmp_path / "r", "an old run")]
    assert list(tmp_path.iterdir()) == []


async def test_a_run_that_is_being_written_is_named_and_not_touched(tmp_path):
    async with open_run(tmp_path / "r", manifest=MANIFEST) as run:
        name = await run.blobs.put(b"not referred to yet")
        found = collect(tmp_path, older_than_s=0, dry_run=False, clock=Clock(wall=lambda: 1e12))
        assert found.busy == (tmp_path / "r",)
        assert found.removable == ()
        assert await run.blobs.get(name) == b"not referred to yet"


async def test_drafts_and_half_removed_runs_go(tmp_path):
    await make_run(tmp_path / "r", b"live")
    await make_run(tmp_path / "gone.tmp", b"live")
    (tmp_path / "r" / "segments" / "000009.parquet.tmp").write_bytes(b"half")
    found = collect(tmp_path, dry_run=False)
    assert {item.why for item in found.removable} == {"half-written", "a run whose removal was interrupted"}
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
    assert not (tmp_path / "r" / "segments" / "000009.parquet.tmp").exists()


def test_every_kind_of_reference_is_found():
    trace = make_trace(blob="evidence")
    result = ToolResult(call="1", text="cut", whole="whole", images=(ImagePart("shot"),))
    tensor = Tensor("tensor", dtype="float32", shape=(2,))
    trace.append(Node(message=Message(role=Role.TOOL, parts=(result, ImagePart("image"), tensor)), parent=1))
    trace.events.append(Event(kind=OUTPUT_CUT, turn=1, detail={"whole": "of a call without a message"}))
    named = {"evidence", "whole", "shot", "image", "tensor", "of a call without a message"}
    assert set(references(trace)) == named


async def test_stopped_at_any_step_of_a_collection_the_live_blobs_stay(tmp_path):
    for steps in count():
        run = tmp_path / str(steps) / "r"
        live = await make_run(run, b"live", b"dead", b"D" * (LARGE_BYTES + 1))
        stopping = Countdown(left=steps, torn=5)
        with suppress(StoppedError):
            collect(run.parent, dry_run=False, disk=stopping.disk)
        assert RunReader(run).blobs.read(live) == b"live"
        async with open_run(run) as again:
            assert await again.blobs.get(live) == b"live"
        if stopping.left > 0:
            break
    assert steps > 3
    assert collect(run.parent, dry_run=True).removable == ()


def test_a_folder_that_a_killed_import_left_goes_and_one_that_is_written_stays(tmp_path):
    left = tmp_path / ".notes.0123abcd.tmp"
    (left / "tasks").mkdir(parents=True)
    (left / "tasks/a.jsonl").write_bytes(b"12345")
    others = [tmp_path / ".notes.tmp", tmp_path / "notes.0123abcd.tmp", tmp_path / ".notes.0123abcd.tmp.d"]
    for other in others:
        other.mkdir()
    (tmp_path / ".link.0123abcd.tmp").symlink_to(others[0], target_is_directory=True)
    with replace_folder(tmp_path / "now", known=()) as draft:
        listed = collect(tmp_path / "runs", folders=(tmp_path, tmp_path / "none"), dry_run=True)
        assert [(item.path, item.size_bytes, item.why) for item in listed.removable] == [(left, 5, "a half-written folder")]
        assert collect(tmp_path / "runs", folders=(tmp_path,), dry_run=False) == listed
        assert draft.is_dir()
    assert not left.exists()
    assert (tmp_path / "now").is_dir()
    assert all(other.is_dir() for other in others)
