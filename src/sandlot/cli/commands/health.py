"""`sandlot health`: check a run for signs of a broken environment."""

from typing import Annotated

import typer

from sandlot.cli.options import RUNS, Json, Judge, RunPath, Runs, app, authors_on_stderr, find_run, print_json


@app.command("health")
def _health(
    run: RunPath,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="RUN", help="Look for drift against this run instead of between the two halves."),
    ] = None,
    regrades: Annotated[int, typer.Option("--regrades", min=0, help="Rollouts to grade again from their evidence.")] = 32,
    replays: Annotated[int, typer.Option("--replays", min=0, help="Rollouts to replay in fresh worlds.")] = 8,
    traces: Annotated[int, typer.Option("--traces", min=0, help="Traces to read when looking for drift.")] = 600,
    env: Annotated[str | None, typer.Option("--env", help="The environment. [default: where the run found it]")] = None,
    judge: Judge = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed for the random choices.")] = 0,
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """Check a run for signs of a broken environment.

    Looks at failures by side, latency, time-outs scored as 0, survivor bias, ties between rewards, drift, and rewards that rise
    without the outcome. Grades and replays a few rollouts again, which must give the same result. Exit code 1 if a check fails,
    3 if rollouts are missing or too few.
    """
    from sandlot.analysis.health.health import health  # noqa: PLC0415 - help does not need it
    from sandlot.cli.views.health import as_json, print_health  # noqa: PLC0415 - as above

    place, other = find_run(run, runs), find_run(against, runs) if against else None
    with authors_on_stderr():
        found = health(place, against=other, traces=traces, regrades=regrades, replays=replays, env=env, judge=judge, seed=seed)
    if json:
        print_json(as_json(found))
    else:
        print_health(found)
    raise typer.Exit(found.exit_code)
