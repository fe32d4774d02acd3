"""`sandlot stream`: the events of a run to NATS JetStream."""

from typing import TYPE_CHECKING, Annotated

import typer

from sandlot.cli.options import RUNS, Json, RunPath, Runs, app, find_run, print_result

if TYPE_CHECKING:
    from sandlot.run.stream import StreamedRun


@app.command("stream")
def _stream(
    run: RunPath,
    url: Annotated[str, typer.Argument(metavar="URL", help="The server and a subject: `nats://HOST:PORT/SUBJECT`, or `tls://`.")],
    runs: Runs = RUNS,
    once: Annotated[bool, typer.Option("--once", help="Send what is there, and do not wait for the end of the run.")] = False,
    json: Json = False,
) -> None:
    """Stream the events of a run or a training to NATS JetStream, live or after.

    Follows the run's event log until the run has ended, or until Ctrl-C, which leaves the run alone. Each event is published to
    SUBJECT.RUN.KIND at least once, and in order unless it was refused or too large at first; the same command continues where it
    stopped, and JetStream drops what comes twice by its id. The stream is created if none takes the subject. Credentials:
    `nats://USER:PASSWORD@HOST/SUBJECT`, `nats://TOKEN@HOST/SUBJECT`, or the variables NATS_USER and NATS_PASSWORD, or NATS_TOKEN.
    Exit code 0 if the run has ended and everything is delivered, 1 if an event is too large, 3 if the run goes on, its log has no
    end, or the server is gone.
    """
    from sandlot.run.stream import open_run_stream  # noqa: PLC0415 - help does not need it

    with open_run_stream(find_run(run, runs), url, tell=lambda sentence: typer.echo(f"sandlot: {sentence}", err=True)) as stream:
        try:
            stream.follow(once=once)
        except KeyboardInterrupt:
            typer.echo("stopped; the same command continues", err=True)
        print_result(stream.summary, _show, json=json)
        raise typer.Exit(stream.summary.exit_code)


def _show(done: "StreamedRun") -> None:
    print(f"{done.sent:,} events sent to stream `{done.stream}` at {done.target}, {done.duplicates:,} were there already")
    if done.unreadable:
        print(f"{done.unreadable:,} lines of the log were cut off by a crash and hold no event")
    if done.too_large:
        print(f"{done.too_large:,} events are NOT sent: larger than {done.size_limit}; with a larger limit, repeat the command")
    if done.problem:
        print(f"gave up: {done.problem}; the same command continues")
    elif done.live:
        print("the run goes on; the same command continues")
    elif not done.ended:
        print(
            "the log does not say that the run has ended: it was killed, or goes on where this process cannot see it, such as "
            "in another container; the same command continues"
        )
