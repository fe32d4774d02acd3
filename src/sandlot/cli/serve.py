"""`sandlot serve`: offer an environment to others."""

from enum import StrEnum
from typing import Annotated

import typer

from sandlot.cli.options import Env, Judge, Rubric


class Transport(StrEnum):
    """How clients connect."""

    STDIO = "stdio"
    HTTP = "http"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(serve)


def serve(
    env: Env,
    mcp: Annotated[
        bool, typer.Option("--mcp", help="Offer its tools to any MCP client, one isolated world per connection.")
    ] = False,
    task: Annotated[str | None, typer.Option("--task", help="Which task. [default: the first]")] = None,
    transport: Annotated[Transport, typer.Option("--transport")] = Transport.STDIO,
    host: Annotated[str, typer.Option("--host")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="0 takes any free one.")] = 8900,
    judge: Judge = None,
    rubric: Rubric = None,
) -> None:
    """Offer an environment to any MCP client.

    Each connection plays one rollout of a task, and is graded when it says it is finished.
    """
    import anyio  # noqa: PLC0415 - help does not need it

    from sandlot.cli.serving import serve_environment  # noqa: PLC0415 - as above
    from sandlot.errors import ConfigError  # noqa: PLC0415 - as above

    if not mcp:
        raise ConfigError("say what to serve it as: `--mcp`")
    anyio.run(serve_environment, env, task, transport.value, host, port, judge, rubric)
