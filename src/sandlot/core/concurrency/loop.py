"""The event loop of long runs: timers are on time also when thousands of replies arrive together.

asyncio handles everything that is ready before it looks at its timers again. With thousands of connections that can take a
second. Here it gets a few of the ready files at a time.
"""

import asyncio
import selectors
from collections import deque

AT_ONCE = 16
"""Ready files that are handled before the timers. Most make one rollout take a turn, which is half a millisecond of work."""

LOOP_OPTIONS = {"loop_factory": lambda: asyncio.SelectorEventLoop(FewAtOnce())}
"""For `anyio.run(..., backend_options=LOOP_OPTIONS)`."""


class FewAtOnce(selectors.DefaultSelector):
    """Returns at most `AT_ONCE` ready files; the others, in their order, when it is asked again."""

    def __init__(self) -> None:
        super().__init__()
        self._ready: deque[tuple[selectors.SelectorKey, int]] = deque()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As of every selector. A file that was unregistered or changed meanwhile is left out: if it is ready, it comes again."""
        if not self._ready:
            found = super().select(timeout)
            if len(found) <= AT_ONCE:
                return found
            self._ready.extend(found)
        registered = self.get_map()
        taken = [self._ready.popleft() for _ in range(min(AT_ONCE, len(self._ready)))]
        return [(key, events) for key, events in taken if registered.get(key.fd) is key]
