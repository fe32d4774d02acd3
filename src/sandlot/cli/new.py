"""`sandlot new`: an environment to start from."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.env.scaffold import Form, scaffold


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("new")(new)


def new(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and `-`.")],
    form: Annotated[Form, typer.Option("--form", help="One function, one file, or a folder of files.")] = Form.FILE,
    folder: Annotated[Path, typer.Option("--in", help="Where to put it.")] = Path("environments"),
) -> None:
    """Start a new environment, with its own passing test."""
    for path in scaffold(name, form, folder):
        print(path)
    place = folder / name
    typer.echo(
        f"\nTry it:   sandlot run {place} --model scripted:golden\nPlay it:  sandlot play {place}\nTest it:  pytest {place}",
        err=True,
    )
