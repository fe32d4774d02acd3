"""`sandlot replay`: play a trace again, then continue with another model."""

from typing import Annotated

import typer

from sandlot.cli.options import RUNS, Json, Judge, Runs, app, authors_on_stderr, find_trace, print_json


@app.command("replay")
def _replay(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="The trace to replay, as RUN/TASK/ROLLOUT.")],
    until: Annotated[int | None, typer.Option("--until", metavar="TURN", help="Replay this many turns. [default: all]")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="The model that continues after `--until`.")] = None,
    env: Annotated[str | None, typer.Option("--env", help="The environment. [default: where the run found it]")] = None,
    judge: Judge = None,
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """Replay a trace in a fresh world, with real tool calls.

    With `--until N --model M`, another model continues after turn N. If the run had a `--user`, that user then plays again from
    the beginning. Exit code 1 if the new rollout has no score.
    """
    from sandlot.cli.views.play import show_result  # noqa: PLC0415 - help does not need it
    from sandlot.core.concurrency.blocking import run_interruptible  # noqa: PLC0415 - as above
    from sandlot.run.replay import replay_trace  # noqa: PLC0415 - as above

    with authors_on_stderr():
        again = run_interruptible(replay_trace, *find_trace(trace, runs), until, model, env, judge)
    if json:
        print_json(again)
    else:
        diverged = [event for event in again.events if event.kind == "replay_diverged"]
        for event in diverged:
            typer.echo(f"turn {event.turn}: the result differs from the recorded one: {event.detail}", err=True)
        if not diverged:
            typer.echo("no turn was replayed" if until == 0 else "the replayed turns got the recorded results", err=True)
        show_result(again)
    raise typer.Exit(0 if again.reward is not None else 1)
