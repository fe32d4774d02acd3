"""Options that several commands share, and how results are printed."""

import difflib
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sandlot.cli.completion import complete_environment, complete_model, complete_run
from sandlot.core.errors import ConfigError
from sandlot.core.text import printable_json
from sandlot.core.types import Dtype, Split

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
_ENV = typer.Argument(
    metavar="ENV",
    help="A path to an environment (file or folder), or the name of an installed one.",
    autocompletion=complete_environment,
)
Env = Annotated[str, _ENV]
OptionalEnv = Annotated[str | None, _ENV]
RunPath = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run directory, such as `runs/arithmetic-...-1`, or its name below `runs/`.",
        autocompletion=complete_run,
    ),
]
Runs = Annotated[Path, typer.Option("--runs", help="Where runs are kept.")]
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
    help="`smollm2`, `rookie`, `hf:FOLDER`, `openai:NAME@URL`, `vllm:NAME@URL`, `sglang:NAME@URL`, "
    "`scripted:golden|noop|random|mixed:P|...`, `replay:RUN`.",
    autocompletion=complete_model,
)
Model = Annotated[str, _MODEL]
OptionalModel = Annotated[str | None, _MODEL]
Task = Annotated[list[str] | None, typer.Option("--task", help="Only this task; may be repeated.")]
SplitOnly = Annotated[Split | None, typer.Option("--split", help="Only tasks of this split.")]
Image = Annotated[
    str | None,
    typer.Option("--image", help="Run in a sandbox of this image, such as `host`, instead of the environment's own."),
]
Sandbox = Annotated[
    str, typer.Option("--sandbox", help="`native`, `docker`, or `docker:SOCKET`; for environments with an image.")
]
AtOnce = Annotated[int, typer.Option("--at-once", help="Rollouts in flight.")]
Temperature = Annotated[float, typer.Option("--temperature", help="Sampling temperature.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", help="Maximum tokens per turn.")]
MaxTotalTokens = Annotated[
    int | None, typer.Option("--max-total-tokens", help="Stop when the run's agent has used this many tokens.")
]
Harness = Annotated[
    str | None, typer.Option("--harness", help="`tool-loop`, or your own as `module:attribute`. [default: tool-loop]")
]
AgentCommand = Annotated[
    str | None,
    typer.Option(
        "--agent-command", metavar="COMMAND", help="Run this agent in the sandbox; `{prompt}` becomes the task, quoted."
    ),
]
Tokenizer = Annotated[
    str | None, typer.Option("--tokenizer", metavar="FOLDER", help="Tokenizer and template of a `vllm:` or `sglang:` model.")
]
KvGib = Annotated[float | None, typer.Option("--kv-gib", help="Memory for keys and values of a model served here.")]
NumberType = Annotated[
    Dtype | None,
    typer.Option("--dtype", help="Number type of a model served here. [default: as stored, or float32 where that is faster]"),
]
OtherSetting = Annotated[
    bool,
    typer.Option("--other-setting", help="Measure a trained model in another setting than the one it was trained in."),
]
Place = Annotated[Path | None, typer.Option("--run", help="The run directory. [default: found by what is run, below --runs]")]


class CallsAre(StrEnum):
    """How tool calls are written."""

    NATIVE = "native"
    TEXT = "text"


Calls = Annotated[CallsAre, typer.Option("--calls", help="How the model writes tool calls.")]

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


def run_path(what: str, runs: Path = RUNS) -> Path:
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


def trace_place(what: str, runs: Path = RUNS) -> tuple[Path, str, int]:
    """A trace is `RUN/TASK/ROLLOUT`: the run directory, then the task's id, then the number of the rollout."""
    run, _, rest = what.rstrip("/").rpartition("/")
    run, _, task = run.rpartition("/")
    if not run or not rest.isdigit():
        raise ConfigError(f"`{what}` is not a trace; write RUN/TASK/ROLLOUT, for example `runs/demo-1/add-3/0`")
    return run_path(run, runs), task, int(rest)


def pair(text: str, what: str) -> tuple[float, float]:
    """Two numbers as a person writes them, `0.2:0.5`."""
    try:
        low, high = (float(piece) for piece in text.split(":"))
    except ValueError as error:
        raise ConfigError(f"--{what} `{text}`: write two numbers with a colon, such as `0.2:0.5`") from error
    return low, high
