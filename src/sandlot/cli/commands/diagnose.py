"""`sandlot diagnose`: a few telling rollouts of an environment, and what looks mis-specified in them."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import (
    RUNS,
    Env,
    Json,
    Judge,
    OptionalModel,
    Runs,
    Sandbox,
    User,
    app,
    authors_on_stderr,
    print_result,
)


@app.command("diagnose")
def _diagnose(
    env: Env,
    model: OptionalModel = None,
    tasks: Annotated[int, typer.Option("--tasks", min=1, help="Tasks to play, spread over all of them.")] = 8,
    user: User = None,
    judge: Judge = None,
    sandbox: Sandbox = "native",
    seed: Annotated[int, typer.Option("--seed", help="Seed of sampling.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The page to send. [default: diagnosis.html in the run directory]"),
    ] = None,
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """Play a few tasks with known players, and say what looks mis-specified.

    The golden solution must get full marks, and players that do nothing must get none. Also reported: checks that no rollout or
    every rollout met, checks that always agree, limits that were hit, tools that are never used or always fail, tasks on which
    all score the same, and prompts that name a tool that does not exist; each with rollouts that show it and a command that makes
    it happen again. Writes a page to send, and terminal recordings, to the run directory. With --model, the model plays too, and
    has a page of its own. It proves less than `sandlot audit`. Exit code 1 if something is wrong, else 3 if a run was stopped.
    """
    from sandlot.audit.diagnose import diagnose  # noqa: PLC0415 - help does not need it
    from sandlot.cli.views.diagnose import print_diagnosis, write_pages  # noqa: PLC0415 - as above

    with authors_on_stderr():
        found = diagnose(env, model, tasks=tasks, judge=judge, user=user, sandbox=sandbox, seed=seed, runs=runs)
    pages = write_pages(found, out)
    print_result(found, lambda found: print_diagnosis(found, pages), json=json)
    raise typer.Exit(found.exit_code)
