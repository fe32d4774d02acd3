"""What `serve` opens: a task of an environment, behind MCP."""

import sys
from typing import Literal

from sandlot.core.errors import ConfigError
from sandlot.env.grading import needs_judge, require_gradable
from sandlot.env.load import load
from sandlot.env.taskset import task_named, tasks_of
from sandlot.serve.environment.graded import GradedTask
from sandlot.serve.environment.mcp import serve_mcp
from sandlot.wiring.config import judge_config
from sandlot.wiring.parts import open_grading


async def serve_environment(
    env: str,
    task: str | None,
    transport: Literal["stdio", "http"],
    host: str,
    port: int,
    allow_hosts: tuple[str, ...],
    judge: str | None,
    rubric: str | None,
) -> None:
    """Serve until the client leaves or the command is interrupted."""
    environment = load(env)
    chosen = task_named(environment, task) if task else tasks_of(environment)[0]
    require_gradable(environment, [chosen], rubric)
    if needs_judge(environment, [chosen], rubric) and judge is None:
        raise ConfigError(f"task `{chosen.id}` is graded by a judge; name one with `--judge MODEL`")
    async with open_grading(environment, judge=judge_config(judge), rubric=rubric) as grading:
        served = GradedTask(grading, chosen)
        await serve_mcp(
            environment.name,
            served.open,
            transport=transport,
            host=host,
            port=port,
            allow_hosts=allow_hosts,
            finish_text=served.finish_text,
            ready=lambda address: print(f"{environment.name}/{chosen.id} at {address}", file=sys.stderr),
        )
