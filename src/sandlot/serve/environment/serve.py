"""Serve one task of an environment to MCP clients. This is what `sandlot serve ENV --mcp` calls."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from sandlot.core.access import SERVE_TOKEN, require_token
from sandlot.core.address import Address
from sandlot.core.errors import ConfigError
from sandlot.env.environment import Environment
from sandlot.env.grading import needs_judge, require_gradable
from sandlot.env.load import load
from sandlot.env.taskset import task_named, tasks_of
from sandlot.serve.environment.graded import Feedback, GradedTask
from sandlot.serve.environment.mcp import serve_mcp
from sandlot.wiring.config import judge_config
from sandlot.wiring.models import require_seeing_judge
from sandlot.wiring.parts import open_grading


async def serve_environment(  # noqa: PLR0913 - where and how, all by keyword
    env: str | Path | Environment,
    task: str | None = None,
    *,
    transport: Literal["stdio", "http"] = "stdio",
    host: str = "127.0.0.1",
    port: int = 8900,
    allow_hosts: tuple[str, ...] = (),
    token: str | None = None,
    judge: str | None = None,
    rubric: str | None = None,
    feedback: Feedback = "score",
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve a task until the client disconnects (stdio) or the call is cancelled; `ready` is called with the address.

    Over HTTP clients must send the token, if there is one; an address beyond this machine needs it.
    `feedback`: what a client learns of its result; `checks` names every check, so it is for authors.
    """
    if transport == "http":
        require_token(Address(host, port), token, SERVE_TOKEN)
    environment = load(env)
    chosen = task_named(environment, task) if task else tasks_of(environment)[0]
    require_gradable(environment, [chosen], rubric)
    if needs_judge(environment, [chosen], rubric) and judge is None:
        raise ConfigError(f"task `{chosen.id}` is graded by a judge; name one with `--judge MODEL`")
    require_seeing_judge(judge_config(judge), environment, [chosen], rubric)
    async with open_grading(environment, judge=judge_config(judge), rubric=rubric) as grading:
        served = GradedTask(grading, chosen, feedback=feedback)
        await serve_mcp(
            environment.name,
            served.open,
            transport=transport,
            host=host,
            port=port,
            allow_hosts=allow_hosts,
            token=token,
            finish_text=served.finish_text,
            ready=lambda address: ready(f"{environment.name}/{chosen.id} at {address}"),
        )
