"""`sandlot view`: runs, tasks and traces in the browser."""

import os
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.completion import complete_what
from sandlot.cli.options import RUNS, Runs, app, find_run, find_trace


@app.command("view")
def _view(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[WHAT]",
            help="A run, or RUN/TASK/ROLLOUT (one trace). [default: the list of runs]",
            show_default=False,
            autocompletion=complete_what,
        ),
    ] = None,
    runs: Runs = RUNS,
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0 takes any free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser, if there is one.")] = True,
) -> None:
    """Show runs, tasks and traces in the browser, until Ctrl-C.

    The pages only read. They are served on this machine alone, at an address with a secret token: whoever has the address can
    read all runs of the folder.
    """
    import anyio  # noqa: PLC0415 - help does not need it

    from sandlot.core.concurrency.blocking import run_interruptible  # noqa: PLC0415 - as above
    from sandlot.web.app import serve_view  # noqa: PLC0415 - as above

    folder, page = _find_page(what, runs) if what else (runs, "/")

    async def serve() -> None:
        async with serve_view(folder, port=port) as address_of:
            typer.echo(address_of(page))
            if browser and any(
                os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
            ):  # else one in this terminal starts
                await anyio.to_thread.run_sync(webbrowser.open, address_of(page))
            await anyio.sleep_forever()

    run_interruptible(serve)


def _find_page(what: str, runs: Path) -> tuple[Path, str]:
    """The folder of runs to serve, and the path of the page."""
    from sandlot.web.app import link  # noqa: PLC0415 - help does not need it

    if any((path / "manifest.json").is_file() for path in (Path(what), runs / what)):
        run = find_run(what, runs)
        return run.parent, link(run.name)
    run, task, rollout = find_trace(what, runs)
    return run.parent, link(run.name, "trace", task=task, rollout=rollout)
