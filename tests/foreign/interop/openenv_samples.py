"""Run by a Python that has `openenv-core`: environments in OpenEnv's own classes, served by its own server.

python openenv_samples.py NAME PORT
"""

import random
import sys

import uvicorn
from fastmcp import FastMCP
from openenv.core.env_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation, State


class Guess(Action):
    number: int


class Hint(Observation):
    hint: str


class Guessing(Environment):
    """Find the number from 1 to 8 that the seed chose: 0.25 for a step nearer, 1 when it is found."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = State()
        self._number = self._best = 0

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._number, self._best = random.Random(seed).randint(1, 8), 8
        self._state = State(episode_id=episode_id, step_count=0)
        return Hint(hint="from 1 to 8")

    def step(self, action, timeout_s=None, **kwargs):
        self._state.step_count += 1
        if action.number == 99:
            raise RuntimeError("99 breaks it")
        away = abs(action.number - self._number)
        nearer, self._best = away < self._best, min(away, self._best)
        reward = 1.0 if away == 0 else 0.25 if nearer else None
        return Hint(
            hint="found" if away == 0 else "lower" if action.number > self._number else "higher", reward=reward, done=away == 0
        )

    @property
    def state(self):
        return self._state


class Counter(MCPEnvironment):
    """MCP tools: `add` counts, and `finish` gives what was counted, divided by 10."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        mcp = FastMCP("counter")
        self._count = 0
        self._state = State()

        @mcp.tool
        def add(amount: int) -> int:
            """Add to the count."""
            self._count += amount
            return self._count

        @mcp.tool
        def finish() -> str:
            """End the episode."""
            return "over"

        super().__init__(mcp)

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._count = 0
        return Observation(metadata={"status": "count to ten"})

    def _step_impl(self, action, timeout_s=None, **kwargs):
        raise ValueError("only tools")

    async def step_async(self, action, timeout_s=None, **kwargs):
        seen = await super().step_async(action, timeout_s=timeout_s, **kwargs)
        if getattr(action, "tool_name", "") == "finish":
            seen.reward, seen.done = self._count / 10, True
        return seen

    @property
    def state(self):
        return self._state


APPS = {
    "guessing": lambda: create_app(Guessing, Guess, Hint, env_name="guessing", max_concurrent_envs=4),
    "single": lambda: create_app(Guessing, Guess, Hint, env_name="guessing"),
    "counter": lambda: create_app(Counter, CallToolAction, CallToolObservation, env_name="counter", max_concurrent_envs=4),
}

if __name__ == "__main__":
    uvicorn.run(APPS[sys.argv[1]](), port=int(sys.argv[2]), log_level="warning")
