# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""A Gymnasium or PettingZoo world that a language model plays with two tools: `look` and `step`.

The world runs in Sandlot's process, out of the agent's reach: the agent has no shell, and its only way in are actions that are
checked against the action space. The task's seed resets it. `world.state` holds what checks need: every reward, the return, and
how the episode ended. One episode is one rollout; after its end `step` is refused.

The score is the return on a scale that the author declares: which return is 0, and which is full marks. A return outside that
scale fails the check instead of being clipped: then the scale is wrong, and there is no reward.
"""

import math
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import msgspec

from sandlot.core.concurrency import author
from sandlot.core.errors import AuthorError, ConfigError, ToolError, boundary
from sandlot.core.ports.grading import Evidence
from sandlot.core.ports.world import Tool, ToolSpec, World
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.core.types import Json
from sandlot.interop.packages.requirement import require_package
from sandlot.tools.arguments import checked_arguments
from sandlot.tools.function import DECLARE_IMAGES, pictured_result

if TYPE_CHECKING:
    from sandlot.interop.gyms.episode import Episode, StepResult

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class GymWorld:
    """A Gymnasium world as a source of tools (`SOURCES` in `world.py`, or `env.use`).

    - `env`: an id of Gymnasium's registry, or `module:function`.
    - `requires`: the package and version it was imported with.
    - `arguments`: passed when it is made.
    - `view`: `numbers` shows observations as JSON, `ansi` as the world renders them in text, `image` as pictures.
    - `steps`: steps an episode may have, besides the world's own limit.
    """

    env: str
    requires: str = "gymnasium"
    arguments: Json = field(default_factory=dict[str, Any])
    view: str = "numbers"
    steps: int = 200

    def open(self, world: World) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Make the world and reset it with the task's seed."""
        require_package(self.requires, "gymnasium")
        from sandlot.interop.gyms.episode import GymEpisode  # noqa: PLC0415 - an extra

        return _opened(world, lambda seed: GymEpisode(self.env, self.arguments, self.view, seed), self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class PettingZooWorld:
    """One agent's side of a PettingZoo world as a source of tools; the others choose legal actions at random, from the seed.

    - `env`: its module, such as `classic.connect_four_v3`.
    - `agent`: the agent that is played. Default: the first.
    - `requires`, `arguments`, `view` and `steps` are those of `GymWorld`.
    """

    env: str
    agent: str | None = None
    requires: str = "pettingzoo"
    arguments: Json = field(default_factory=dict[str, Any])
    view: str = "numbers"
    steps: int = 200

    def open(self, world: World) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Make the world, reset it with the task's seed, and let the others move first where it is their turn."""
        require_package(self.requires, "pettingzoo")
        from sandlot.interop.gyms.episode import AecEpisode  # noqa: PLC0415 - an extra

        return _opened(world, lambda seed: AecEpisode(self.env, self.arguments, self.view, seed, self.agent), self.steps)


@asynccontextmanager
async def _opened(world: World, begin: Callable[[int], "Episode"], steps: int) -> AsyncGenerator[Sequence[Tool]]:
    with boundary(AuthorError, "making the world"):
        episode = await author.call(begin, int(world.task.data["seed"]))
    world.state.update({"return": 0.0, "rewards": [], "terminated": False, "truncated": False, "steps": steps})
    try:
        yield [_LookTool(episode), _StepTool(episode, steps)]
    finally:
        with anyio.CancelScope(shield=True):  # a cancelled rollout leaves nothing open
            await anyio.to_thread.run_sync(episode.close)


@dataclass(frozen=True, slots=True)
class _LookTool:
    """Shows the current observation."""

    episode: "Episode"
    concurrent: bool = False

    @property
    def spec(self) -> ToolSpec:
        """No arguments."""
        return ToolSpec(
            name="look",
            description="Show the current observation. It takes no step.",
            parameters={"type": "object", "properties": {}, "additionalProperties": False},
        )

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """The observation."""
        return await _shown(world, call, self.episode, [])


@dataclass(frozen=True, slots=True)
class _StepTool:
    """Takes one step."""

    episode: "Episode"
    steps: int
    concurrent: bool = False

    @property
    def spec(self) -> ToolSpec:
        """The arguments are the action space's: its keys if it is a `Dict`, else `action`."""
        from sandlot.interop.gyms.space_values import schema_of  # noqa: PLC0415 - an extra

        schema = schema_of(self.episode.action_space)
        if schema["type"] != "object":
            schema = {"type": "object", "properties": {"action": schema}, "required": ["action"], "additionalProperties": False}
        words = f"Take one step with an action of {self.episode.action_space}, and show what came of it."
        return ToolSpec(name="step", description=words, parameters=schema)

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """Check the action, take the step, and record what came of it."""
        from sandlot.interop.gyms.space_values import from_json  # noqa: PLC0415 - an extra

        state = world.state
        try:
            self._require_going_on(state)
            arguments = checked_arguments(call)
            whole = self.spec.parameters["properties"].keys() == {"action"} and "action" in arguments
            action = from_json(self.episode.action_space, arguments["action"] if whole else arguments)
            _require_legal(self.episode, arguments)
        except ToolError as error:
            return ToolResult(call=call.id, text=str(error), error=True)
        with boundary(AuthorError, "the world's step"):
            result: StepResult = await author.call(self.episode.step, action)
        if not math.isfinite(result.reward):
            raise AuthorError(f"the world gave the reward {result.reward}, which is no finite number")
        state["rewards"].append(result.reward)
        state["return"] = math.fsum(state["rewards"])
        state["terminated"], state["truncated"] = result.terminated, result.truncated
        return await _shown(world, call, self.episode, [_status(result)])

    def _require_going_on(self, state: Json) -> None:
        if state["terminated"] or state["truncated"]:
            raise ToolError("the world has ended; say that you are done")
        if len(state["rewards"]) >= self.steps:
            raise ToolError(f"all {self.steps} steps are used; say that you are done")


def _require_legal(episode: "Episode", arguments: Json) -> None:
    """PettingZoo ends the game at an illegal move, or raises; a model may try again."""
    legal = episode.legal() if hasattr(episode, "legal") else None  # pyright: ignore[reportAttributeAccessIssue] - an AecEpisode
    if legal is not None and arguments.get("action") not in legal:
        raise ToolError(f"action {arguments.get('action')!r} is not legal now; legal actions: {legal}")


def _status(result: "StepResult") -> str:
    ended = " The world has ended: " + ("terminated." if result.terminated else "truncated.")
    return f"Reward {result.reward:g}.{ended if result.terminated or result.truncated else ''}"


async def _shown(world: World, call: ToolCall, episode: "Episode", after: list[str]) -> ToolResult:
    with boundary(AuthorError, "showing the world"):
        values = [*after, *(await author.call(episode.show))]
    try:
        return await pictured_result(world, call, values)
    except LookupError:
        raise AuthorError(f"the view `image` shows pictures; {DECLARE_IMAGES}") from None


def score_of_return(evidence: Evidence, low: float, high: float) -> tuple[float, str]:
    """The return on the declared scale, `low` is 0 and `high` is 1. One outside it raises: nothing but rounding is clipped.

    An episode that the agent left before its end scores 0: where every step costs something, standing still would be best.
    """
    state = evidence.state
    if not (state["terminated"] or state["truncated"] or len(state["rewards"]) >= state["steps"]):
        return 0.0, f"stopped after {len(state['rewards'])} steps, before the world ended"
    earned = float(state["return"])
    rounding = _ROUNDING * max(abs(low), abs(high))  # a return is a sum, and so is what people compute its limits by
    if not low - rounding <= earned <= high + rounding:
        raise ValueError(f"the return {earned!r} is outside the declared {low:g}..{high:g}; correct LOW and HIGH")
    earned = min(max(earned, low), high)
    return (earned - low) / (high - low), f"return {earned:g} on the scale {low:g}..{high:g}"


async def play_policy(agent: Any, policy: str, source: GymWorld) -> None:
    """Let a classic policy play through the tools: `policy` is `module:function`, from a new world to observation -> action."""
    from importlib import import_module  # noqa: PLC0415 - only solutions need it

    from sandlot.interop.gyms.episode import make_gym  # noqa: PLC0415 - an extra
    from sandlot.interop.gyms.space_values import from_json, to_json  # noqa: PLC0415 - an extra

    if source.view != "numbers":
        raise ConfigError(f"the view is `{source.view}`; a classic policy reads numbers: `view=numbers`")
    module, _, name = policy.partition(":")
    env = make_gym(source.env, source.arguments, None)
    act = getattr(import_module(module), name)(env)
    text = await agent.call("look")
    while agent.last_error is None and "The world has ended" not in text:
        seen = from_json(env.observation_space, msgspec.json.decode(text.rsplit("\n", 1)[-1]))
        action = to_json(env.action_space, act(seen))
        text = await agent.call("step", **(action if isinstance(action, dict) else {"action": action}))
    env.close()
    await agent.say("done")
