"""`sandlot list`: environments and runs."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import RUNS, Json, Runs, app, print_json


@app.command("list")
def _list(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to look for environments.")] = Path("environments"),
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """List environments, and runs with date, state, score and model.

    Environments of the form `ready` come with Sandlot and are run by name: `sandlot run arithmetic`. The score of a training
    run is its last held-out score.
    """
    from sandlot.cli.views.list import print_list  # noqa: PLC0415 - help does not need it
    from sandlot.env.load import find_environments  # noqa: PLC0415 - as above
    from sandlot.run.catalog import list_runs  # noqa: PLC0415 - as above

    found = list(find_environments(folder))
    entries = list_runs(runs)
    if json:
        print_json({"environments": found, "runs": entries})
    elif found or entries:
        print_list(found, entries)
    else:
        typer.echo(f"nothing in `{folder}` or `{runs}`; start with `sandlot new NAME`", err=True)
