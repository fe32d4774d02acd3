"""`sandlot serve`: an environment for MCP clients, or a model for OpenAI clients."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sandlot.cli.options import Judge, NumberType, OptionalEnv, Rubric, app
from sandlot.core.access import SERVE_VARIABLE, token_of
from sandlot.core.errors import ConfigError
from sandlot.model.engine.blocks import KvDtype
from sandlot.model.engine.eviction import EvictionName
from sandlot.model.engine.siblings import Speculate

_Option = typer.Option
_OpenEnv = Annotated[
    bool, _Option("--openenv", help="Serve it to OpenEnv clients (reset, step, state), one rollout per connection and reset.")
]
_Model = Annotated[
    str | None, _Option("--model", "-m", help="Serve a model instead (OpenAI API): `smollm2`, `rookie`, `hf:FOLDER`.")
]
_AllowHost = Annotated[
    list[str] | None, _Option("--allow-host", metavar="NAME", help="Another host name that clients may use; may be repeated.")
]
_Token = Annotated[
    str | None,
    _Option("--token", help=f"What clients must send; needed beyond this machine. [default: ${SERVE_VARIABLE}]"),
]
_Evict = Annotated[
    EvictionName | None,
    _Option("--evict", help="What a full key-value cache drops first: `turns`, `cost` or `lru`. [default: turns]"),
]
_KvDtype = Annotated[
    KvDtype | None,
    _Option(
        "--kv-dtype",
        help="How keys and values are stored: `same` as computed, or `int8` or `fp8`, in about half the memory, which changes "
        "log-probabilities. [default: same]",
    ),
]
_Speculate = Annotated[
    Speculate | None,
    _Option(
        "--speculate",
        help="Guess tokens from what `siblings` have written, or `off`. The output is the same up to rounding; not bit-equal "
        "from run to run. [default: off]",
    ),
]
_MaxBatch = Annotated[
    int | None, _Option("--max-batch", help="Maximum requests a model runs at once; others wait. [default: 32]")
]
_KvEvents = Annotated[
    bool | None,
    _Option(
        "--kv-events/--no-kv-events",
        help="Let clients read the token ids of all prompts in a model's cache, to route requests. [default: only with --unix]",
    ),
]
_Adapter = Annotated[
    list[str] | None,
    _Option(
        "--adapter",
        metavar="NAME=FOLDER",
        help="A LoRA adapter (PEFT's format) of the model; requests name it as `model`. May be repeated.",
    ),
]
_AdaptersFrom = Annotated[
    Path | None,
    _Option("--adapters-from", metavar="FOLDER", help="Let clients load and remove adapters below FOLDER, by vLLM's routes."),
]
_MaxAdapters = Annotated[
    int | None,
    _Option("--max-adapters", help="Maximum adapters in memory, with old versions that requests still use. [default: 8]"),
]
_MaxAdapterRank = Annotated[int | None, _Option("--max-adapter-rank", help="Maximum rank of an adapter. [default: 64]")]


_Feedback = Annotated[
    Literal["none", "score", "tags", "checks"] | None,
    _Option(
        "--feedback",
        help="What an MCP client learns of its result: `none`, `score`, `tags` (points of each) or `checks`, every check with "
        "its verdict, for authors. [default: score]",
    ),
]


_OF_ENVIRONMENTS = ("env", "mcp", "openenv", "task", "judge", "rubric", "feedback")
_OF_MODELS = (
    "unix", "kv_gib", "kv_dtype", "evict", "speculate", "dtype", "max_batch", "until_eof", "kv_events", "adapter",
    "adapters_from", "max_adapters", "max_adapter_rank",
)  # fmt: skip


def _options(given: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The options of these names as they are written; a flag that was not given is None."""
    written = {name: "ENV" if name == "env" else f"--{name.replace('_', '-')}" for name in names}
    return {written[name]: None if given[name] is False else given[name] for name in names}


@app.command("serve")
def _serve(
    env: OptionalEnv = None,
    mcp: Annotated[bool, _Option("--mcp", help="Serve its tools to MCP clients, one isolated world per connection.")] = False,
    openenv: _OpenEnv = False,
    model: _Model = None,
    task: Annotated[str | None, _Option("--task", help="Which task. [default: the first]")] = None,
    transport: Annotated[Literal["stdio", "http"], _Option("--transport", help="How MCP clients connect.")] = "stdio",
    host: Annotated[str, _Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, _Option("--port", help="Port to listen on; 0 takes any free one.")] = 8900,
    allow_host: _AllowHost = None,
    token: _Token = None,
    unix: Annotated[Path | None, _Option("--unix", metavar="PATH", help="Serve a model at a unix socket instead.")] = None,
    kv_gib: Annotated[float | None, _Option("--kv-gib", help="GiB for the model's key-value cache. [default: 1]")] = None,
    kv_dtype: _KvDtype = None,
    evict: _Evict = None,
    speculate: _Speculate = None,
    dtype: NumberType = None,
    max_batch: _MaxBatch = None,
    adapter: _Adapter = None,
    adapters_from: _AdaptersFrom = None,
    max_adapters: _MaxAdapters = None,
    max_adapter_rank: _MaxAdapterRank = None,
    drain_s: Annotated[float, _Option("--drain-s", help="Seconds that running requests may take after SIGTERM.")] = 30.0,
    until_eof: Annotated[bool, _Option("--until-eof", help="Also stop when standard input ends.")] = False,
    kv_events: _KvEvents = None,
    judge: Judge = None,
    rubric: Rubric = None,
    feedback: _Feedback = None,
) -> None:
    """Serve an environment (MCP, OpenEnv) or a model (OpenAI API).

    Each MCP connection plays one rollout of a task, which is graded when the client calls the finish tool. An OpenEnv client gets
    the reward with its last step; its rollouts are stored in `runs/openenv-ENV`. A model is served
    until SIGTERM or Ctrl-C; then running requests have `--drain-s` seconds to finish.

    An address that other machines can reach needs a token, which clients send as `Authorization: Bearer TOKEN`.
    """
    given = dict(locals())
    hosts = tuple(allow_host or ())
    if model is not None:
        _require_unset(_options(given, _OF_ENVIRONMENTS), "a model")
        place = {"host": host, "port": port, "unix": unix, "allow_hosts": hosts, "drain_s": drain_s, "until_eof": until_eof}
        place |= {"kv_events": kv_events, "token": token}
        share = {"kv_gib": kv_gib, "kv_dtype": kv_dtype, "eviction": evict, "max_batch": max_batch, "speculate": speculate}
        share |= {"dtype": dtype, "adapters": tuple(map(_adapter_of, adapter or ())), "adapters_from": adapters_from}
        return _serve_model(model, place, share | {"max_adapters": max_adapters, "max_adapter_rank": max_adapter_rank})
    _require_unset(_options(given, _OF_MODELS), "an environment")
    if env is None or mcp is openenv:
        raise ConfigError("give what to serve: `sandlot serve ENV --mcp` or `--openenv`, or `sandlot serve --model MODEL`")
    if mcp and transport == "stdio":
        _require_unset({"--token": token}, "an environment over stdio")
    where = {"host": host, "port": port, "allow_hosts": hosts, "token": token_of(SERVE_VARIABLE) if token is None else token}
    if openenv:
        _require_unset({"--rubric": rubric, "--feedback": feedback}, "an environment for OpenEnv")
        return _serve_openenv(env, {**where, "task": task, "judge": judge})
    where |= {"transport": transport, "judge": judge, "rubric": rubric, "feedback": feedback or "score"}
    return _serve_mcp(env, task, where)


def _serve_model(model: str, place: Mapping[str, Any], share: Mapping[str, Any]) -> None:
    """Serve a model; options of its share that are not given have their defaults."""
    from sandlot.core.concurrency.blocking import run_interruptible  # noqa: PLC0415 - help does not need it
    from sandlot.serve.model.serve import ModelPlace, ModelShare, serve_model  # noqa: PLC0415 - as above

    if place["unix"] is not None:
        _require_unset({"--token": place["token"]}, "a model at a unix socket")
    if place["token"] is None:
        place = {**place, "token": token_of(SERVE_VARIABLE)}
    given = ModelShare(**{name: value for name, value in share.items() if value is not None})
    if not place["until_eof"]:  # a program that started this server waits for the line on stdout
        typer.echo(f"loading {model} ...", err=True)
    run_interruptible(functools.partial(serve_model, model, ModelPlace(**place), given, ready=typer.echo))


def _adapter_of(given: str) -> tuple[str, Path]:
    name, mark, folder = given.partition("=")
    if not (name and mark and folder):
        raise ConfigError(f"--adapter {given}: write `--adapter NAME=FOLDER`")
    return name, Path(folder).expanduser()


def _serve_mcp(env: str, task: str | None, options: Mapping[str, Any]) -> None:
    from sandlot.core.concurrency.blocking import run_interruptible  # noqa: PLC0415 - help does not need it
    from sandlot.serve.environment.serve import serve_environment  # noqa: PLC0415 - as above

    tell = functools.partial(typer.echo, err=True)
    run_interruptible(functools.partial(serve_environment, env, task, ready=tell, **options))


def _serve_openenv(env: str, place: Mapping[str, Any]) -> None:
    from sandlot.core.concurrency.blocking import run_interruptible  # noqa: PLC0415 - help does not need it
    from sandlot.interop.openenv.server import OpenEnvPlace, serve_openenv  # noqa: PLC0415 - as above

    tell = functools.partial(typer.echo, err=True)
    run_interruptible(functools.partial(serve_openenv, env, OpenEnvPlace(**place), ready=tell))


def _require_unset(options: Mapping[str, object], served: str) -> None:
    """Refuse options that are for the other thing that can be served."""
    for option, value in options.items():
        if value is not None:
            raise ConfigError(f"`{option}` cannot be used when {served} is served; leave it out")
