"""`sandlot shell`: step into a rollout's sandbox as it was at a turn."""

from typing import Annotated

import typer

from sandlot.cli.options import RUNS, Runs, app, find_trace


@app.command("shell")
def _shell(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="The rollout, as RUN/TASK/ROLLOUT.")],
    turn: Annotated[int | None, typer.Option("--turn", metavar="N", help="After this many turns. [default: all]")] = None,
    env: Annotated[str | None, typer.Option("--env", help="The environment. [default: where the run found it]")] = None,
    runs: Runs = RUNS,
) -> None:
    """Open a shell in a rollout's sandbox as it was after a turn.

    The recorded tool calls are replayed in a fresh sandbox, then you have a shell there. Files are as they were then; processes
    are not restored. Commands may come through a pipe. The exit code is the shell's.
    """
    from sandlot.core.concurrency.blocking import run_interruptible  # noqa: PLC0415 - help does not need it

    raise typer.Exit(run_interruptible(_step_in, trace, runs, turn, env))


async def _step_in(trace: str, runs: "Runs", turn: int | None, env: str | None) -> int:
    from sandlot.run.moment import open_moment  # noqa: PLC0415 - help does not need it
    from sandlot.sandbox.terminal import run_shell  # noqa: PLC0415 - as above

    async with open_moment(*find_trace(trace, runs), turn, env) as moment:
        typer.echo(f"{trace} after turn {moment.turn} of {moment.num_turns}; processes are not restored.", err=True)
        if moment.num_different:
            typer.echo(f"{moment.num_different} tool results differ from the recorded ones.", err=True)
        return await run_shell(moment.sandbox)
