"""Exactly once, whatever stops where. The slow obvious twin is a dict of what was acknowledged."""

import errno
import shutil
from itertools import count

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.traces import make_row, make_trace
from fakes.failing_disk import Countdown
from sandlot.core.errors import StoreError
from sandlot.core.trace import Node, Trace, text_message
from sandlot.core.types import Role
from sandlot.store.directory import open_run
from sandlot.store.entry import decode_trace, encode_trace
from sandlot.store.layout import layout_of
from sandlot.store.reader import RunReader
from sandlot.store.traces import Sealing

MANIFEST = b'{"format": 1}'


async def keep_until_stopped(path, traces, sealing, disk=None) -> dict:
    """Add traces at once; returns what was acknowledged before the disk stopped."""
    acknowledged = {}

    async def add(run, trace):
        try:
            await run.add(trace, make_row(trace))
        except StoreError:
            return
        acknowledged[trace.key] = trace

    more = {"disk": disk} if disk else {}
    try:
        async with open_run(path, manifest=MANIFEST, sealing=sealing, **more) as run, anyio.create_task_group() as group:
            for trace in traces:
                group.start_soon(add, run, trace)
    except (StoreError, ExceptionGroup):
        pass
    return acknowledged


async def assert_exactly_once(path, acknowledged, tried):
    """What was acknowledged is there once; of the rest each is there once or not at all, and can be had by trying again."""
    kept = list(RunReader(path).traces())
    assert len({trace.key for trace in kept}) == len(kept)
    by_key = {trace.key: trace for trace in kept}
    assert {key: by_key.get(key) for key in acknowledged} == acknowledged
    assert all(tried[trace.key] == trace for trace in kept)
    async with open_run(path, manifest=MANIFEST) as run:
        assert run.done_keys() == set(by_key)
        for key in set(tried) - run.done_keys():
            await run.add(tried[key], make_row(tried[key]))
    assert {trace.key: trace for trace in RunReader(path).traces()} == tried
    layout = layout_of(path)
    assert not layout.logs
    assert not layout.shadowed


async def test_stopped_at_every_single_step_nothing_is_lost_and_nothing_doubled(tmp_path):
    """Steps run from making the directory over appends, a seal in the middle and the seal at close."""
    tried = {trace.key: trace for trace in (make_trace("a", number) for number in range(3))}
    for steps in count():
        path = tmp_path / f"run{steps}"
        stopping = Countdown(left=steps, torn=7)
        acknowledged = {}
        try:
            async with open_run(path, manifest=MANIFEST, sealing=Sealing(traces=2), disk=stopping.disk) as run:
                for trace in tried.values():
                    await run.add(trace, make_row(trace))
                    acknowledged[trace.key] = trace
        except StoreError:
            pass
        if (path / "manifest.json").exists():
            await assert_exactly_once(path, acknowledged, tried)
        else:
            assert not acknowledged
        if stopping.left > 0:  # it was never stopped: every step has been tried
            break
    assert acknowledged == tried
    assert steps > 30


@settings(deadline=None, max_examples=20)
@given(data=st.data(), rounds=st.lists(st.integers(1, 12), min_size=1, max_size=4))
async def test_stopped_again_and_again_at_any_step(tmp_path_factory, data, rounds):
    path = tmp_path_factory.mktemp("again") / "r"
    acknowledged, tried = {}, {}
    for size in rounds:
        fresh = [make_trace("a", len(tried) + number) for number in range(size)]
        tried |= {trace.key: trace for trace in fresh}
        stopping = Countdown(left=data.draw(st.integers(0, 60)), torn=data.draw(st.integers(0, 2000)))
        sealing = Sealing(traces=data.draw(st.integers(1, 8)))
        acknowledged |= await keep_until_stopped(path, fresh, sealing, stopping.disk)
    if (path / "manifest.json").exists():
        await assert_exactly_once(path, acknowledged, tried)


@settings(deadline=None, max_examples=20)
@given(cut=st.integers(0, 10_000))
async def test_a_log_cut_at_any_byte_keeps_a_prefix(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "r"
    traces = [make_trace("a", number) for number in range(8)]
    async with open_run(path, manifest=MANIFEST) as run:
        for trace in traces:
            await run.add(trace, make_row(trace))
        shutil.copytree(path, path.with_name("copy"))
    copy = path.with_name("copy")
    log = copy / "log" / "000001.log"
    log.write_bytes(log.read_bytes()[:cut])
    kept = list(RunReader(copy).traces())
    assert kept == traces[: len(kept)]
    await assert_exactly_once(copy, {trace.key: trace for trace in kept}, {trace.key: trace for trace in traces})


async def test_logs_are_sealed_when_they_have_grown_enough(tmp_path):
    traces = [make_trace("a", number) for number in range(10)]
    async with open_run(tmp_path / "r", manifest=MANIFEST, sealing=Sealing(traces=3)) as run:
        for trace in traces:
            await run.add(trace, make_row(trace))
    assert [segment.num_rows for segment in RunReader(tmp_path / "r")._parts] == [3, 3, 3, 1]
    assert not layout_of(tmp_path / "r").logs


async def test_logs_are_sealed_by_size_too(tmp_path):
    async with open_run(tmp_path / "r", manifest=MANIFEST, sealing=Sealing(size_bytes=100_000)) as run:
        for number in range(4):
            trace = make_trace("a", number, text="x" * 30_000)
            await run.add(trace, make_row(trace))
    assert len(layout_of(tmp_path / "r").segments) == 2


async def test_a_seal_that_fails_loses_nothing_and_is_made_up_for(tmp_path):
    """The disk fills up just as the log is being sealed."""
    tried = {("a", number): make_trace("a", number) for number in range(3)}
    async with open_run(tmp_path / "r", manifest=MANIFEST):
        pass
    full = Countdown(left=10**6, error=OSError(errno.ENOSPC, "No space left on device"))
    async with open_run(tmp_path / "r", disk=full.disk) as run:
        for trace in tried.values():
            await run.add(trace, make_row(trace))
        full.left = 1
    assert list(layout_of(tmp_path / "r").logs) == [1]
    assert not list((tmp_path / "r").rglob("*.parquet"))
    await assert_exactly_once(tmp_path / "r", tried, tried)


async def test_when_log_and_segment_differ_nothing_is_thrown_away(tmp_path):
    for name, size in (("r", 2), ("other", 3)):
        async with open_run(tmp_path / name, manifest=MANIFEST) as run:
            for number in range(size):
                await run.add(make_trace("a", number), make_row(make_trace("a", number)))
            shutil.copy(tmp_path / name / "log" / "000001.log", tmp_path / f"{name}.log")
    shutil.copy(tmp_path / "other.log", tmp_path / "r" / "log" / "000001.log")
    with pytest.raises(StoreError, match=r"has 2 traces and .* 3"):
        async with open_run(tmp_path / "r"):
            pass
    assert (tmp_path / "r" / "log" / "000001.log").exists()


async def test_a_segment_copied_in_twice_is_refused(tmp_path):
    async with open_run(tmp_path / "r", manifest=MANIFEST) as run:
        await run.add(make_trace(), make_row(make_trace()))
    shutil.copy(tmp_path / "r" / "segments" / "000001.parquet", tmp_path / "r" / "segments" / "000002.parquet")
    with pytest.raises(StoreError, match=r"000002\.parquet` has rollouts that another file has too"):
        async with open_run(tmp_path / "r"):
            pass


@pytest.mark.parametrize("parent", [0, 1, -1])
def test_a_trace_whose_messages_go_in_a_circle_is_refused(parent):
    node = Node(message=text_message(Role.USER, "x"), parent=parent)
    with pytest.raises(StoreError, match="is no tree"):
        decode_trace(encode_trace(Trace(run="r", task="t", rollout=0, seed=0, started=0.0, nodes=[node])), "r/t/0")
