"""One rollout that is graded and stored nowhere: a task played by any policies, or a trace replayed.

A replay takes the recorded turns in a fresh world, and then another model from that turn on, if one is named. A simulated user
repeats its recorded messages, unless another model continues: they would not answer what that model says, so the user's model is
run again from the first turn.
"""

from contextlib import AsyncExitStack, nullcontext
from pathlib import Path

from sandlot.core.ports.session import Policies
from sandlot.core.trace import Trace
from sandlot.env.environment import Environment
from sandlot.env.load import load
from sandlot.env.taskset import task_named, tasks_of
from sandlot.env.user import require_user
from sandlot.model.policy.replay import ReplayUsers, replay_policies
from sandlot.rollout import run_rollout
from sandlot.run.results import Run
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.config import AgentConfig, ModelConfig, judge_config, user_config
from sandlot.wiring.models import open_policies, open_users
from sandlot.wiring.parts import RolloutParts, open_grading, open_harness, open_parts


async def play_task(
    env: str | Path | Environment,
    policies: Policies,
    task: str | None = None,
    *,
    user: str | None = None,
    judge: str | None = None,
) -> Trace:
    """Let `policies` play a task, by default the first; `user` and `judge` are models, as for `sandlot play`."""
    environment, player = load(env), user_config(user)
    chosen = task_named(environment, task) if task else tasks_of(environment)[0]
    require_user(environment, named=player is not None)
    async with (
        open_grading(environment, judge=judge_config(judge)) as grading,
        open_parts(grading, AgentConfig(), nullcontext(policies), player) as parts,
    ):
        return await run_rollout(parts, chosen, run="play", rollout=0, blobs=MemoryBlobs())


async def replay_trace(
    path: Path,
    task: str,
    rollout: int,
    until: int | None = None,
    model: str | None = None,
    env: str | None = None,
    judge: str | None = None,
) -> Trace:
    """The trace of the replay; its events say where a tool's result differs from the recorded one."""
    run = Run(path)
    environment = load(env or run.manifest.source).in_image(run.manifest.config.image)
    agent = run.manifest.config.agent
    recorded = run.trace(task, rollout)
    async with AsyncExitStack() as stack:
        then = await stack.enter_async_context(open_policies(ModelConfig(spec=model), agent, environment)) if model else None
        asked = run.manifest.config
        users = ReplayUsers(lambda _task, _rollout: recorded) if asked.user else None
        if asked.user and then is not None:
            users = await stack.enter_async_context(open_users(asked.user, environment))
        opening = open_grading(environment, judge=judge_config(judge), rubric=asked.rubric, sandbox=asked.sandbox)
        parts = RolloutParts(
            grading=await stack.enter_async_context(opening),
            policies=replay_policies(lambda _task, _rollout: recorded, until=until, then=then),
            harness=open_harness(agent),
            users=users,
        )
        return await run_rollout(parts, task_named(environment, task), run=recorded.run, rollout=rollout, blobs=MemoryBlobs())
