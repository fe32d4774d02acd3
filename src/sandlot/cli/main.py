"""`sandlot`: verbs, quiet, scriptable.

stdout is the result, stderr is progress; exit 0 fine, 1 findings or failures, 2 wrong use, 3 incomplete. Nothing is possible here
that is not one call in Python. Commands import what they need when they are called: `sandlot --help` must not wait for numpy.
"""

import importlib.metadata
import sys
from typing import Annotated

import typer

from sandlot.cli import logs
from sandlot.cli.commands import (
    audit,
    calibrate,
    compare,
    doctor,
    export,
    gc,
    health,
    images,
    judge,
    list,  # noqa: A004 - the command's name
    new,
    play,
    regrade,
    replay,
    rubric,
    run,
    serve,
    shell,
    show,
    simulator,
    tokens,
    train,
    triage,
)
from sandlot.core.errors import SandlotError

app = typer.Typer(
    name="sandlot",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help is instant; drawing it with rich takes half a second
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    """Print the version and exit, if that was asked."""
    if wanted:
        print(importlib.metadata.version("sandlot"))
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Reinforcement-learning environments for language-model agents: write, run, audit, train.

    New here? `sandlot doctor`, then `sandlot new NAME`, then follow what it prints. `sandlot COMMAND --help` explains each.
    """


_COMMANDS = (
    doctor, new, list, show, play, run, compare, regrade, replay, shell, audit, health, triage, tokens, calibrate, judge,
    simulator, train, rubric, serve, export, images, gc,
)  # fmt: skip
for module in _COMMANDS:
    module.add_to(app)


def main() -> None:
    """Run one command; the user's mistakes are a sentence, not a traceback."""
    logs.send_to_stderr()
    try:
        app(prog_name="sandlot")
    except SandlotError as error:
        print(f"sandlot: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has gone, as in `sandlot show RUN --json | head`; that is its right.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # a place that was named cannot be read or written
        print(f"sandlot: {error}", file=sys.stderr)
        sys.exit(2)
