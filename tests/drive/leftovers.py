"""Objects of Sandlot that only the garbage collector can free: they hold each other, so they stay for long in a large run."""

import gc
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def no_leftovers() -> Generator[None]:
    """Fail if the block leaves such objects. Run it once before: what is made once and kept is no leftover."""
    gc.disable()
    gc.freeze()  # what other tests left is not looked at
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = Counter(type(each).__qualname__ for each in gc.garbage if type(each).__module__.startswith("sandlot"))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()
    assert not found, dict(found)
