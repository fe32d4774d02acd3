"""`sandlot import`: write tasks of another format as an environment, or a log of another framework as a run."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import RUNS, Json, Runs, app, authors_on_stderr

NAMES = ("import",)
_AUDITED = 4
"""Tasks that the first audit plays."""

_Option = typer.Option


@app.command("import")
def _import(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="The format; `sandlot import list` prints those installed.")],
    source: Annotated[
        str | None, typer.Argument(metavar="SOURCE", help="The tasks: a path, a file or a name, as the format has them.")
    ] = None,
    out: Annotated[
        Path | None,
        _Option("--out", metavar="FOLDER", help="The folder to write. [default: environments/SOURCE's name; runs/ for a log]"),
    ] = None,
    limit: Annotated[int | None, _Option("--limit", help="Maximum number of tasks to import. [default: all]")] = None,
    audit: Annotated[bool, _Option("--audit/--no-audit", help="Audit the result with a few tasks.")] = True,
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """Import tasks of another format as a folder environment, and audit it; or a log as a run.

    The folder is an ordinary environment to read and change; `import.json` in it says what was taken and what was not, and why.
    `run`, `audit`, `calibrate` and `train` also take `KIND:SOURCE` in place of an environment, without `import`.

    Kinds of logs, such as `inspect-log`, write a run, for `show`, `view`, `health`, `triage`, `compare` and `export`.

    Exit code: that of the audit (0 SHIP, 1 FIX, 3 INCOMPLETE); 0 with `--no-audit`.
    """
    from sandlot.cli.views.importing import print_import, print_kinds  # noqa: PLC0415 - help does not need it
    from sandlot.env.importing import import_environment, importers, unknown_kind  # noqa: PLC0415 - as above
    from sandlot.interop.logged_runs import import_run, log_readers  # noqa: PLC0415 - as above

    kinds = importers() | log_readers()
    if kind == "list":
        return print_kinds(kinds, json=json)
    if kind not in kinds:
        raise unknown_kind(kind, kinds)
    if source is None:
        raise typer.BadParameter(f"name the tasks: `sandlot import {kind} SOURCE`", param_hint="SOURCE")
    if kind in log_readers():
        from sandlot.cli.views.show_run import show_run  # noqa: PLC0415 - as above

        if limit is not None:
            raise typer.BadParameter("a log is imported whole", param_hint="--limit")
        place = out or runs / Path(source.partition("?")[0]).stem
        return show_run(import_run(kind, source, place).path, json=json)
    folder = out or Path("environments") / (Path(source.rstrip("/")).name.partition(":")[2] or Path(source.rstrip("/")).name)
    if not json:
        typer.echo(f"importing {kind}:{source} into {folder} ...", err=True)
    with authors_on_stderr():  # foreign packages print
        report = import_environment(kind, source, folder, limit=limit)
    found = None
    if audit:
        from sandlot.audit.audit import audit as run_audit  # noqa: PLC0415 - only then
        from sandlot.cli.views.audit import Progress  # noqa: PLC0415 - as above

        found = run_audit(str(folder), limit=_AUDITED, runs=runs, sink=Progress(quiet=json).receive)
    print_import(report, folder, found, runs, json=json)
    raise typer.Exit(found.verdict.exit_code if found is not None else 0)
