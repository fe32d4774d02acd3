import gc
import weakref

import anyio
import anyio.lowlevel
import pytest

from sandlot.core.concurrency import garbage
from sandlot.core.concurrency.garbage import FOUND, MORE_BYTES, THRESHOLDS, must_collect_all, paced_collections, resident_bytes


class Kept:
    def __init__(self) -> None:
        self.itself = self


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


async def test_set_aside_garbage_is_collected_when_memory_has_doubled(monkeypatch: pytest.MonkeyPatch):
    gone = anyio.Event()
    sizes = iter([0])
    monkeypatch.setattr(garbage, "resident_bytes", lambda: next(sizes, MORE_BYTES))
    with paced_collections(), anyio.fail_after(10):
        weakref.finalize(Kept(), gone.set)
        gc.freeze()
        await gone.wait()


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
    assert must_collect_all(resident, after_last) is expected


def test_the_memory_of_this_process_is_known():
    assert resident_bytes() > 2**20
