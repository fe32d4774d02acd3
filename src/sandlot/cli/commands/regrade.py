"""`sandlot regrade`: grade stored evidence again."""

from typing import Annotated

import typer

from sandlot.cli.options import RUNS, Json, Judge, Rubric, RunPath, Runs, app, authors_on_stderr, find_run, print_result


@app.command("regrade")
def _regrade(
    run: RunPath,
    env: Annotated[str | None, typer.Option("--env", help="The environment. [default: where the run found it]")] = None,
    judge: Judge = None,
    rubric: Rubric = None,
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """Grade a run again from its stored evidence.

    Shows what changed, and writes nothing. Exit code 1 if any outcome differs.
    """
    from sandlot.cli.views.compare import print_report  # noqa: PLC0415 - help does not need it
    from sandlot.core.concurrency.blocking import run_interruptible  # noqa: PLC0415 - as above
    from sandlot.run.regrade import regrade_run  # noqa: PLC0415 - as above

    with authors_on_stderr():
        report = run_interruptible(regrade_run, find_run(run, runs), env, judge, rubric)
    print_result(report, print_report, json=json)
    raise typer.Exit(1 if report.changed else 0)
