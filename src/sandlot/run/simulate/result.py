"""What a simulation found."""

import msgspec


class SimulatedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One workload, served by one fleet under one set of rules."""

    workload: str
    rollouts: int
    makespan_s: float
    """From the submission of all rollouts to the end of the last."""
    bound_s: float
    """No schedule without speculation can be faster."""
    ratio: float
    """Makespan over bound."""
    tail_s: float
    """The time of the last tenth of the rollouts."""
    tokens_per_s: float
    utilisation: float
    """Share of the time in which instances had work."""
    moved_tokens: int
    """Tokens whose cache went from one instance to another."""
    prefilled_tokens: int
    sent_away: int
    """Jobs that left because a cache was full."""
    deaths: int
    """Instances that died."""
    reliability: float
    """How much a sibling's length told in the end, from 0 to 1."""
