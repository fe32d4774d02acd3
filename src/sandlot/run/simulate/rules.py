"""How a fleet is scheduled: the order of the queue, where jobs may go, and how much cache is set aside for each."""

from dataclasses import dataclass

from sandlot.run.schedule.policies import (
    Adaptive,
    Fifo,
    GroupContext,
    KnownLengths,
    LeastAttained,
    LongestRemaining,
    SchedulingPolicy,
)
from sandlot.run.simulate.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """One way to schedule."""

    policy: SchedulingPolicy
    pinned: bool = False
    """True if a group stays on one instance, chosen in turn; False for one queue that all instances take from."""
    reserve: float = 0.5
    """Share of a job's next part for which cache is set aside. Parts end at different times, so they need half on average. If
    the cache does fill up, the last job in the order goes back to the queue, and its cache to the shared pool."""
    keeps_cache: bool = True
    """False if a job that is sent away loses its cache and is prefilled again."""
    adapt: int | None = None
    """The most rollouts in flight; how many of them there are is found out, as by `--adapt`. None: all are submitted at once."""


def named_rules(workload: Workload) -> dict[str, Rules]:
    """The default and the baselines, by name."""
    size = workload.group_size
    lengths = [rollout.tokens for rollout in workload.rollouts]
    return {
        "adaptive": Rules(policy=Adaptive()),
        "least-attained": Rules(policy=LeastAttained()),
        "remaining": Rules(policy=LongestRemaining()),
        "chunked-fifo": Rules(policy=Fifo(chunk=2048), reserve=1.0),
        "seer": Rules(policy=GroupContext(size, chunk=8192), reserve=1.0),
        "seer-2048": Rules(policy=GroupContext(size), reserve=1.0),
        "verl": Rules(policy=Fifo(), pinned=True, reserve=0.0, keeps_cache=False),
        "least-loaded": Rules(policy=Fifo(), reserve=0.0, keeps_cache=False),
        "admitted": Rules(policy=Fifo(), reserve=0.0, keeps_cache=False, adapt=len(lengths)),
        "foresight": Rules(policy=KnownLengths(lengths)),
    }
