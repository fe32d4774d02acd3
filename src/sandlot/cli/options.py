"""Options that several commands share, and how results are printed."""

import difflib
import functools
import inspect
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, Protocol, TypeVar

import msgspec
import typer

from sandlot.cli.completion import complete_environment, complete_model, complete_run
from sandlot.core.errors import ConfigError, StoreError
from sandlot.core.text import printable_json
from sandlot.core.types import Dtype, Split

if TYPE_CHECKING:
    from sandlot.run.config import RunConfig

_Option = typer.Option
_Result = TypeVar("_Result")

app = typer.Typer(
    name="sandlot",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help is instant; drawing it with rich takes half a second
    pretty_exceptions_enable=False,
)
"""The `sandlot` command; each file of `commands/` adds its own command to it."""

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
_ENV = typer.Argument(
    metavar="ENV",
    help="A path to an environment (file or folder), the name of a ready or installed one, or `KIND:SOURCE` (`sandlot import`).",
    autocompletion=complete_environment,
)
Env = Annotated[str, _ENV]
OptionalEnv = Annotated[str | None, _ENV]
Envs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ENV",
        help="Paths to environments (file or folder), or names of ready or installed ones. Several are run at once.",
        autocompletion=complete_environment,
    ),
]
RunPath = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run directory, such as `runs/arithmetic-...-1`, or its name below `runs/`.",
        autocompletion=complete_run,
    ),
]
Runs = Annotated[Path, typer.Option("--runs", help="Folder of run directories.")]
Judge = Annotated[
    str | None,
    typer.Option(
        "--judge", metavar="MODEL", help="The grader model for judge checks: `openai:NAME@URL`, `smollm2`, `hf:FOLDER`."
    ),
]
User = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="MODEL",
        help="The model that plays the environment's user, named as for --model. [default: the author's scripted replies]",
    ),
]
Rubric = Annotated[str | None, typer.Option("--rubric", help="Grade by this rubric instead of the tasks' own.")]

_MODEL = typer.Option(
    "--model",
    "-m",
    help="The model: `smollm2`, `rookie`, `hf:FOLDER`, `openai:NAME@URL`, `vllm:NAME@URL`, `sglang:NAME@URL`, "
    "`scripted:golden|noop|random|mixed:P|...`, `replay:RUN`.",
    autocompletion=complete_model,
)
Model = Annotated[str, _MODEL]
OptionalModel = Annotated[str | None, _MODEL]
Task = Annotated[list[str] | None, typer.Option("--task", help="Only this task; may be repeated.")]
SplitOnly = Annotated[Split | None, typer.Option("--split", help="Only tasks of this split.")]
Sandbox = Annotated[
    str, typer.Option("--sandbox", help="`native`, `docker`, or `docker:SOCKET`; for environments with an image.")
]
NumberType = Annotated[
    Dtype | None,
    typer.Option("--dtype", help="Number type of a model that runs here. [default: as stored, or float32 where that is faster]"),
]
MetricsPlace = Annotated[
    str | None,
    typer.Option("--metrics", metavar="[HOST:]PORT", help="Serve Prometheus metrics at /metrics while it runs."),
]
SpanReceiver = Annotated[
    str | None, typer.Option("--otlp", metavar="URL", help="Send OpenTelemetry spans to this OTLP/HTTP receiver.")
]
WatchFile = Annotated[
    Path | None,
    typer.Option("--watch", metavar="RULES", help="Raise alerts by the rules of this TOML file; exit code 1 if there was one."),
]
Place = Annotated[Path | None, typer.Option("--run", help="The run directory. [default: named by what is run, below --runs]")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of every command that takes rollouts with a model (`run`, `calibrate`); see `add_run_options`."""

    task: Task = None
    split: SplitOnly = None
    image: Annotated[
        str | None, _Option("--image", help="Run in a sandbox of this image, such as `host`, instead of the environment's own.")
    ] = None
    sandbox: Sandbox = "native"
    at_once: Annotated[int, _Option("--at-once", help="Maximum number of rollouts in flight.")] = 64
    adapt: Annotated[
        bool,
        _Option("--adapt", help="Find out how many rollouts in flight the model and the machine can take, up to --at-once."),
    ] = False
    user: User = None
    judge: Judge = None
    rubric: Rubric = None
    seat: Annotated[
        list[str] | None,
        _Option(
            "--seat",
            metavar="NAME=MODEL",
            help="Where several agents act: the model of one seat, `seller=smollm2`; may be repeated. --model plays the others.",
        ),
    ] = None
    temperature: Annotated[float, _Option("--temperature", help="Sampling temperature.")] = 1.0
    max_tokens: Annotated[int | None, _Option("--max-tokens", help="Maximum tokens per turn.")] = None
    max_total_tokens: Annotated[
        int | None, _Option("--max-total-tokens", help="Stop when the agent's model has used this many tokens in the run.")
    ] = None
    max_usd: Annotated[
        float | None, _Option("--max-usd", help="Stop when the agent's model has cost this much; needs --price.")
    ] = None
    price: Annotated[
        str | None, _Option("--price", metavar="IN/OUT", help="USD per million prompt/completion tokens, `0.5/1.5`.")
    ] = None
    calls: Annotated[
        Literal["native", "text"],
        _Option("--calls", help="How the model writes tool calls; `text` for models without a tool API."),
    ] = "native"
    harness: Annotated[
        str | None, _Option("--harness", help="`tool-loop`, or your own as `module:attribute`. [default: tool-loop]")
    ] = None
    agent_command: Annotated[
        str | None,
        _Option("--agent-command", metavar="COMMAND", help="Run this agent in the sandbox; `{prompt}` becomes the task, quoted."),
    ] = None
    hook: Annotated[list[str] | None, _Option("--hook", help="`module:attribute` of a hook; may be repeated.")] = None
    tokenizer: Annotated[
        str | None,
        _Option("--tokenizer", metavar="FOLDER", help="Tokenizer and template of a `sandlot:`, `vllm:` or `sglang:` model."),
    ] = None
    kv_gib: Annotated[float | None, _Option("--kv-gib", help="GiB for the key-value cache of a model that runs here.")] = None
    dtype: NumberType = None
    other_setting: Annotated[
        bool, _Option("--other-setting", help="Measure a trained model in another setting than the one it was trained in.")
    ] = False

    def config(self, env: str, model: str, *, seed: int | None = None, **select: Any) -> "RunConfig":
        """The run that the options describe; `select` is what a command adds to the selection of tasks."""
        from sandlot.core.ports.model import Sampling  # noqa: PLC0415 - help does not need it
        from sandlot.run.config import RunConfig, Selection, seats_config  # noqa: PLC0415 - as above
        from sandlot.wiring.config import AgentConfig, ModelConfig, judge_config, user_config  # noqa: PLC0415 - as above
        from sandlot.wiring.models import parse_prices  # noqa: PLC0415 - as above

        prompt_price, completion_price = parse_prices(self.price)
        seats = parse_seats(self.seat)
        if seats and (self.max_usd is not None or self.max_total_tokens is not None):
            cap = "--max-usd" if self.max_usd is not None else "--max-total-tokens"
            raise ConfigError(f"{cap} counts what --model spends, not the models of --seat; leave one of them out")
        connections = max(self.at_once, 64)
        sampling = Sampling(temperature=self.temperature, max_tokens=self.max_tokens)
        return RunConfig(
            env=env,
            model=ModelConfig(
                spec=model,
                sampling=sampling,
                tokenizer=self.tokenizer,
                kv_gib=self.kv_gib,
                dtype=self.dtype,
                connections=connections,
                max_total_tokens=self.max_total_tokens,
                max_usd=self.max_usd,
                usd_per_million_prompt=prompt_price,
                usd_per_million_completion=completion_price,
            ),
            select=Selection(tasks=tuple(self.task or ()), split=self.split, **select),
            agent=AgentConfig(
                harness=self.harness or ("command" if self.agent_command is not None else "tool-loop"),
                command=self.agent_command,
                calls=self.calls,
                hooks=tuple(self.hook or ()),
            ),
            user=user_config(self.user),
            judge=judge_config(self.judge),
            rubric=self.rubric,
            image=self.image,
            sandbox=self.sandbox,
            at_once=self.at_once,
            adapt=self.adapt or msgspec.UNSET,
            seed=seed,
            other_setting=self.other_setting,
            seats=seats_config(
                {name: ModelConfig(spec=spec, sampling=sampling, connections=connections) for name, spec in seats}
            ),
        )


def add_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `RunOptions`: it receives them as its last parameter, `options`."""
    own = [each for each in inspect.signature(command).parameters.values() if each.name != "options"]
    shared = [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type)
        for each in fields(RunOptions)
    ]

    @functools.wraps(command)
    def call(**given: Any) -> None:
        command(**{each.name: given.pop(each.name) for each in own}, options=RunOptions(**given))

    keyword_only = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
    call.__signature__ = inspect.Signature(keyword_only + shared)  # type: ignore[attr-defined] - typer reads it
    call.__annotations__ = {each.name: each.annotation for each in keyword_only + shared}
    return call


RUNS = Path("runs")
_NEAR = 5
"""Runs that an error names."""


@contextmanager
def authors_on_stderr() -> Generator[None]:
    """Stdout is the result: what author code and its children print meanwhile goes to stderr."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def print_json(value: Any) -> None:
    """One JSON object on one line of stdout; what a terminal would obey is escaped."""
    import msgspec  # noqa: PLC0415 - help does not need it

    sys.stdout.buffer.write(printable_json(msgspec.json.encode(value, order="sorted")) + b"\n")
    sys.stdout.flush()


def print_plain_json(value: Any) -> None:
    """Indented JSON on stdout, with fields in their own order, for people to read and to save as a file."""
    import msgspec  # noqa: PLC0415 - help does not need it

    sys.stdout.buffer.write(printable_json(msgspec.json.format(msgspec.json.encode(value), indent=2)) + b"\n")
    sys.stdout.flush()


def print_result(result: _Result, show: Callable[[_Result], None], *, json: bool) -> None:
    """Print a result: as JSON, or as `show` prints it for a person."""
    if json:
        print_json(result)
    else:
        show(result)


class _Finished(Protocol):
    """The result of a command that takes rollouts."""

    @property
    def machine(self) -> Any:
        """The object that `--json` prints."""
        ...

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        ...

    def show(self) -> None:
        """Print it for a person."""
        ...


def print_finished(work: Callable[[], _Finished], *, json: bool, exit_code: Callable[[int], int] = int) -> NoReturn:
    """Do the work, print its result and exit; if the store fails, say that finished rollouts are kept.

    `exit_code` makes the exit code of the one that the result asks for.
    """
    try:
        finished = work()
    except StoreError as error:
        typer.echo(f"sandlot: {error}; what was finished is kept, and the same command continues", err=True)
        raise typer.Exit(3) from error
    if json:
        print_json(finished.machine)
    else:
        finished.show()
    raise typer.Exit(exit_code(finished.exit_code))


def find_run(what: str, runs: Path = RUNS) -> Path:
    """The run directory a person meant: a path, or a name below `runs/`; the error lists what there is."""
    for path in (Path(what), runs / what):
        if (path / "manifest.json").is_file():
            return path
    found = list(runs.glob("*/manifest.json")) if runs.is_dir() else []
    there = [path.parent.name for path in sorted(found, key=lambda path: (path.stat().st_mtime, path.parent.name), reverse=True)]
    near = _near(Path(what).name, there)
    if near:
        raise ConfigError(f"no run `{what}`; did you mean {', '.join(f'`{runs / name}`' for name in near)}?")
    newest = ", ".join(there[:_NEAR]) + (f" and {len(there) - _NEAR} more (`sandlot list`)" if len(there) > _NEAR else "")
    raise ConfigError(f"no run `{what}`; " + (f"there are, newest first: {newest}" if there else f"`{runs}` holds none yet"))


def _near(name: str, there: list[str]) -> list[str]:
    """The runs whose names contain this one, else those spelled like it."""
    return [each for each in there if name and name in each][:_NEAR] or difflib.get_close_matches(name, there, _NEAR)


def find_trace(what: str, runs: Path = RUNS) -> tuple[Path, str, int]:
    """A trace is `RUN/TASK/ROLLOUT`: the run directory, then the task's id, then the number of the rollout."""
    run, _, rest = what.rstrip("/").rpartition("/")
    run, _, task = run.rpartition("/")
    if not run or not rest.isdigit():
        raise ConfigError(f"`{what}` is not a trace; write RUN/TASK/ROLLOUT, for example `runs/demo-1/add-3/0`")
    return find_run(run, runs), task, int(rest)


def parse_seats(given: list[str] | None) -> list[tuple[str, str]]:
    """Seats and their models as a person writes them, `seller=smollm2`."""
    pairs = [each.partition("=") for each in given or ()]
    for (name, _, spec), text in zip(pairs, given or (), strict=True):
        if not name or not spec:
            raise ConfigError(f"--seat `{text}`: write the seat and its model, such as `seller=smollm2`")
    names = [name for name, _, _ in pairs]
    if len(set(names)) < len(names):
        raise ConfigError(f"--seat names a seat twice: {', '.join(names)}; give one model for each")
    return [(name, spec) for name, _, spec in pairs]


def parse_pair(text: str, what: str) -> tuple[float, float]:
    """Two numbers as a person writes them, `0.2:0.5`."""
    try:
        low, high = (float(piece) for piece in text.split(":"))
    except ValueError as error:
        raise ConfigError(f"--{what} `{text}`: write two numbers with a colon, such as `0.2:0.5`") from error
    return low, high
