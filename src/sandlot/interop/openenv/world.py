"""An environment of OpenEnv as a world of ours: `look` shows its last observation, and its actions are tools.

A server with MCP tools offers those. Any other has one kind of action, which is the tool `act`. Every reward is recorded.
"""

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from sandlot.checks.json_values import schema_fault
from sandlot.core.crashes import REFUSED
from sandlot.core.errors import AuthorError, ToolError
from sandlot.core.ports.grading import Evidence
from sandlot.core.ports.world import Tool, ToolSpec, World
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.core.types import Json
from sandlot.interop.gyms.source import ScoreRange
from sandlot.interop.openenv.client import NoServerError, OpenEnvClient, OpenEnvStep, open_session
from sandlot.interop.openenv.servers import OwnServer, RunningServer
from sandlot.tools.arguments import checked_arguments, clean

ACT = "act"
LOOK = "look"
_HIDDEN = frozenset({"reward", "done"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEnvWorld:
    """The episode of the task (a source of tools)."""

    server: RunningServer | OwnServer
    tools: Path
    """The file with its MCP tools, or with `act` alone."""
    steps: int = 100
    """Maximum steps of an episode that does not end before."""

    def open(self, world: World) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Begin an episode with the task's seed."""
        return self._opened(world)

    @asynccontextmanager
    async def _opened(self, world: World) -> AsyncGenerator[Sequence[Tool]]:
        tools = msgspec.json.decode(self.tools.read_bytes(), type=list[ToolSpec])
        seed = world.task.data["seed"]
        async with AsyncExitStack() as stack:
            try:
                client, begun = await stack.enter_async_context(open_session(await self.server.address(), seed))
            except NoServerError:  # ours may have been about to end when it was asked: it is started again now
                client, begun = await stack.enter_async_context(open_session(await self.server.address(), seed))
            episode = _Episode(client, begun)
            world.state.update({"steps": 0, "limit": self.steps, "refused": 0, "rewards": [], "done": begun.done})
            look = ToolSpec(name=LOOK, description="Show the last observation.", parameters=_schema({}))
            yield [_OpenEnvTool(episode, spec) for spec in (look, *tools)]


@dataclass(slots=True)
class _Episode:
    client: OpenEnvClient
    last: OpenEnvStep = field(default_factory=lambda: OpenEnvStep({}))


def _schema(properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class _OpenEnvTool:
    episode: _Episode
    spec: ToolSpec
    concurrent: bool = False

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """Take the action, if it is one, and show what the environment answers."""
        try:
            arguments = checked_arguments(call)
            if self.spec.name != LOOK:
                await self._act(world, arguments)
        except ToolError as error:
            return ToolResult(call=call.id, text=str(error), error=True)
        return ToolResult(call=call.id, text=clean(shown(self.episode.last)))

    async def _act(self, world: World, arguments: Json) -> None:
        if world.state["done"]:
            raise ToolError("the episode is over; say that you are done")
        if world.state["steps"] >= world.state["limit"]:
            raise ToolError(f"all {world.state['limit']} steps are used; say that you are done")
        called = {"type": "call_tool", "tool_name": self.spec.name, "arguments": arguments}
        try:
            self.episode.last = await self.episode.client.step(arguments if self.spec.name == ACT else called)
        except ToolError as error:
            self._blame(world, arguments, error)
            raise
        world.state["steps"] += 1
        world.state["rewards"] = [*world.state["rewards"], self.episode.last.reward]
        world.state["done"] = self.episode.last.done

    def _blame(self, world: World, arguments: Json, error: ToolError) -> None:
        """`AuthorError` if the server refused an action that fits its own schema. One that cannot be checked is counted."""
        try:
            fault = schema_fault(arguments, _rules_of(self.spec.parameters), "$", 0)
        except Exception:  # noqa: BLE001 - the server wrote the schema: it may have any shape
            world.state["refused"] += 1
            return
        if fault is None:
            raise AuthorError(f"the OpenEnv server refused an action that fits its schema: {error}", kind=REFUSED) from error


def _rules_of(schema: Json) -> Json:
    """A schema without the words that say nothing about values."""
    rules: Json = {word: rule for word, rule in schema.items() if word not in {"title", "description", "default", "examples"}}
    if "properties" in rules:
        rules["properties"] = {name: _rules_of(inner) for name, inner in rules["properties"].items()}
    if "items" in rules:
        rules["items"] = _rules_of(rules["items"])
    if "anyOf" in rules:
        rules["anyOf"] = [_rules_of(inner) for inner in rules["anyOf"]]
    return rules


def shown(step: OpenEnvStep) -> str:
    """An observation as the agent sees it."""
    seen = {name: value for name, value in step.observation.items() if name not in _HIDDEN}
    text = msgspec.json.format(msgspec.json.encode(seen), indent=1).decode()
    reward = "" if step.reward is None else f"\nreward: {step.reward:g}"
    return f"{text}{reward}{chr(10) + 'The episode is over.' if step.done else ''}"


def score_of_episode(evidence: Evidence, low: float, high: float, *, last: bool) -> tuple[float, str]:
    """The rewards of the steps, summed or the last one, as a share of full marks. No reward at all after an action raises.

    An episode that the agent left before its end scores 0: where every step costs something, doing nothing would be best.
    """
    state = evidence.state
    if state["refused"] and not state["steps"]:
        raise ValueError(f"the server refused all {state['refused']} actions, and its schema cannot be checked")
    rewards = [reward for reward in state["rewards"] if reward is not None]
    if state["steps"] and not rewards:
        raise ValueError(f"the environment gave no reward in {state['steps']} steps")
    if not state["done"] and state["steps"] < state["limit"]:
        return 0.0, f"stopped after {state['steps']} steps, before the episode ended"
    value = (rewards[-1] if last else math.fsum(rewards)) if rewards else 0.0
    if not low <= value <= high:
        raise ValueError(f"the rewards are {value:g}, which is not from {low:g} to {high:g}; import it with `?score=LOW..HIGH`")
    said = f"{'last reward' if last else 'sum of rewards'} {value:g} after {state['steps']} steps"
    return ScoreRange(low, high).share(value), said
