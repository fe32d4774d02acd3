"""`sandlot gc`: what can go."""

from typing import Annotated

import typer

from sandlot.cli.options import RUNS, Json, Runs, print_json


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("gc")(gc)


def gc(
    runs: Runs = RUNS,
    older_than_days: Annotated[
        float | None, typer.Option("--older-than", metavar="DAYS", help="Also whole runs older than this.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Do it; without this, only show what would go.")] = False,
    json: Json = False,
) -> None:
    """Remove what no trace refers to any more, and leftovers of crashes. Shows first; `--delete` does it."""
    from sandlot.store.gc import collect_garbage  # noqa: PLC0415 - help does not need it

    garbage = collect_garbage(runs, older_than_days=older_than_days, delete=delete)
    if json:
        print_json(garbage)
        return
    for item in garbage.items:
        print(f"{'removed' if delete else 'would remove'}  {item.size_bytes:>12,} bytes  {item.path}  {item.why}")
    print(
        f"{len(garbage.items)} things, {garbage.size_bytes:,} bytes"
        + ("" if delete or not garbage.items else "; `--delete` removes them")
    )
