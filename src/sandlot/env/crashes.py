"""What crashes in one rollout after the agent has acted, and whether it fails the rollout (`core/crashes.py` says why not)."""

from sandlot.core.crashes import REFUSED, OnCrash, crash_event
from sandlot.core.errors import AuthorError, ConfigError, InsideError
from sandlot.core.trace import Event

CRASHED = "`{tool}` failed: it has an error of its own. It may have done a part of its work; other arguments may work."
"""What the agent is told. The error itself may hold what agents must not see."""


_REASON_CHARS = 300


class Crashes:
    """The crashes of one rollout, of all its seats together."""

    def __init__(self, rule: OnCrash, *, sandboxed: bool = False) -> None:
        """`sandboxed`: what takes too long may have waited for a sandbox that the agent keeps busy."""
        self._rule = rule
        self._sandboxed = sandboxed
        self._seen: set[tuple[str, str]] = set()
        self._late: list[Event] = []
        self.lost: dict[str, str] = {}
        """What crashed where that loses the rollout, by seat; at no seat in particular: for all of them."""

    def note(
        self, what: str, error: AuthorError | ConfigError, turn: int, rule: OnCrash | None = None, *, seat: str = ""
    ) -> Event:
        """The event of a crash. Raises the error if a crash fails the rollout: by the tool's `rule`, or the environment's."""
        applied = rule or self._rule
        if applied == "fail":
            raise error
        if applied == "lose" and error.kind != REFUSED:
            self.lost.setdefault(seat, f"`{what}`: {str(error)[:_REASON_CHARS]}")
        if self._sandboxed and error.kind == "timeout" and error.original is None:
            error = InsideError(str(error), kind=error.kind)
        event = crash_event(what, error, turn)
        key = what, str(event.detail["signature"])
        if key in self._seen:
            return crash_event(what, error, turn, whole=False)
        self._seen.add(key)
        return event

    def note_late(self, what: str, error: AuthorError | ConfigError, turn: int) -> None:
        """Note a crash that belongs to no step: between rounds, or at the end."""
        self._late.append(self.note(what, error, turn))

    def take_late(self) -> list[Event]:
        """The crashes that belong to no step, once."""
        late, self._late = self._late, []
        return late
