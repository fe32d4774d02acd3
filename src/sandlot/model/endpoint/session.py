"""The rollout that a chat request belongs to. Chat APIs have no sessions, so it travels beside the request, not in it.

A policy opens a session for its rollout and takes every turn inside it; whoever sends requests may read it, and be told its end.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar


class RolloutSession:
    """One rollout, from its first request to its end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._at_end: dict[int, Callable[[str], object]] = {}

    def at_end(self, owner: object, release: Callable[[str], object]) -> None:
        """Call `release` with the name when the rollout ends; once for each owner."""
        self._at_end.setdefault(id(owner), release)

    def end(self) -> None:
        """The rollout has ended."""
        for release in self._at_end.values():
            release(self.name)
        self._at_end.clear()


_current: ContextVar[RolloutSession | None] = ContextVar("rollout_session", default=None)


@contextmanager
def in_session(session: RolloutSession) -> Generator[None]:
    """Requests inside the block belong to this rollout."""
    token = _current.set(session)
    try:
        yield
    finally:
        _current.reset(token)


def current_session() -> RolloutSession | None:
    """The rollout of the request that is being made; None outside of any."""
    return _current.get()
