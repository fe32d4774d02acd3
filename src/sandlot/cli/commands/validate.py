"""`sandlot validate`: the report of OpenEnv's RFC 008."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import RUNS, Env, Json, Judge, Runs, Sandbox, app, authors_on_stderr, find_run, print_result

_Level = Annotated[str, typer.Option("--level", help="The last level to check: `static`, `runtime` or `semantic`.")]
_Policy = Annotated[
    Path | None,
    typer.Option("--policy", metavar="FILE", help="JSON: which failed checks count. [default: version 1 of the standard]"),
]
_Models = Annotated[
    list[str] | None,
    typer.Option("--run", metavar="RUN", help="A run of a model here, for the statistical checks; weakest model first."),
]


@app.command("validate")
def _validate(
    env: Env,
    level: _Level = "semantic",
    policy: _Policy = None,
    run: _Models = None,
    operator: Annotated[bool, typer.Option("--operator", help="Add the checks that the standard leaves to operators.")] = False,
    judge: Judge = None,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of tasks to play.")] = 100,
    seed: Annotated[int, typer.Option("--seed", help="Seed of every random choice.")] = 0,
    sandbox: Sandbox = "native",
    output: Annotated[Path | None, typer.Option("--output", metavar="FILE", help="Also write the report here, as JSON.")] = None,
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """Audit an environment, and report it check by check as OpenEnv's RFC 008 has it.

    Every check id has a status (pass, fail, skip, error), what was measured, and what to do. A severity policy makes the verdict.
    Exit code 0 for PASS and WARN, 1 for FAIL, 2 for an environment that the standard does not support.
    """
    from sandlot.audit.standard.validate import validate  # noqa: PLC0415 - help does not need it
    from sandlot.cli.views.audit import Progress  # noqa: PLC0415 - as above
    from sandlot.cli.views.validate import print_report, write_report  # noqa: PLC0415 - as above

    with authors_on_stderr():
        report = validate(
            env, level=level, policy=policy, models=[find_run(name, runs) for name in run or ()], operator=operator, judge=judge,
            limit=limit, seed=seed, sandbox=sandbox, runs=runs, sink=Progress(quiet=json).receive,
        )  # fmt: skip
    if output is not None:
        write_report(report, output)
    print_result(report, print_report, json=json)
    raise typer.Exit(report.verdict.exit_code)
