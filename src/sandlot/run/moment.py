"""The world of a recorded rollout as it was at a turn: the recorded tool calls are replayed in a fresh sandbox.

Files are as the calls leave them. Of the processes, only those run that setup or the replayed calls start. Results that differ
from the recorded ones are counted.
"""

import functools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sandlot.core.errors import ConfigError
from sandlot.core.ports.sandbox import Sandbox
from sandlot.core.trace import Message, Trace
from sandlot.core.types import Role
from sandlot.env.load import load
from sandlot.env.session import WorldSession, open_session
from sandlot.env.taskset import task_named
from sandlot.model.policy.replay import ReplayUsers
from sandlot.run.results import Run
from sandlot.wiring.parts import open_backend


@dataclass(frozen=True, slots=True)
class Moment:
    """A world at a turn."""

    sandbox: Sandbox
    turn: int
    """Turns that were replayed."""
    num_turns: int
    """Turns of the rollout."""
    num_different: int
    """Results that differ from the recorded ones."""


@asynccontextmanager
async def open_moment(
    path: Path, task: str, rollout: int, turn: int | None = None, env: str | None = None
) -> AsyncGenerator[Moment]:
    """The sandbox of a rollout after its first `turn` turns (None: all), until the block ends."""
    run = Run(path)
    config = run.manifest.config
    environment = load(env or run.manifest.source).in_image(config.image)
    if environment.image is None:
        raise ConfigError(
            f"environment `{environment.name}` has no sandbox to open; `sandlot run ... --image host` gives its rollouts one"
        )
    recorded = run.trace(task, rollout)
    turns = _turns(recorded)
    if turn is not None and not 0 <= turn <= len(turns):
        raise ConfigError(f"rollout {task}/{rollout} has {len(turns)} turns; there is no turn {turn}")
    wanted = turns[:turn]
    named = task_named(environment, task)
    users = ReplayUsers(lambda _task, _rollout: recorded)
    user = functools.partial(users.user, task=named.public(), seed=recorded.seed, rollout=rollout) if config.user else None
    async with (
        open_backend(config.sandbox) as backend,
        open_session(environment, named, backend=backend, user=user) as session,
    ):
        num_different = await _replay(session, wanted)
        assert isinstance(session.world.files, Sandbox)
        yield Moment(session.world.files, len(wanted), len(turns), num_different)


def _turns(trace: Trace) -> list[tuple[Message, Message | None]]:
    """Each assistant message, including those of interventions, and the environment's answer to it."""
    messages = [node.message for node in trace.path()]
    answers = [*messages[1:], None]
    return [pair for pair in zip(messages, answers, strict=True) if pair[0].role is Role.ASSISTANT]


async def _replay(session: WorldSession, turns: list[tuple[Message, Message | None]]) -> int:
    """Act again; returns how many results differ from what was recorded."""
    await session.reset()
    different = 0
    for action, answer in turns:
        if answer is None and not action.calls:
            break  # the last message: there was no answer to it
        step = await session.step(action)
        then = [(result.text, result.error) for result in answer.results] if answer else []
        now = [(result.text, result.error) for message in step.messages for result in message.results]
        different += sum(was != got for was, got in zip(then, now, strict=False)) + abs(len(then) - len(now))
        if step.end is not None:
            break
    return different
