"""`sandlot worker`: take rollouts of a run elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import Json, app, print_result

_Option = typer.Option


@app.command("worker")
def _worker(
    join: Annotated[str, _Option("--join", metavar="HOST:PORT", help="The run, started with `--on workers:HOST:PORT`.")],
    env: Annotated[
        str | None, typer.Argument(help="The environment on this machine. [default: the path or name that the run was given]")
    ] = None,
    at_once: Annotated[int, _Option("--at-once", min=1, max=100_000, help="Maximum number of rollouts to take at a time.")] = 64,
    token_file: Annotated[
        Path | None, _Option("--token-file", metavar="FILE", help="File with the run's token. [default: $SANDLOT_WORKER_TOKEN]")
    ] = None,
    authority: Annotated[
        Path | None,
        _Option("--ca", metavar="FILE", help="Connect with TLS, and trust the certificates in this PEM file only."),
    ] = None,
    grace_s: Annotated[
        float, _Option("--grace-s", min=0, help="Seconds to finish rollouts after SIGTERM or Ctrl-C; the others are returned.")
    ] = 30.0,
    wait_s: Annotated[float, _Option("--wait-s", min=0, help="Seconds to try again while no run listens there.")] = 0.0,
    json: Json = False,
) -> None:
    """Take rollouts of a run that was started with `--on workers:HOST:PORT`, here or on another machine.

    Workers may join and leave at any time. Each needs the same environment, the same version of Sandlot and the run's token.
    After SIGTERM or Ctrl-C it finishes what it can and returns the rest; a second signal returns all at once. Exit code 0 if the
    run has ended or the worker was asked to leave, 2 if it was refused or the run goes on without it, 3 if the connection broke.
    """
    from sandlot.core.concurrency.blocking import run_interruptible  # noqa: PLC0415 - help does not need it
    from sandlot.run.executors.join import JoinEnd, JoinOptions, join_run  # noqa: PLC0415 - as above

    options = JoinOptions(
        at=join, env=env, at_once=at_once, token_file=token_file, authority=authority, grace_s=grace_s, wait_s=wait_s
    )

    async def work() -> JoinEnd:
        return await join_run(options, tell=lambda said: typer.echo(said, err=True))

    end = run_interruptible(work)
    print_result(end, lambda end: typer.echo(f"{end.reason}; {end.rollouts:,} rollouts finished"), json=json)
    raise typer.Exit(3 if end.how == "lost" else 0)
