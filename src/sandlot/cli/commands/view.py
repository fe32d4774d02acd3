"""`sandlot view`: runs, tasks and traces in the browser."""

import os
import webbrowser
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer

from sandlot.cli.completion import complete_what
from sandlot.cli.options import RUNS, Judge, Runs, app, authors_on_stderr, find_run, find_trace
from sandlot.core.errors import ConfigError

_ENVIRONMENT = "/environment"
"""The page of the environment that is shown."""


@app.command("view")
def _view(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WHAT]...",
            help="A run, RUN/TASK/ROLLOUT (one trace; several with --out), an environment, or an audit (`runs/audits/NAME`). "
            "[default: all runs]",
            show_default=False,
            autocompletion=complete_what,
        ),
    ] = None,
    runs: Runs = RUNS,
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0 takes any free one.")] = 0,
    control: Annotated[
        bool, typer.Option("--control", help="Let the pages pause, resume, change and stop runs of this user, and save rubrics.")
    ] = False,
    judge: Judge = None,
    reader: Annotated[
        str | None,
        typer.Option("--reader", metavar="NAME", help="Your name: labels and notes can then be written, and are kept under it."),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser, if there is one.")] = True,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the pages of these traces to one HTML file, and serve nothing."),
    ] = None,
    traces: Annotated[
        int, typer.Option("--traces", help="With --out and a run: how many traces; failures and low scores first.")
    ] = 20,
    tokens: Annotated[bool, typer.Option("--tokens", help="With --out: the tokens too.")] = False,
    hide: Annotated[
        list[str] | None, typer.Option("--hide", metavar="REGEX", help="With --out: what else to redact; may be repeated.")
    ] = None,
) -> None:
    """Show runs, tasks, traces and environments in the browser, until Ctrl-C.

    With `--out FILE`, the pages of a run and of some of its traces are written to one file that needs no server. It says what was
    left out. Secrets and e-mail addresses are redacted, and what `--hide` and the run's `redaction.txt` name.

    The pages only read, unless `--control` or `--reader` is given. They are served on this machine alone, at an address with a
    secret token: whoever has the address can read all runs of the folder, and do what these options allow. Showing an environment
    loads it, which runs its code.
    """
    if out is not None:
        _save(what or [], runs, out, traces, tokens=tokens, hide=hide or [])
        return
    if what and len(what) > 1:
        raise ConfigError(f"{len(what)} things to view; name one, or write several traces to one file with --out")
    _serve(what[0] if what else None, runs, port=port, control=control, judge=judge, reader=reader, browser=browser)


def _serve(
    what: str | None, runs: Path, *, port: int, control: bool, judge: str | None, reader: str | None, browser: bool
) -> None:
    """Serve the pages until Ctrl-C, and print their address."""
    import anyio  # noqa: PLC0415 - help does not need it

    from sandlot.analysis.triage.labels import reader_name  # noqa: PLC0415 - as above
    from sandlot.core.concurrency.blocking import run_interruptible  # noqa: PLC0415 - as above
    from sandlot.web.app import serve_view  # noqa: PLC0415 - as above
    from sandlot.web.site import Site, serve_environment  # noqa: PLC0415 - as above

    name = None if reader is None else reader_name(reader)
    folder, page = _find_page(what, runs) if what else (runs, "/")
    with authors_on_stderr():
        environment = serve_environment(what) if what and page == _ENVIRONMENT else None

    async def serve() -> None:
        async with serve_view(
            Site(folder, control=control, reader=name, environment=environment, judge=judge), port=port
        ) as address_of:
            typer.echo(address_of(page))
            if browser and any(
                os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
            ):  # else one in this terminal starts
                await anyio.to_thread.run_sync(webbrowser.open, address_of(page, once=True))
            await anyio.sleep_forever()

    run_interruptible(serve)


def _save(what: list[str], runs: Path, out: Path, most: int, *, tokens: bool, hide: list[str]) -> None:
    """Write one file with the pages of a run's traces."""
    from sandlot.run.results import Run  # noqa: PLC0415 - help does not need it
    from sandlot.web.saved import choose_traces, save_pages  # noqa: PLC0415 - as above

    if not what:
        raise ConfigError("--out needs a run, or traces of one run: `sandlot view RUN --out FILE`")
    if len(what) == 1 and _is_run(what[0], runs):
        path = find_run(what[0], runs)
        chosen = choose_traces(Run(path).rows, most)
    else:
        found = [find_trace(each, runs) for each in what]
        path, chosen = found[0][0], [(task, rollout) for _, task, rollout in found]
        if any(each != path for each, _, _ in found):
            raise ConfigError(f"the traces are of several runs; one file holds traces of one run, such as `{path}`")
    saved = save_pages(path, chosen, tokens=tokens, hide=hide)
    out.write_text(saved.text)
    hidden = f"; something was redacted in {saved.num_redacted} texts" if saved.num_redacted else ""
    typer.echo(f"{saved.num_traces} traces, {saved.num_pages} pages, {len(saved.text.encode()):,} bytes -> {out}{hidden}")


def _is_run(what: str, runs: Path) -> bool:
    return any((path / "manifest.json").is_file() for path in (Path(what), runs / what))


def _find_page(what: str, runs: Path) -> tuple[Path, str]:
    """The folder of runs to serve, and the path of the page."""
    from sandlot.web.site import link  # noqa: PLC0415 - help does not need it

    path = Path(what)
    if _is_run(what, runs):
        run = find_run(what, runs)
        return run.parent, link(run.name, "training" if (run / "recipe.json").is_file() else "")
    if (path / "audit.json").is_file():
        return path.resolve().parent.parent, f"/audit?{urlencode({'of': path.resolve().name})}"
    if _is_run(str(path.parent.parent), runs) or (path.parts[:1] == runs.parts[:1] and not path.exists()):
        run, task, rollout = find_trace(what, runs)
        return run.parent, link(run.name, "trace", task=task, rollout=rollout)
    return runs, _ENVIRONMENT
