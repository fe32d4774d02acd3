"""What a fleet has to do: rollouts in groups, each a list of turns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from sandlot.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class PlannedTurn:
    """Tokens to sample, and what the tool call after them adds."""

    tokens: int
    observation: int = 0
    """Tokens that the result of the tool adds to the context."""
    tool_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PlannedRollout:
    """One rollout as it will turn out; a policy does not see it."""

    group: int
    prompt: int
    turns: tuple[PlannedTurn, ...]

    @property
    def tokens(self) -> int:
        """Tokens sampled in all turns."""
        return sum(turn.tokens for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Workload:
    """Rollouts in the order of submission; the members of a group follow each other."""

    name: str
    rollouts: tuple[PlannedRollout, ...]
    group_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthModel:
    """`log length = group mean + deviation`, clipped and scaled to a mean; the turns of a rollout share its tokens evenly."""

    groups: int
    group_size: int
    mean: float
    """Tokens sampled per rollout, on average."""
    longest: int
    prompt: int
    between: float
    """Standard deviation of the group means of log lengths."""
    within: float
    """Standard deviation of log lengths inside a group."""
    turns: int = 1
    observation: int = 0
    tool_s: float = 0.0
    """Mean seconds of a tool call, exponentially distributed."""

    def __post_init__(self) -> None:
        """Refuse what has no workload."""
        for name in ("groups", "group_size", "longest", "turns"):
            if getattr(self, name) < 1:
                raise ConfigError(f"workload: {name}={getattr(self, name)}; give 1 or more")
        if not 1 <= self.mean <= self.longest:
            raise ConfigError(f"workload: mean={self.mean:g}; give a number from 1 to longest={self.longest}")
        if min(self.between, self.within, self.prompt, self.observation, self.tool_s) < 0:
            raise ConfigError("workload: between, within, prompt, observation and tool_s must be 0 or more")


SEER = {
    "moonlight": LengthModel(groups=400, group_size=8, mean=22_400, longest=65_536, prompt=512, between=0.8, within=0.25),
    "qwen2-vl": LengthModel(groups=600, group_size=16, mean=7_600, longest=40_960, prompt=1024, between=0.8, within=0.25),
    "kimi-k2": LengthModel(groups=800, group_size=8, mean=39_000, longest=98_304, prompt=512, between=0.8, within=0.25),
}
"""Workloads shaped like those of the Seer paper (2511.14617): sizes and limits are published, the spreads are our assumption."""


_CUSTOM = LengthModel(groups=400, group_size=8, mean=8_000, longest=32_768, prompt=512, between=0.8, within=0.25)


def describe_workload(name: str, **changes: float | None) -> LengthModel:
    """A known workload or `custom`, with some numbers changed; None changes nothing."""
    known = {**SEER, "custom": _CUSTOM}
    if name not in known:
        raise ConfigError(f"no workload named `{name}`; known: {', '.join(known)}")
    given: dict[str, Any] = {key: value for key, value in changes.items() if value is not None}
    return replace(known[name], **given)


def make_workload(name: str, model: LengthModel, seed: int = 0) -> Workload:
    """Draw a workload; the same seed gives the same rollouts."""
    rng = Random(seed)  # noqa: S311 - draws, not secrets
    lengths = _draw_lengths(rng, model)
    rollouts = [
        PlannedRollout(number // model.group_size, model.prompt, tuple(_divide(rng, model, length)))
        for number, length in enumerate(lengths)
    ]
    return Workload(name, tuple(rollouts), model.group_size)


def _draw_lengths(rng: Random, model: LengthModel) -> list[int]:
    raw: list[float] = []
    for _ in range(model.groups):
        mean = rng.gauss(0.0, model.between)
        raw += [math.exp(mean + rng.gauss(0.0, model.within)) for _ in range(model.group_size)]
    scale = model.mean * len(raw) / math.fsum(raw)
    for _ in range(40):  # clipping lowers the mean, so the scale is raised until it fits
        clipped = _clip(raw, scale, model.longest)
        found = math.fsum(clipped) / len(clipped)
        if abs(found - model.mean) < 1e-3 * model.mean:
            break
        scale *= model.mean / found
    return [int(length) for length in _clip(raw, scale, model.longest)]


def _clip(raw: Sequence[float], scale: float, longest: int) -> list[float]:
    return [min(float(longest), max(1.0, length * scale)) for length in raw]


def _divide(rng: Random, model: LengthModel, length: int) -> list[PlannedTurn]:
    """The turns of a rollout: no tool call after the last one."""
    turns = min(model.turns, length)
    share, rest = divmod(length, turns)
    whole = [share + (number < rest) for number in range(turns)]
    calls = [rng.expovariate(1 / model.tool_s) if model.tool_s else 0.0 for _ in whole[:-1]]
    return [
        *(PlannedTurn(tokens, model.observation, seconds) for tokens, seconds in zip(whole[:-1], calls, strict=True)),
        PlannedTurn(whole[-1]),
    ]
