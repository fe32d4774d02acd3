"""`sandlot watch`: a run or training in the terminal, live or after."""

from typing import Annotated

import typer

from sandlot.cli.options import RUNS, Json, RunPath, Runs, app, find_run


@app.command("watch")
def _watch(
    run: RunPath,
    runs: Runs = RUNS,
    once: Annotated[bool, typer.Option("--once", help="Print one picture, and do not wait for the end.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="With --json: a line at each refresh, until the run ends.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.1, metavar="SECONDS", help="Time between two pictures.")] = 1.0,
    json: Json = False,
) -> None:
    """Watch a run or a training in the terminal until it ends, or until Ctrl-C, which leaves the run alone.

    Shows its rate and the time left, what is in flight and for how long, failures by side, the score so far, the slowest tools,
    how late the event loop is, and what finished last; of a training also its last steps, held-out scores and alarms. If stdout
    is not a terminal, a line is printed now and then, and the whole picture at the end. Exit code 0 if the run is complete, 1 if
    it was stopped as bad or something failed (of a training: an alarm), 3 if it is incomplete or still going on.
    """
    from sandlot.analysis.picture import RunViewer  # noqa: PLC0415 - help does not need it
    from sandlot.cli.views.watch import print_picture, watch_run, watch_run_json  # noqa: PLC0415 - as above

    if follow and (once or not json):
        raise typer.BadParameter("`--follow` prints JSON lines: give it with `--json`, and without `--once`")
    viewer = RunViewer(find_run(run, runs))
    if json:
        last = watch_run_json(viewer, every, follow=follow)
    elif once:
        last = viewer.look()
        print_picture(last)
    else:
        last = watch_run(viewer, every)
    raise typer.Exit(last.exit_code)
