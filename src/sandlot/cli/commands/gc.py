"""`sandlot gc`: remove unused stored files."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import RUNS, Json, Runs, app, print_json


@app.command("gc")
def _gc(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FOLDER]...",
            help="Where an import or an export may have left a half-written folder. [default: this folder and `environments`]",
            show_default=False,
        ),
    ] = None,
    runs: Runs = RUNS,
    older_than_days: Annotated[
        float | None, typer.Option("--older-than", metavar="DAYS", min=0, help="Also remove whole runs older than this.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete; without this, only print.")] = False,
    json: Json = False,
) -> None:
    """Remove unused stored files and leftovers of crashes.

    Prints what would be removed; `--delete` removes it. What an import or an export is writing now is left alone.
    """
    from sandlot.store.gc import collect  # noqa: PLC0415 - help does not need it

    older_than_s = older_than_days * 86_400 if older_than_days is not None else None
    found = collect(runs, folders=folders or (Path(), Path("environments")), older_than_s=older_than_s, dry_run=not delete)
    if json:
        removable = [{"path": str(item.path), "size_bytes": item.size_bytes, "why": item.why} for item in found.removable]
        busy = [str(path) for path in found.busy]
        print_json({"removed": delete, "removable": removable, "size_bytes": found.size_bytes, "busy": busy})
        return
    for item in found.removable:
        print(f"{'removed' if delete else 'would remove'}  {item.size_bytes:>12,} bytes  {item.path}  {item.why}")
    for path in found.busy:
        print(f"skipped, in use: {path}")
    hint = "" if delete or not found.removable else "; `--delete` removes them"
    print(f"{len(found.removable)} items, {found.size_bytes:,} bytes{hint}")
