"""`sandlot show`: an environment, a run, a task of it, or one trace."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.completion import complete_what
from sandlot.cli.options import RUNS, Json, Runs, app, find_run, find_trace
from sandlot.core.errors import ConfigError


@app.command("show")
def _show(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="An environment, a run, RUN/TASK (all rollouts of a task), or RUN/TASK/ROLLOUT (one trace).",
            autocompletion=complete_what,
        ),
    ],
    runs: Runs = RUNS,
    every: Annotated[bool, typer.Option("--all", help="Print every task, not only the first.")] = False,
    traces: Annotated[bool, typer.Option("--traces", help="Print the traces of a run or task as JSON Lines.")] = False,
    json: Json = False,
) -> None:
    """Show an environment, a run, a task of a run, or a trace.

    WHAT is a run if it is a directory with a manifest.json, or the name of one below `runs/`. Anything else that is not below a
    run is an environment. `--json` prints the summary of a run, `--traces` its traces.
    """
    from sandlot.cli.views import show as showing  # noqa: PLC0415 - help does not need it
    from sandlot.cli.views import show_run as showing_runs  # noqa: PLC0415 - as above

    path = Path(what)
    if _is_run(what, runs):
        place = find_run(what, runs)
        showing_runs.print_traces(place) if traces else showing_runs.show_run(place, json=json, every=every)
    elif _is_run(str(path.parent.parent), runs):
        showing.show_trace(*find_trace(what, runs), json=json or traces)
    elif len(path.parts) > 1 and _is_run(str(path.parent), runs):
        place = find_run(str(path.parent), runs)
        showing_runs.print_traces(place, path.name) if traces else showing_runs.show_task(place, path.name, json=json)
    elif path.parts[:1] == runs.parts[:1] and not path.exists():  # it can only have been meant as a run
        find_run(str(Path(*path.parts[:2])), runs)
        find_trace(what, runs)
    elif traces:
        raise ConfigError(f"--traces is for a run, and `{what}` is none; `sandlot list` shows the runs")
    elif path.is_dir() and path.resolve().parent == runs.resolve():
        raise ConfigError(f"`{what}` is not a run: it has no manifest.json; `sandlot list` shows the runs")
    else:
        showing.show_environment(what, json=json, every=every)


def _is_run(what: str, runs: Path) -> bool:
    return any((path / "manifest.json").is_file() for path in (Path(what), runs / what))
