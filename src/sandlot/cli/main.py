"""The `sandlot` command.

Results go to stdout, progress to stderr; exit code 0 fine, 1 findings or failures, 2 wrong use, 3 incomplete. A command parses
its options, makes one call that Python users can make too, and prints the result. Each imports what it needs when it is called,
so that `sandlot --help` is fast.
"""

import importlib.metadata
import os
import signal
import sys
from typing import Annotated

import typer

from sandlot.cli import logs
from sandlot.cli.commands import (
    audit,
    calibrate,
    compare,
    control,
    data,
    diagnose,
    doctor,
    export,
    gc,
    health,
    images,
    importing,
    judge,
    list,  # noqa: A004 - the command's name
    new,
    pack,
    play,
    record,
    regrade,
    replay,
    rubric,
    run,
    serve,
    shell,
    show,
    simulate,
    simulator,
    stream,
    task,
    tokens,
    train,
    triage,
    validate,
    view,
    watch,
    worker,
)
from sandlot.cli.options import app
from sandlot.core.concurrency.blocking import Terminated, handle_sigterm
from sandlot.core.errors import SandlotError


def _print_version(wanted: bool) -> None:
    """Print the version and exit, if `--version` was given."""
    if wanted:
        print(importlib.metadata.version("sandlot"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Reinforcement-learning environments for language-model agents: write, run, audit, train.

    New here? Run `sandlot doctor`, then `sandlot new NAME`, and follow what it prints.

    Results go to stdout, progress to stderr. Exit codes: 0 fine, 1 findings or failures, 2 wrong use, 3 incomplete.
    """


_ORDER = (
    doctor, new, task, importing, data, list, show, view, watch, stream, play, run, worker, control, compare, regrade, replay,
    shell, record, diagnose, audit, validate, health, triage, tokens, calibrate, judge, simulator, train, simulate, rubric, serve,
    export, pack, images, gc,
)  # fmt: skip
_NAMES = [name for module in _ORDER for name in getattr(module, "NAMES", (module.__name__.rpartition(".")[2],))]
app.registered_commands.sort(key=lambda command: _NAMES.index(command.name or ""))  # as they are listed here


def _is_terminated(error: BaseException | None) -> bool:
    """True if an exception came from SIGTERM: `typer` makes an exit code of it."""
    return error is not None and (isinstance(error, Terminated) or _is_terminated(error.__cause__ or error.__context__))


def _end_by_sigterm() -> None:
    """End as a program without a handler would, so that whoever sent the signal sees it: everything is closed now."""
    sys.stdout.flush()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Run one command. A user's mistake is printed as one sentence, without a traceback."""
    logs.send_to_stderr()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a script starts `command &` so, and a stopped audit would run on
        signal.signal(signal.SIGINT, signal.default_int_handler)
    handle_sigterm()
    try:
        app(prog_name="sandlot")
    except SystemExit as error:
        if _is_terminated(error):
            _end_by_sigterm()
        raise
    except SandlotError as error:
        print(f"sandlot: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has closed it, as in `sandlot show RUN --json | head`.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # a path that was given cannot be read or written
        print(f"sandlot: {error}", file=sys.stderr)
        sys.exit(2)
