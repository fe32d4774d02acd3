import gc

from sandlot.core.concurrency.garbage import THRESHOLDS, rare_collections


def test_what_was_set_before_is_restored_when_the_last_block_ends():
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with rare_collections():
        inner = rare_collections()
        with inner:
            assert gc.get_threshold() == THRESHOLDS
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > frozen
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_garbage_made_meanwhile_is_collected():
    class Kept:
        pass

    made = 0
    with rare_collections():
        before = sum(stage["collected"] for stage in gc.get_stats())
        while sum(stage["collected"] for stage in gc.get_stats()) <= before and made < 10 * THRESHOLDS[0]:
            cycle = Kept()
            cycle.itself = cycle
            made += 1
    assert made < 10 * THRESHOLDS[0]
