"""`sandlot images`: the sandbox images stored on this machine."""

import logging
from typing import Annotated

import typer

from sandlot.cli.options import Json, app, print_json


@app.command("images")
def _images(
    make: Annotated[
        str | None, typer.Option("--make", metavar="IMAGE", help="Build this image now, so that the first run need not.")
    ] = None,
    gc: Annotated[bool, typer.Option("--gc", help="Remove images that have not been used for `--older-than` days.")] = False,
    older_than_days: Annotated[
        float, typer.Option("--older-than", metavar="DAYS", help="Minimum days unused, for `--gc`.")
    ] = 14.0,
    json: Json = False,
) -> None:
    """List the sandbox images on this machine.

    Prints size, digest, last use and name. `--make` builds one, `--gc` removes unused ones.
    """
    from sandlot.cli.views.images import as_json, print_images  # noqa: PLC0415 - help does not need it
    from sandlot.sandbox.images.spec import build_image  # noqa: PLC0415 - as above
    from sandlot.sandbox.images.store import list_images, remove_unused_images  # noqa: PLC0415 - as above

    if make is not None and gc:
        raise typer.BadParameter("give `--make` or `--gc`, not both")
    if make is not None:
        logging.getLogger("sandlot.sandbox.images").setLevel(logging.INFO)  # how far it is, on stderr
        found = build_image(make)
    else:
        found = remove_unused_images(unused_for_s=older_than_days * 86_400) if gc else list_images()
    if json:
        print_json(as_json(found, removed=gc))
    else:
        print_images(found, removed=gc)
