"""What `serve` opens: a task of an environment, behind MCP."""

import sys
from contextlib import AsyncExitStack
from typing import Literal

from sandlot.env.grading import needs_judge, require_gradable
from sandlot.env.load import load
from sandlot.env.taskset import task_named, tasks_of
from sandlot.errors import ConfigError
from sandlot.serve.graded import GradedTask
from sandlot.serve.mcp import serve_mcp
from sandlot.wiring.models import open_judge
from sandlot.wiring.parts import Grading, ModelConfig, open_backend


async def serve_environment(
    env: str, task: str | None, transport: Literal["stdio", "http"], host: str, port: int, judge: str | None, rubric: str | None
) -> None:
    """Serve until the client leaves or the command is interrupted."""
    environment = load(env)
    chosen = task_named(environment, task) if task else tasks_of(environment)[0]
    require_gradable(environment, [chosen], rubric)
    if needs_judge(environment, [chosen], rubric) and judge is None:
        raise ConfigError(f"task `{chosen.id}` is graded by a judge; name one with `--judge MODEL`")
    async with AsyncExitStack() as stack:
        judging = await stack.enter_async_context(open_judge(ModelConfig(spec=judge))) if judge else None
        backend = await stack.enter_async_context(open_backend()) if environment.image is not None else None
        served = GradedTask(Grading(env=environment, judge=judging, rubric=rubric, backend=backend), chosen)
        await serve_mcp(
            environment.name,
            served.open,
            transport=transport,
            host=host,
            port=port,
            finish_text=served.finish_text,
            ready=lambda address: print(f"{environment.name}/{chosen.id} at {address}", file=sys.stderr),
        )
