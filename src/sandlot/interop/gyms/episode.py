# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""One episode of a Gymnasium or PettingZoo world, as the tools of `world.py` play it.

Spaces, seeds, wrappers, `terminated` and `truncated` are the world's own. Of a PettingZoo world one agent is played, and the
others choose at random among their legal actions, from the task's seed.
"""

import struct
import zlib
from importlib import import_module
from typing import Any, Protocol

import msgspec
import numpy as np

from sandlot.core.errors import ConfigError
from sandlot.core.images import Image
from sandlot.core.types import Json, derive_seed
from sandlot.interop.gyms.space_values import to_json

VIEWS = ("numbers", "ansi", "image")
_RENDER = {"ansi": "ansi", "image": "rgb_array"}


class StepResult(msgspec.Struct, frozen=True):
    """What a step gave, besides the observation."""

    reward: float
    terminated: bool
    truncated: bool


class Episode(Protocol):
    """A world between `reset` and its end."""

    @property
    def action_space(self) -> Any:
        """The space of the played agent's actions."""
        ...

    def step(self, action: Any) -> StepResult:
        """Take one step of the played agent."""
        ...

    def show(self) -> list[str | Image]:
        """The current observation."""
        ...

    def close(self) -> None:
        """Close the world."""
        ...


def make_gym(name: str, arguments: Json, render_mode: str | None) -> Any:
    """A new world: `module:function`, or an id of Gymnasium's registry (`module:Id` imports the module)."""
    import gymnasium  # noqa: PLC0415 - an extra

    more = {} if render_mode is None else {"render_mode": render_mode}
    module, mark, attribute = name.partition(":")
    if mark and all(part.isidentifier() for part in attribute.split(".")):
        made: Any = import_module(module)
        for part in attribute.split("."):
            made = getattr(made, part)
        return made(**arguments, **more)
    return gymnasium.make(name, **arguments, **more)


class GymEpisode:
    """An episode of a Gymnasium world."""

    def __init__(self, name: str, arguments: Json, view: str, seed: int) -> None:
        self.env = make_gym(name, arguments, _RENDER.get(view))
        _require_single(self.env, name)
        self.view = view
        self.action_space = self.env.action_space
        self.observation, _ = self.env.reset(seed=seed)

    def step(self, action: Any) -> StepResult:
        """One step."""
        self.observation, reward, terminated, truncated, _ = self.env.step(action)
        return StepResult(float(reward), bool(terminated), bool(truncated))

    def show(self) -> list[str | Image]:
        """The observation as numbers, as the world renders it in text, or as a picture."""
        if self.view == "numbers":
            return [as_text(to_json(self.env.observation_space, self.observation))]
        shown = self.env.render()
        return [str(shown)] if self.view == "ansi" else [Image(to_png(np.asarray(shown)), alt="the world")]

    def close(self) -> None:
        """Close the world."""
        self.env.close()


def _require_single(env: Any, name: str) -> None:
    """`ConfigError` for worlds whose episodes are not one rollout."""
    if hasattr(env, "num_envs") or hasattr(env, "single_action_space"):
        raise ConfigError(f"`{name}` is a vector of worlds; import the single world")
    missing = [each for each in ("reset", "step", "action_space", "observation_space") if not hasattr(env, each)]
    if missing:
        raise ConfigError(f"`{name}` made a {type(env).__name__} without `{missing[0]}`, which is no Gymnasium world")
    layer = env
    while hasattr(layer, "env"):
        if "autoreset" in type(layer).__name__.lower():
            raise ConfigError(f"`{name}` is wrapped in {type(layer).__name__}: one rollout is one episode; leave out the wrapper")
        layer = layer.env


class AecEpisode:
    """One agent's side of an episode of a PettingZoo world."""

    def __init__(self, name: str, arguments: Json, view: str, seed: int, agent: str | None = None) -> None:
        made = import_module(name if name.startswith("pettingzoo.") or "." not in name else f"pettingzoo.{name}")
        self.env = made.env(**arguments, render_mode=_RENDER.get(view))
        self.view = view
        self.env.reset(seed=seed)
        self.agent = agent or self.env.possible_agents[0]
        if self.agent not in self.env.possible_agents:
            raise ConfigError(f"`{name}` has no agent `{self.agent}`; it has {', '.join(self.env.possible_agents)}")
        self.action_space = self.env.action_space(self.agent)
        self._draws = np.random.default_rng(derive_seed("others", name, seed))
        self._earned = 0.0
        if self._play_others() is not None:
            raise ConfigError(f"`{name}` with seed {seed} is over before `{self.agent}` has a turn; choose other seeds")

    def _play_others(self) -> StepResult | None:
        """Let the others move until it is the played agent's turn; the outcome if it is out of the game."""
        for other in self.env.agent_iter():
            observation, reward, terminated, truncated, info = self.env.last()
            if other == self.agent:
                self._earned += float(reward)
                return StepResult(0.0, bool(terminated), bool(truncated)) if terminated or truncated else None
            self.env.step(None if terminated or truncated else self._random_action(other, observation, info))
        return StepResult(0.0, True, False)  # noqa: FBT003 - the whole game is over

    def _random_action(self, agent: str, observation: Any, info: Any) -> Any:
        mask = legal_mask(observation, info)
        if mask is not None:
            return int(self._draws.choice(np.flatnonzero(mask)))
        space = self.env.action_space(agent)
        space.seed(int(self._draws.integers(2**31)))
        return space.sample()

    def step(self, action: Any) -> StepResult:
        """One step, and the others' until it is this agent's turn again. The reward is what it earned since its last turn.

        The first step's has in it what the agent earned before its first turn.
        """
        self.env.step(action)
        ended = self._play_others() or StepResult(0.0, False, False)  # noqa: FBT003 - goes on
        earned, self._earned = self._earned, 0.0
        return StepResult(earned, ended.terminated, ended.truncated)

    def legal(self) -> list[int] | None:
        """The numbers of the legal actions; None if the world does not say."""
        observation = self.env.observe(self.agent)
        mask = legal_mask(observation, self.env.infos.get(self.agent, {}))
        return None if mask is None else np.flatnonzero(mask).tolist()

    def show(self) -> list[str | Image]:
        """The observation, and the legal actions where the world says them."""
        if self.view == "image":
            return [Image(to_png(np.asarray(self.env.render())), alt="the world")]
        if self.view == "ansi":
            return [str(self.env.render())]
        return [as_text(to_json(self.env.observation_space(self.agent), self.env.observe(self.agent)))]

    def close(self) -> None:
        """Close the world."""
        self.env.close()


def legal_mask(observation: Any, info: Any) -> Any:
    """PettingZoo's `action_mask`, in the observation or in the info; None if there is none."""
    for place in (observation, info):
        if isinstance(place, dict) and "action_mask" in place:
            return np.asarray(place["action_mask"])
    return None


def as_text(data: Any) -> str:
    """Plain data as JSON."""
    return msgspec.json.encode(data).decode()


def to_png(pixels: Any) -> bytes:
    """An array of pixels, grey or RGB, as a PNG."""
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[:, :, None], 3, axis=2)
    if pixels.ndim != 3 or pixels.shape[2] not in {3, 4} or pixels.dtype != np.uint8:
        raise ConfigError(f"the world renders {pixels.dtype} of shape {pixels.shape}; a picture is uint8 of height, width, 3")
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(pixels[:, :, :3]))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b"")]
    packed = (struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)
