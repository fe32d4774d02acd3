"""`sandlot record`: a rollout as a terminal recording."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import RUNS, Runs, app, find_trace


@app.command("record")
def _record(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="The rollout, as RUN/TASK/ROLLOUT.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The file to write. [default: print the recording]")
    ] = None,
    runs: Runs = RUNS,
) -> None:
    """Write the shell commands of a rollout, what they printed, and its terminal sessions, as a terminal recording.

    The format is asciicast 2: `asciinema play FILE` plays it, and so does the page of the rollout in `sandlot view`.
    """
    from sandlot.run.recording import asciicast_of  # noqa: PLC0415 - help does not need it
    from sandlot.run.results import Run  # noqa: PLC0415 - as above

    run, task, rollout = find_trace(trace, runs)
    opened = Run(run)
    recording = asciicast_of(opened.trace(task, rollout), opened.reader.blobs.read)
    num_events = recording.count(b"\n") - 1
    if out is None:
        typer.echo(recording.decode(), nl=False)
    else:
        out.write_bytes(recording)
        typer.echo(f"{num_events} events -> {out}")
