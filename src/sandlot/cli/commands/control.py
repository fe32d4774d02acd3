"""`sandlot ps`, `pause`, `resume`, `set`, `stop` and `requeue`: look at runs that are going on, and steer them."""

from typing import TYPE_CHECKING, Annotated

import typer

from sandlot.cli.options import RUNS, Json, RunPath, Runs, app, find_run, print_json, print_result

if TYPE_CHECKING:
    from sandlot.run.control import Deed, RunStatus

NAMES = ("ps", "pause", "resume", "set", "stop", "requeue", "approve")
"""The commands of this file, in the order in which help lists them."""


@app.command("ps")
def _ps(runs: Runs = RUNS, json: Json = False) -> None:
    """List the runs, calibrations and trainings that are going on.

    Shows those below --runs that were started by this user on this machine.
    """
    from sandlot.cli.views.control import print_statuses  # noqa: PLC0415 - help does not need it
    from sandlot.run.control import running_runs  # noqa: PLC0415 - as above

    found = running_runs(runs)
    if json:
        print_json(found)
    elif found:
        print_statuses(found)
    else:
        typer.echo(f"nothing is running in `{runs}`", err=True)


@app.command("pause")
def _pause(run: RunPath, runs: Runs = RUNS, json: Json = False) -> None:
    """Pause a run: rollouts in flight finish, and no other starts."""
    _tell(run, runs, "pause", json=json)


@app.command("resume")
def _resume(run: RunPath, runs: Runs = RUNS, json: Json = False) -> None:
    """Resume a paused run."""
    _tell(run, runs, "resume", json=json)


@app.command("set")
def _set(
    run: RunPath,
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="Maximum number of rollouts in flight.")],
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """Change how many rollouts of a run may be in flight.

    If there are more now, no other starts until enough have ended.
    """
    _tell(run, runs, "set", at_once=at_once, json=json)


@app.command("stop")
def _stop(run: RunPath, runs: Runs = RUNS, json: Json = False) -> None:
    """Stop a run, as Ctrl-C does: finished rollouts are kept, and repeating its command continues it."""
    _tell(run, runs, "stop", json=json)


@app.command("requeue")
def _requeue(run: RunPath, runs: Runs = RUNS, json: Json = False) -> None:
    """Take the failed rollouts of a run again.

    A run that is going on takes them again when the others are done. Of one that has ended they are set aside, and repeating its
    command takes them again.
    """
    from sandlot.core.errors import ConfigError  # noqa: PLC0415 - help does not need it
    from sandlot.run.control import requeue_ended  # noqa: PLC0415 - as above

    try:
        _tell(run, runs, "requeue", json=json)
    except ConfigError as error:
        if error.kind != "not running":
            raise
        path = find_run(run, runs)
        count = requeue_ended(path)
        if json:
            print_json({"run": path.name, "state": "ended", "set_aside": count})
        elif count:
            typer.echo(
                f"{count:,} failed rollouts of `{path}` are set aside; repeat its command (`sandlot run ...`) to take them again"
            )
        else:
            typer.echo(f"no rollout of `{path}` failed; nothing to take again")


@app.command("approve")
def _approve(
    run: RunPath,
    held: Annotated[str | None, typer.Argument(metavar="[ID]", help="The turn to answer. [default: list them]")] = None,
    refuse: Annotated[bool, typer.Option("--refuse", help="Take the safe action that the environment declares.")] = False,
    calls: Annotated[
        str | None,
        typer.Option("--calls", metavar="JSON", help='Make these calls instead: `[{"name": "pay", "arguments": {"usd": 5}}]`.'),
    ] = None,
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """Answer turns that wait for a person, in a run with `--approve`.

    Without an ID, lists them. A turn that is not answered in time takes the safe action that the environment declares.
    """
    from sandlot.cli.views.control import print_held  # noqa: PLC0415 - help does not need it
    from sandlot.run.control import RunOrder, parse_calls, tell_run  # noqa: PLC0415 - as above

    if held is None and (refuse or calls is not None):
        raise typer.BadParameter("give the ID of the turn to answer")
    if refuse and calls is not None:
        raise typer.BadParameter("give `--refuse` or `--calls`, not both")
    made = parse_calls(calls) if calls is not None else None
    deed: Deed = "status" if held is None else "refuse" if refuse else "approve" if made is None else "change"
    status = tell_run(find_run(run, runs), RunOrder(do=deed, held=held, calls=made))
    print_result(status.held, print_held, json=json)


def _tell(run: str, runs: "Runs", deed: "Deed", *, json: bool, at_once: int | None = None) -> None:
    from sandlot.cli.views.control import print_status  # noqa: PLC0415 - help does not need it
    from sandlot.run.control import RunOrder, tell_run  # noqa: PLC0415 - as above

    status: RunStatus = tell_run(find_run(run, runs), RunOrder(do=deed, at_once=at_once))
    print_result(status, print_status, json=json)
