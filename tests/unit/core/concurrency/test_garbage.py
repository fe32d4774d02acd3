import gc
import resource
import weakref

import anyio
import anyio.lowlevel
import pytest

from sandlot.core.concurrency import garbage
from sandlot.core.concurrency.garbage import (
    FOUND,
    MORE_BYTES,
    MORE_FILES,
    THRESHOLDS,
    Held,
    held_now,
    must_collect_all,
    paced_collections,
)
from unit.core.concurrency.small_process import Kept, found_by


async def test_what_was_set_before_is_restored_when_the_last_block_ends():
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with paced_collections():
        with paced_collections():
            assert gc.get_threshold() == THRESHOLDS
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > frozen
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


async def test_a_program_that_froze_objects_keeps_them_so():
    gc.freeze()
    try:
        with paced_collections():
            pass
        assert gc.get_freeze_count()  # objects that were freed meanwhile are no longer counted
    finally:
        gc.unfreeze()


async def test_garbage_made_meanwhile_is_collected_by_the_clock():
    gone = anyio.Event()
    with paced_collections(), anyio.fail_after(10):
        while not gone.is_set():  # most new objects are set aside unseen, so make some until a look finds one
            weakref.finalize(Kept(), gone.set)
            await anyio.sleep(garbage.EVERY_S)


async def test_where_one_look_finds_much_garbage_the_next_objects_are_looked_at_too():
    looks: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 0:
            looks.append(info["collected"])

    gc.callbacks.append(note)
    try:
        with paced_collections(), anyio.fail_after(10):
            while sum(found >= FOUND for found in looks) < garbage.SAMPLED:
                for _ in range(2 * FOUND):
                    Kept()
                await anyio.lowlevel.checkpoint()
    finally:
        gc.callbacks.remove(note)


def test_set_aside_garbage_is_collected_when_one_of_three_has_doubled():
    assert found_by("doubled") == [True, True, True, False, False, False]


@pytest.mark.parametrize(
    ("resident", "after_last", "expected"),
    [
        (MORE_BYTES, 0, True),
        (MORE_BYTES - 1, 0, False),
        (3 * MORE_BYTES, 2 * MORE_BYTES, False),
        (4 * MORE_BYTES, 2 * MORE_BYTES, True),
    ],
)
def test_all_objects_are_looked_at_when_memory_has_doubled_and_grown_much(resident: int, after_last: int, expected: bool):
    assert must_collect_all(Held(0, resident, 0, 1024), Held(0, after_last, 0, 1024)) is expected


@pytest.mark.parametrize(
    ("num_files", "after_last", "max_files", "expected"),
    [
        (256, 0, 1024, True),
        (255, 0, 1024, False),
        (700, 400, 1024, False),
        (12_300, 20, 2**20, False),  # 4,096 rollouts with a sandbox and a connection each
        (MORE_FILES, 0, 2**20, True),
        (MORE_FILES, 0, resource.RLIM_INFINITY, True),
        (MORE_FILES - 1, 0, resource.RLIM_INFINITY, False),
    ],
)
def test_open_files_count_where_they_are_many_for_the_limit(num_files: int, after_last: int, max_files: int, expected: bool):
    assert must_collect_all(Held(0, 0, num_files, max_files), Held(0, 0, after_last, max_files)) is expected


def test_files_that_only_garbage_holds_are_closed_in_a_long_run():
    held = found_by("files")
    assert len(held) == 96
    assert max(held) < 2 * 256, held


def test_garbage_that_lived_for_long_does_not_pile_up():
    held = found_by("piles")
    assert len(held) == 12
    assert max(held) < 3 * 2 * 5000, held  # two blocks each: the piles of two are never there at once


def test_allocations_memory_and_open_files_of_this_process_are_known():
    assert held_now().num_blocks > 10_000
    assert held_now().num_bytes > 2**20
    assert held_now().num_files >= 3
