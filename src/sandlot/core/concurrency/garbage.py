"""Garbage collection for a process that holds thousands of rollouts.

Python's collector stops every thread. With thousands of rollouts open it has hundreds of thousands of objects to look at, and at
its default thresholds it takes a quarter of the CPU and stops the loop for half a second. Most of what a rollout makes is freed
without the collector, so it may run rarely, and what is there at the start (modules, classes, the environment) is left alone.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager

THRESHOLDS = (20_000, 50, 100)
"""As of `gc.set_threshold`: the first counts objects made less objects freed, so it bounds no single collection."""

_num_open = 0
_before: tuple[int, int, int] = (0, 0, 0)
_froze = False


@contextmanager
def rare_collections() -> Generator[None]:
    """Collect garbage rarely until the block ends; blocks may overlap, and the last one restores what was set before."""
    global _num_open, _before, _froze  # noqa: PLW0603 - the collector is one for the whole process
    _num_open += 1
    if _num_open == 1:
        _before = gc.get_threshold()
        _froze = not gc.get_freeze_count()  # a program that froze objects of its own keeps them so
        if _froze:
            gc.freeze()
        gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        _num_open -= 1
        if _num_open == 0:
            if _froze:
                gc.unfreeze()
            gc.set_threshold(*_before)
