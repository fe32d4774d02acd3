"""As much of Gymnasium and PettingZoo as our environments stand on, for a machine that has neither.

`tests/foreign/interop/gymnasium_conformance.py` has the real ones.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

OURS = tuple(f"sandlot.interop.gyms.{name}" for name in ("aec", "environment", "views"))
"""What imports them, and is imported anew with the stand-ins."""


class Space:
    def __contains__(self, x: object) -> bool:
        return self.contains(x)


class Text(Space):
    def __init__(self, max_length: int, *, min_length: int, charset: str, seed: Any) -> None:
        self.bounds = (min_length, max_length, charset, seed)


class Dict(Space):
    def __init__(self, spaces: Mapping[str, Space]) -> None:
        self.spaces = spaces

    def contains(self, x: Any) -> bool:
        return isinstance(x, dict) and x.keys() == self.spaces.keys() and all(x[name] in self.spaces[name] for name in x)


class Sequence(Space):
    def __init__(self, space: Space) -> None:
        self.space = space

    def contains(self, x: Any) -> bool:
        return isinstance(x, tuple) and all(each in self.space for each in x)


class Discrete(Space):
    def __init__(self, n: int) -> None:
        self.n = n

    def contains(self, x: Any) -> bool:
        return isinstance(x, int) and 0 <= x < self.n


class ResetNeeded(Exception):  # noqa: N818 - Gymnasium names it
    pass


class InvalidAction(Exception):  # noqa: N818 - as above
    pass


class Env:
    np_random = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        if seed is not None:
            self.np_random = np.random.default_rng(seed)


class AECEnv:
    agents: list[str]
    agent_selection: str

    def last(self) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        name = self.agent_selection
        end = (self.terminations[name], self.truncations[name])
        return self.observe(name), self._cumulative_rewards[name], *end, self.infos[name]

    def _accumulate_rewards(self) -> None:
        for name, reward in self.rewards.items():
            self._cumulative_rewards[name] += reward

    def _was_dead_step(self, action: None) -> None:
        if action is not None:
            raise ValueError("when an agent is dead, the only valid action is None")
        self.agents.remove(self.agent_selection)
        self.agent_selection = self.agents[0] if self.agents else self.agent_selection


@contextmanager
def gyms_stand_in() -> Iterator[None]:
    """Both can be imported until the block ends."""
    parts = {
        "gymnasium": {"Env": Env},
        "gymnasium.spaces": {"Text": Text, "Dict": Dict, "Sequence": Sequence, "Discrete": Discrete},
        "gymnasium.error": {"ResetNeeded": ResetNeeded, "InvalidAction": InvalidAction},
        "pettingzoo": {"AECEnv": AECEnv},
        "pettingzoo.utils": {},
        "pettingzoo.utils.conversions": {"aec_to_parallel": None, "turn_based_aec_to_parallel": None},
    }
    saved = {name: sys.modules.pop(name, None) for name in (*parts, *OURS)}
    for name, content in parts.items():
        module = ModuleType(name)
        module.__dict__.update(content, __path__=[])
        sys.modules[name] = module
        above, _, last = name.rpartition(".")
        if above:
            setattr(sys.modules[above], last, module)
    try:
        yield
    finally:
        for name, module in saved.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module
