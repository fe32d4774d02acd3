"""One rollout that is graded and stored nowhere, with any policies: a person at a keyboard, a script, an agent of your own."""

from contextlib import nullcontext
from pathlib import Path

from sandlot.core.ports.session import Policies
from sandlot.core.trace import Trace
from sandlot.env.environment import Environment
from sandlot.env.load import load
from sandlot.env.taskset import task_named, tasks_of
from sandlot.env.user import require_user
from sandlot.rollout import run_rollout
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.config import AgentConfig, judge_config, user_config
from sandlot.wiring.parts import open_grading, open_parts


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
