"""Model instances: how long a decode step takes, and how much fits in the cache.

One decode step of `b` sequences with `kv` tokens in the cache takes `step_s + sequence_s * b + token_s * kv` seconds: reading the
weights, the work per sequence, reading the cache. Between two events the batch is constant and the cache grows by `b` tokens per
step, so `s` steps take `s * (step_s + sequence_s * b + token_s * kv) + token_s * b * s**2 / 2` seconds.
"""

import heapq
import math
from dataclasses import dataclass, field

from sandlot.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Equal instances of a model. The default times are rough and not measured on a GPU; give those of your own instances."""

    instances: int
    cache_tokens: int
    """Tokens of keys and values that an instance holds."""
    max_batch: int = 512
    step_s: float = 12e-3
    sequence_s: float = 50e-6
    token_s: float = 12e-9
    prefill_s: float = 30e-6
    """Per token of a context that no cache has."""
    move_s: float = 0.2e-6
    """Per token of a context whose cache another instance or the shared pool has."""
    failures_per_hour: float = 0.0
    """How often an instance dies; its rollouts go back to the queue and their caches are lost."""
    restart_s: float = 60.0

    def __post_init__(self) -> None:
        """Refuse what cannot run."""
        for name in ("instances", "cache_tokens", "max_batch"):
            if getattr(self, name) < 1:
                raise ConfigError(f"fleet: {name}={getattr(self, name)}; give 1 or more")
        if min(self.sequence_s, self.token_s, self.prefill_s, self.move_s, self.failures_per_hour, self.restart_s) < 0:
            raise ConfigError("fleet: times and rates must be 0 or more")
        if self.step_s <= 0:
            raise ConfigError(f"fleet: step_s={self.step_s}; a decode step takes time, give more than 0")


@dataclass(order=True, slots=True)
class Served:
    """A job in the batch of an instance, ordered by when its part ends."""

    until: float
    """The step count of the instance at which its part is done."""
    job: int
    part: int = field(compare=False)
    """Tokens it samples before it leaves."""
    reserved: int = field(compare=False)


@dataclass(slots=True)
class Instance:
    """One instance at one moment."""

    number: int
    fleet: Fleet
    time: float = 0.0
    steps: float = 0.0
    """Decode steps done since the beginning."""
    busy_s: float = 0.0
    owed_s: float = 0.0
    """Seconds of prefill and moves before the next decode step."""
    kv: float = 0.0
    """Tokens in the cache."""
    reserved: int = 0
    batch: list[Served] = field(default_factory=list[Served])
    groups: dict[int, int] = field(default_factory=dict[int, int])
    """Members of each group in the batch: their prompt is in the cache."""
    full: bool = False
    """True after a job was sent away because the cache was full, until the next one leaves by itself."""
    down_until: float = 0.0
    stamp: int = 0
    """Counts changes; an event with an older stamp is void."""

    @property
    def load(self) -> float:
        """Seconds per decode step beyond the fixed part."""
        return self.fleet.sequence_s * len(self.batch) + self.fleet.token_s * self.kv

    def has_room(self, tokens: int) -> bool:
        """True if a job that needs so many tokens fits in."""
        if self.full or len(self.batch) >= self.fleet.max_batch:
            return False
        return self.reserved + tokens <= self.fleet.cache_tokens and self.kv + tokens <= self.fleet.cache_tokens

    def advance(self, time: float) -> None:
        """Decode up to a moment."""
        elapsed, self.time = time - self.time, max(time, self.time)
        if elapsed <= 0.0 or not self.batch:
            return
        self.busy_s += elapsed
        paid = min(self.owed_s, elapsed)
        self.owed_s -= paid
        elapsed -= paid
        if elapsed <= 0.0:
            return
        num = len(self.batch)
        linear, square = self.fleet.step_s + self.load, self.fleet.token_s * num
        steps = (math.sqrt(linear * linear + 2 * square * elapsed) - linear) / square if square else elapsed / linear
        self.steps += steps
        self.kv += num * steps

    def next_event(self) -> float | None:
        """When the next part ends or the cache is full; None while it is idle."""
        if not self.batch:
            return None
        num = len(self.batch)
        steps = max(0.0, min(self.batch[0].until - self.steps, (self.fleet.cache_tokens - self.kv) / num))
        seconds = steps * (self.fleet.step_s + self.load) + self.fleet.token_s * num * steps * steps / 2
        return self.time + self.owed_s + seconds

    def put(self, served: Served, context: int, group: int) -> None:
        """A job joins the batch."""
        self.reserved += served.reserved
        self.kv += context
        self.groups[group] = self.groups.get(group, 0) + 1
        heapq.heappush(self.batch, served)

    def take(self, served: Served, context: int, group: int) -> None:
        """A job that was removed from the batch takes its tokens with it."""
        self.reserved -= served.reserved
        self.kv = max(0.0, self.kv - context) if self.batch else 0.0
        self.groups[group] -= 1
