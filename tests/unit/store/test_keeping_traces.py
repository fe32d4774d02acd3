"""What keeping traces promises, with and without sealing in the middle."""

from contextlib import asynccontextmanager

import anyio
import pytest

from builders.traces import cancelled, failed, make_row, make_trace
from sandlot.core.errors import StoreError
from sandlot.core.trace import EvidenceRecord
from sandlot.store.directory import open_run
from sandlot.store.reader import RunReader
from sandlot.store.traces import Sealing


@asynccontextmanager
async def directory(tmp_path, sealing=None):
    async with open_run(tmp_path / "r", manifest=b'{"format": 1}', sealing=sealing) as run:
        yield run, lambda: {trace.key: trace for trace in RunReader(tmp_path / "r").traces()}


@asynccontextmanager
async def sealing_directory(tmp_path):
    async with directory(tmp_path, Sealing(traces=2)) as pair:
        yield pair


SINKS = {"directory": directory, "sealing": sealing_directory}


@pytest.fixture(params=SINKS.values(), ids=SINKS)
async def opened(request, tmp_path):
    async with request.param(tmp_path) as pair:
        yield pair


async def test_an_added_trace_is_kept_when_add_returns(opened):
    sink, kept = opened
    trace = make_trace("a", 3)
    await sink.add(trace, make_row(trace))
    assert kept() == {("a", 3): trace}
    assert sink.done_keys() == {("a", 3)}


async def test_every_outcome_is_kept(opened):
    sink, kept = opened
    traces = [make_trace("a", 0), make_trace("a", 1, outcome=failed()), make_trace("a", 2, outcome=cancelled())]
    for trace in traces:
        await sink.add(trace, make_row(trace))
    assert kept() == {trace.key: trace for trace in traces}


async def test_a_second_trace_of_a_rollout_is_refused_and_changes_nothing(opened):
    sink, kept = opened
    first, second = make_trace("a", 0, text="first"), make_trace("a", 0, text="second")
    await sink.add(first, make_row(first))
    for again in (second, first):
        with pytest.raises(StoreError, match="a/0 is already stored"):
            await sink.add(again, make_row(again))
    assert kept() == {("a", 0): first}


async def test_of_two_at_the_same_time_one_is_kept(opened):
    sink, kept = opened
    refused = []

    async def add(trace):
        try:
            await sink.add(trace, make_row(trace))
        except StoreError as error:
            refused.append(error)

    async with anyio.create_task_group() as group:
        for text in ("one", "two"):
            group.start_soon(add, make_trace("a", 0, text=text))
    assert len(refused) == 1
    assert len(kept()) == 1


async def test_a_row_of_another_rollout_is_refused(opened):
    sink, kept = opened
    with pytest.raises(StoreError, match="row b/0 does not belong to trace a/0"):
        await sink.add(make_trace("a", 0), make_row(make_trace("b", 0)))
    assert kept() == {}


async def test_many_at_once_are_all_kept(opened):
    sink, kept = opened
    traces = [make_trace(f"t{number % 7}", number) for number in range(60)]
    async with anyio.create_task_group() as group:
        for trace in traces:
            group.start_soon(sink.add, trace, make_row(trace))
    assert kept() == {trace.key: trace for trace in traces}


def deep(levels: int):
    value = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("state", [2**70, deep(100_000), object()], ids=["huge", "deep", "object"])
async def test_what_cannot_be_written_down_is_refused_and_harms_nothing(opened, state):
    sink, kept = opened
    bad, good = make_trace("bad", 0), make_trace("a", 0)
    bad.evidence = EvidenceRecord(state=state)
    with pytest.raises(StoreError, match="bad/0 cannot be encoded"):
        await sink.add(bad, make_row(bad))
    await sink.add(good, make_row(good))
    assert kept() == {("a", 0): good}
    assert sink.done_keys() == {("a", 0)}
