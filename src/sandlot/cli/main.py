"""`sandlot`: verbs, quiet, scriptable.

stdout is the result, stderr is progress; exit 0 fine, 1 findings or failures, 2 wrong use, 3 incomplete. Nothing is possible here
that is not one call in Python. Commands import what they need when they are called: `sandlot --help` must not wait for numpy.
"""

import sys

import typer

from sandlot.cli import compare, doctor, gc, logs, new, play, regrade, replay, rubric, run, serve, show
from sandlot.errors import SandlotError

app = typer.Typer(
    name="sandlot",
    help="Reinforcement-learning environments for language-model agents: write one, run it, grade it, look at why.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
for module in (doctor, new, show, play, run, compare, regrade, replay, rubric, serve, gc):
    module.add_to(app)


def main() -> None:
    """Run one command; the user's mistakes are a sentence, not a traceback."""
    logs.to_stderr()
    try:
        app()
    except SandlotError as error:
        print(f"sandlot: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output has gone, as in `sandlot show RUN --json | head`; that is its right.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # a place that was named cannot be read or written
        print(f"sandlot: {error}", file=sys.stderr)
        sys.exit(2)
