"""`sandlot new`: create an environment from a template."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import app
from sandlot.env.scaffold import Form, scaffold


@app.command("new")
def _new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name: lower-case letters, digits and `-`.")],
    form: Annotated[
        Form,
        typer.Option(
            "--form",
            help="`function`: one function that asks and scores. `file`: tools and checks in one Python file. "
            "`folder`: settings, tasks and rubrics as files beside the Python code.",
        ),
    ] = Form.FILE,
    folder: Annotated[Path, typer.Option("--in", help="The folder to create it in.")] = Path("environments"),
) -> None:
    """Create a new environment, with a README and a test that passes."""
    for path in scaffold(name, form, folder):
        print(path)
    place = folder / name
    typer.echo(
        f"\nRun it:    sandlot run {place} --model scripted:golden\nPlay it:   sandlot play {place}"
        f"\nAudit it:  sandlot audit {place}\nTest it:   pytest {place}\nThen read {place}/README.md and change it.",
        err=True,
    )
