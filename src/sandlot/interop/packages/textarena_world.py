# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""TextArena's games for one player: `look` shows what the game said, `act` makes a move.

Every game runs in a child process of its own. TextArena draws from Python's global random numbers, so games in one process would
change each other; and some games compute without end after some moves: their process is killed, and the rollout fails on the
environment's side. The game's reward is recorded when it is over.
"""

import multiprocessing
import os
import random
import signal
import threading
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Any

import anyio
import anyio.to_thread
import numpy as np

from sandlot.core.concurrency import author
from sandlot.core.errors import AuthorError, ConfigError, ToolError, boundary
from sandlot.core.ports.grading import Evidence
from sandlot.core.ports.world import Tool, ToolSpec, World
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.core.types import Json
from sandlot.interop.packages.requirement import require_package
from sandlot.tools.arguments import checked_arguments, clean

INVALID = -1.0
"""The reward of a game that ended with an invalid move."""
_MOVE_S = 20.0
"""Maximum time for the start of a game, and for a move."""


class TextGame:
    """One game in a child process. `AuthorError` if it raises, ends or takes too long."""

    def __init__(self) -> None:
        self.seen = ""
        self.reward: float | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._child: ForkProcess | None = None
        fork = multiprocessing.get_context("fork")
        self._pipe, self._theirs = fork.Pipe()

    def start(self, name: str, seed: int) -> None:
        """Begin the game. A rollout that was cancelled meanwhile has closed it: then there is none."""
        with self._lock:
            if self._closed:
                raise AuthorError("the game was closed before it began")
            fork = multiprocessing.get_context("fork")
            self._child = fork.Process(target=_serve, args=(name, seed, self._theirs), daemon=True)
            self._child.start()
            self._theirs.close()
        self._receive("start")

    def act(self, move: str) -> None:
        """Make a move."""
        self._pipe.send(move)
        self._receive("move")

    def _receive(self, what: str) -> None:
        try:
            if not self._pipe.poll(_MOVE_S):
                self.close()
                raise AuthorError(f"the game's {what} did not end within {_MOVE_S:g} s", kind="timeout")
            self.seen, self.reward, failed = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise AuthorError(f"the game's process ended during its {what}") from error
        if failed:
            raise AuthorError(f"the game's {what}: {failed}")

    def close(self) -> None:
        """End the game, also one that is about to begin."""
        with self._lock:
            self._closed = True
        if self._child is not None:
            self._child.kill()
            self._child.join()
        self._theirs.close()
        self._pipe.close()


@contextmanager
def started_game(name: str, seed: int) -> Generator[TextGame]:
    """A game that has begun, closed at the end."""
    game = TextGame()
    try:
        game.start(name, seed)
        yield game
    finally:
        game.close()


def _serve(name: str, seed: int, pipe: Connection) -> None:
    """The child: play one game, answer each move with what the game says, its reward, and what failed."""
    for each in (signal.SIGTERM, signal.SIGINT):  # those of the parent would keep it alive
        signal.signal(each, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a game prints is no result of ours
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - the game draws from the global numbers
    try:
        env = _begin(name, seed)
        pipe.send((_read(env), None, ""))
        while True:
            done, _ = env.step(pipe.recv())
            pipe.send((*_finished(env, _read(env)), "") if done else (_read(env), None, ""))
    except EOFError:
        pass
    except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises is the answer
        pipe.send(("", None, f"{type(error).__name__}: {error}"[:300]))
    os._exit(0)


def _begin(name: str, seed: int) -> Any:
    import textarena  # noqa: PLC0415 - imported where it is used

    env = textarena.make(name)
    env.reset(num_players=1, seed=seed)
    if not isinstance(env.state, textarena.SinglePlayerState):
        raise ConfigError(f"`{name}` is a game for several players")
    return env


def _read(env: Any) -> str:
    _, said = env.get_observation()
    return "\n".join(str(each[1]) for each in said)


def _finished(env: Any, seen: str) -> tuple[str, float]:
    rewards, facts = env.close()
    if type(rewards[0]) not in {int, float}:
        raise TypeError(f"it gave the reward {rewards[0]!r}, which is no number")
    return "\n".join(part for part in (seen, str(facts[0].get("reason") or ""), "The game is over.") if part), float(rewards[0])


@dataclass(frozen=True, slots=True)
class TextArenaWorld:
    """The game of the task (a source of tools)."""

    requires: str

    def open(self, world: World) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Begin the game with the task's seed."""
        require_package(self.requires, "textarena")
        return _opened(world)


@asynccontextmanager
async def _opened(world: World) -> AsyncGenerator[Sequence[Tool]]:
    data = world.task.data
    game = TextGame()
    try:
        with boundary(AuthorError, f"starting the game `{data['game']}`"):
            await author.call(game.start, data["game"], data["seed"])
        world.state.update({"moves": 0, "reward": None})
        yield [_GameTool(game, "look", "Show what the game said last."), _GameTool(game, "act", "Make a move in the game.")]
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(game.close)


@dataclass(frozen=True, slots=True)
class _GameTool:
    game: TextGame
    name: str
    description: str
    concurrent: bool = False

    @property
    def spec(self) -> ToolSpec:
        """`act` takes the move as text."""
        properties: Json = {"move": {"type": "string"}} if self.name == "act" else {}
        schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
        return ToolSpec(name=self.name, description=self.description, parameters=schema)

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """Make the move, if it is one, and show what the game says."""
        try:
            move = self._move(checked_arguments(call))
        except ToolError as error:
            return ToolResult(call=call.id, text=str(error), error=True)
        if move is not None:
            with boundary(AuthorError, "the game's move"):
                await author.call(self.game.act, move)
            world.state["moves"] += 1
            world.state["reward"] = self.game.reward
        return ToolResult(call=call.id, text=clean(self.game.seen))

    def _move(self, arguments: Json) -> str | None:
        if self.name == "look":
            return None
        move = arguments.get("move")
        if not isinstance(move, str):
            raise ToolError("give `move` as text")
        if self.game.reward is not None:
            raise ToolError("the game is over; say that you are done")
        return move


def score_of_game(evidence: Evidence) -> tuple[float, str]:
    """The reward from 0 to 1; 0 for a game that is not over, or ended with an invalid move. Any other reward raises."""
    reward = evidence.state["reward"]
    if reward is None:
        return 0.0, "the game is not over"
    if reward == INVALID:
        return 0.0, "the game ended with an invalid move, reward -1"
    if not 0.0 <= reward <= 1.0:
        raise ValueError(f"the game's reward is {reward:g}, which is neither from 0 to 1 nor -1")
    return float(reward), f"reward {reward:g} after {evidence.state['moves']} moves"
