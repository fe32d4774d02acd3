"""`sandlot compare`: two runs, paired by task."""

from typing import Annotated

import typer

from sandlot.cli.options import RUNS, Json, RunPath, Runs, app, find_run, print_result


@app.command("compare")
def _compare(
    before: RunPath,
    after: RunPath,
    runs: Runs = RUNS,
    despite: Annotated[bool, typer.Option("--despite-setting", help="Compare although the settings differ.")] = False,
    json: Json = False,
) -> None:
    """Compare two runs of the same tasks.

    Prints the difference in score with its interval, and the tasks that got better or worse. Refuses to compare runs with
    different settings (tools, limits or harness), unless `--despite-setting`.
    """
    from sandlot.cli.views.compare import print_comparison  # noqa: PLC0415 - help does not need it
    from sandlot.run.results import Run  # noqa: PLC0415 - as above

    comparison = Run(find_run(before, runs)).compare(Run(find_run(after, runs)), despite_setting=despite)
    print_result(comparison, print_comparison, json=json)
