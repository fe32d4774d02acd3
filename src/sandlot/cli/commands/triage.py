"""`sandlot triage`: group the failures of a run by cause, and label rollouts."""

import getpass
from typing import Annotated, Literal

import typer

from sandlot.cli.options import RUNS, Json, RunPath, Runs, app, find_run, print_json, print_result


@app.command("triage")
def _triage(
    run: RunPath,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="TASK/ROLLOUT=LABEL", help="Store your label of a rollout; may be repeated."),
    ] = None,
    by: Annotated[str | None, typer.Option("--by", help="Name of the person who labels. [default: your user name]")] = None,
    note: Annotated[str, typer.Option("--note", help="The reason, in your words.")] = "",
    review: Annotated[bool, typer.Option("--review", help="Show proposed rollouts one by one and ask for labels.")] = False,
    export: Annotated[Literal["labels"] | None, typer.Option("--export", help="Print every label as JSON Lines.")] = None,
    traces: Annotated[int, typer.Option("--traces", min=1, help="Maximum traces to read.")] = 3000,
    seed: Annotated[int, typer.Option("--seed", help="Seed for the random choices.")] = 0,
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """Group the failures of a run by cause, and label them.

    Prints clusters of failures and suspicious successes, how passing rollouts of the same tasks differ, and which rollouts a
    person should read. Labels are stored with the run. Exit code 1 if the environment caused failures, 3 if there are no
    rollouts.
    """
    from sandlot.analysis.triage.labels import label_rollouts  # noqa: PLC0415 - help does not need it
    from sandlot.analysis.triage.triage import triage  # noqa: PLC0415 - as above
    from sandlot.cli.views import review as reviewing  # noqa: PLC0415 - as above
    from sandlot.cli.views import triage as triaging  # noqa: PLC0415 - as above
    from sandlot.run.results import Run  # noqa: PLC0415 - as above

    looked_at = Run(find_run(run, runs))
    if export is not None:
        raise typer.Exit(triaging.export_labels(looked_at))
    if label:
        stored = label_rollouts(looked_at, label, by=by or getpass.getuser(), note=note)
        reviewing.print_labels(stored)
        if json:
            print_json(stored)
        return
    found = triage(looked_at, traces=traces, seed=seed)
    if review:
        reviewing.review(looked_at, found.proposed, by=by or getpass.getuser())
        return
    print_result(found, triaging.print_triage, json=json)
    raise typer.Exit(found.exit_code)
