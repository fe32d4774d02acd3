"""`sandlot images`: what sandboxes start from, as it is kept on this machine."""

from typing import Annotated

import typer

from sandlot.cli.options import Json, print_json


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("images")(_images)


def _images(
    make: Annotated[
        str | None, typer.Option("--make", metavar="IMAGE", help="Build this image now, so that no run waits for it.")
    ] = None,
    gc: Annotated[bool, typer.Option("--gc", help="Remove images that have not been used lately.")] = False,
    older_than_days: Annotated[
        float, typer.Option("--older-than", metavar="DAYS", help="With `--gc`: how long an image must have been unused.")
    ] = 14.0,
    json: Json = False,
) -> None:
    """List the sandbox images on this machine.

    Prints size, digest, last use and name. `--make` builds one, `--gc` removes unused ones.
    """
    from sandlot.cli.views.images import made, removed, shown  # noqa: PLC0415 - help does not need it

    if make is not None and gc:
        raise typer.BadParameter("give `--make` or `--gc`, not both")
    found = made(make) if make is not None else removed(older_than_days * 86_400) if gc else shown()
    if json:
        print_json({"removed": gc, "images": found, "size_bytes": sum(line.size_bytes for line in found)})
        return
    for line in found:
        size = f"{line.size_bytes / 2**20:.1f} MiB"
        print(f"{'removed  ' if gc else ''}{size:>12}  {line.digest[:26]:<26}  {line.said_age:>12}  {line.name}")
    print(f"{len(found)} images, {sum(line.size_bytes for line in found) / 2**20:.1f} MiB")
