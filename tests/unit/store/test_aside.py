import shutil

import anyio
import pytest

from builders.traces import failed, make_row, make_trace
from fakes.failing_disk import Countdown, StoppedError
from sandlot.core.errors import StoreError
from sandlot.store.aside import rows_set_aside, set_aside
from sandlot.store.directory import open_run
from sandlot.store.reader import RunReader
from sandlot.store.traces import Sealing

MANIFEST = b'{"format": 1}'
BAD = {2, 3, 7}


def is_failed(row):
    return row.outcome == "failed"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """What `made` makes."""
    path = tmp_path_factory.mktemp("stored") / "run"
    anyio.run(made, path)
    return path


async def made(path):
    """Twelve rollouts in three segments, one of them with failures only."""
    async with open_run(path, manifest=MANIFEST, sealing=Sealing(traces=2)) as run:
        for number in range(12):
            trace = make_trace("t", number, outcome=failed() if number in BAD else None)
            await run.add(trace, make_row(trace))


def numbers(rows) -> list[int]:
    return sorted(row.rollout for row in rows)


async def test_what_failed_is_taken_again_and_the_first_try_is_kept_beside_the_run(tmp_path):
    await made(tmp_path)
    async with open_run(tmp_path, retake=is_failed) as run:
        assert run.done_keys() == {("t", number) for number in range(12) if number not in BAD}
        for number in BAD:
            trace = make_trace("t", number)
            await run.add(trace, make_row(trace))
    assert numbers(RunReader(tmp_path).rows()) == list(range(12))
    assert {row.outcome for row in RunReader(tmp_path).rows()} == {"scored"}
    assert numbers(rows_set_aside(tmp_path)) == sorted(BAD)
    assert RunReader(tmp_path).trace("t", 3).key == ("t", 3)


async def test_nothing_is_set_aside_where_nothing_is_wanted(tmp_path):
    await made(tmp_path)
    assert set_aside(tmp_path, lambda _row: False) == 0
    assert not (tmp_path / "set_aside").exists()
    assert len(RunReader(tmp_path)) == 12


@pytest.mark.parametrize("left", range(14))
def test_a_crash_at_any_step_loses_nothing_and_the_next_call_finishes_it(stored, tmp_path, left):
    shutil.copytree(stored, tmp_path, dirs_exist_ok=True)
    try:
        set_aside(tmp_path, is_failed, Countdown(left).disk)
    except (StoppedError, StoreError):
        kept = {*numbers(RunReader(tmp_path).rows()), *numbers(rows_set_aside(tmp_path))}
        assert kept == set(range(12))
    set_aside(tmp_path, is_failed)
    assert numbers(RunReader(tmp_path).rows()) == [number for number in range(12) if number not in BAD]
    assert numbers(rows_set_aside(tmp_path)) == sorted(BAD)


async def test_a_log_that_a_crash_left_unsealed_is_looked_through_as_well(tmp_path):
    await made(tmp_path)
    async with open_run(tmp_path) as run:
        trace = make_trace("t", 20, outcome=failed())
        await run.add(trace, make_row(trace))
        assert set_aside(tmp_path, is_failed) == len(BAD) + 1
    assert 20 in numbers(rows_set_aside(tmp_path))


async def test_a_reader_opened_before_says_so_and_a_new_one_reads_what_is_left(tmp_path):
    await made(tmp_path)
    early = RunReader(tmp_path)
    assert numbers(early.rows()) == list(range(12))
    set_aside(tmp_path, is_failed)
    with pytest.raises(StoreError, match="has changed since the run was opened"):
        numbers(early.rows())
    with pytest.raises(StoreError, match="has changed since the run was opened"):
        list(early.traces())
    assert numbers(RunReader(tmp_path).rows()) == [number for number in range(12) if number not in BAD]


async def test_what_failed_is_taken_again_while_the_run_is_open(tmp_path):
    async with open_run(tmp_path, manifest=MANIFEST, sealing=Sealing(traces=5)) as run:
        for number in range(12):
            trace = make_trace("t", number, outcome=failed() if number in BAD else None)
            await run.add(trace, make_row(trace))
        assert await run.retake(is_failed) == 3
        assert await run.retake(is_failed) == 0
        assert (len(run), ("t", 2) in run) == (9, False)
        for number in BAD:
            trace = make_trace("t", number)
            await run.add(trace, make_row(trace))
    assert numbers(RunReader(tmp_path).rows()) == list(range(12))
    assert numbers(rows_set_aside(tmp_path)) == sorted(BAD)


async def test_a_run_of_failures_alone_is_taken_again_whole(tmp_path):
    async with open_run(tmp_path, manifest=MANIFEST) as run:
        assert await run.retake(is_failed) == 0
        for attempt in range(2):
            trace = make_trace("t", 0, outcome=None if attempt else failed())
            await run.add(trace, make_row(trace))
            assert await run.retake(is_failed) == (not attempt)
    assert numbers(RunReader(tmp_path).rows()) == [0]
    assert numbers(rows_set_aside(tmp_path)) == [0]


@pytest.mark.parametrize("left", range(0, 60, 7))
async def test_a_crash_while_taking_again_loses_no_rollout(stored, tmp_path, left):
    shutil.copytree(stored, tmp_path, dirs_exist_ok=True)
    try:
        async with open_run(tmp_path, disk=Countdown(left=left).disk) as run:
            await run.retake(is_failed)
    except (StoppedError, StoreError):
        pass
    kept = set(numbers(RunReader(tmp_path).rows())) | set(numbers(rows_set_aside(tmp_path)))
    assert kept == set(range(12))
    async with open_run(tmp_path, retake=is_failed) as run:
        assert run.done_keys() == {("t", number) for number in range(12) if number not in BAD}
