"""How many rollouts could be in flight during a sitting, and why not more: part of a run's record."""

import msgspec


class AdmissionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How many rollouts could be in flight during a sitting, and why not more."""

    lowest: int
    highest: int
    last: int
    """The limit at the end."""
    seconds: dict[str, float] = {}
    """How long a rollout waited to start, by why the limit was not larger (`Waits`)."""

    def describe(self) -> str:
        """In one line."""
        waited = sorted(self.seconds.items(), key=lambda item: -item[1])
        why = ", ".join(f"{reason} {seconds:.0f} s" for reason, seconds in waited if seconds >= 1)
        return f"{self.lowest} to {self.highest} in flight, {self.last} at the end" + (f"; waited for: {why}" if why else "")
