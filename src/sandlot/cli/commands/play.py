"""`sandlot play`: a person plays the agent."""

from typing import Annotated

import typer

from sandlot.cli.options import Env, Judge, User, app


@app.command("play")
def _play(
    env: Env,
    task: Annotated[str | None, typer.Option("--task", help="Which task. [default: the first]")] = None,
    user: User = None,
    judge: Judge = None,
) -> None:
    """Play the agent yourself, and see your grade.

    Type a message to send it, `/TOOL {"argument": "value"}` to call a tool, `/help` to list the tools, Ctrl-D to leave.
    """
    from sandlot.cli.views.play import play_in_terminal  # noqa: PLC0415 - help does not need it
    from sandlot.core.concurrency.blocking import run_interruptible  # noqa: PLC0415 - as above
    from sandlot.core.trace import Failed  # noqa: PLC0415 - as above

    trace = run_interruptible(play_in_terminal, env, task, user, judge)
    raise typer.Exit(1 if isinstance(trace.outcome, Failed) else 0)
