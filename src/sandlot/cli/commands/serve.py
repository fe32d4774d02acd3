"""`sandlot serve`: offer an environment or a model to others."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import Judge, NumberType, Rubric

_Option = typer.Option


class _Transport(StrEnum):
    """How clients connect."""

    STDIO = "stdio"
    HTTP = "http"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(_serve)


def _serve(
    env: Annotated[
        str | None, typer.Argument(metavar="ENV", help="A path to an environment (file or folder), or an installed one's name.")
    ] = None,
    mcp: Annotated[bool, _Option("--mcp", help="Offer its tools to any MCP client, one isolated world per connection.")] = False,
    model: Annotated[
        str | None, _Option("--model", "-m", help="Offer a model instead: `smollm2`, `rookie`, `hf:FOLDER`; OpenAI-compatible.")
    ] = None,
    task: Annotated[str | None, _Option("--task", help="Which task. [default: the first]")] = None,
    transport: Annotated[_Transport, _Option("--transport", help="For `--mcp`.")] = _Transport.STDIO,
    host: Annotated[str, _Option("--host")] = "127.0.0.1",
    port: Annotated[int, _Option("--port", help="0 takes any free one.")] = 8900,
    allow_host: Annotated[
        list[str] | None, _Option("--allow-host", metavar="NAME", help="A further host name that clients may use; repeatable.")
    ] = None,
    unix: Annotated[Path | None, _Option("--unix", metavar="PATH", help="Serve a model at a unix socket instead.")] = None,
    kv_gib: Annotated[float | None, _Option("--kv-gib", help="Memory for a model's keys and values. [default: 1]")] = None,
    dtype: NumberType = None,
    max_batch: Annotated[
        int | None, _Option("--max-batch", help="A model's requests that run at once; further ones wait. [default: 32]")
    ] = None,
    drain_s: Annotated[float, _Option("--drain-s", help="What running requests may take after SIGTERM.")] = 30.0,
    until_eof: Annotated[bool, _Option("--until-eof", help="End when standard input does.")] = False,
    judge: Judge = None,
    rubric: Rubric = None,
) -> None:
    """Offer an environment to any MCP client, or a model to any OpenAI client.

    Each MCP connection plays one rollout of a task, and is graded when it says it is finished. A model is served until SIGTERM or
    Ctrl-C: then no new request is taken, and running ones have `--drain-s` to finish.
    """
    import anyio  # noqa: PLC0415 - help does not need it

    from sandlot.core.errors import ConfigError  # noqa: PLC0415 - as above

    if env is not None and model is not None:
        raise ConfigError("an environment and a model are served by two commands: leave one out")
    of_environments = {"--mcp": mcp or None, "--task": task, "--judge": judge, "--rubric": rubric}
    of_models = {"--unix": unix, "--kv-gib": kv_gib, "--max-batch": max_batch, "--until-eof": until_eof or None}
    of_models |= {"--dtype": dtype}
    for option, value in (of_environments if model is not None else of_models).items():
        if value is not None:
            raise ConfigError(f"{option} means nothing where {'a model' if model is not None else 'an environment'} is served")
    if model is not None:
        from sandlot.cli.views.serve_model import ModelPlace, ModelShare, serve_model  # noqa: PLC0415 - as above

        place = ModelPlace(
            host=host, port=port, unix=unix, allow_hosts=tuple(allow_host or ()), drain_s=drain_s, until_eof=until_eof
        )
        share = ModelShare(
            kv_gib=1.0 if kv_gib is None else kv_gib,
            max_batch=32 if max_batch is None else max_batch,
            dtype=dtype,
        )
        anyio.run(serve_model, model, place, share)
        return
    from sandlot.cli.views.serve import serve_environment  # noqa: PLC0415 - as above

    if env is None:
        raise ConfigError("say what to serve: an environment, `sandlot serve ENV --mcp`, or `--model MODEL`")
    if not mcp:
        raise ConfigError("say what to serve it as: `--mcp`")
    anyio.run(serve_environment, env, task, transport.value, host, port, tuple(allow_host or ()), judge, rubric)
