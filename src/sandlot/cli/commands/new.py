"""`sandlot new`: an environment to start from."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.env.scaffold import Form, scaffold


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("new")(_new)


def _new(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and `-`.")],
    form: Annotated[
        Form,
        typer.Option(
            "--form",
            help="`function` (a question and its score), `file` (tools and checks in Python), `folder` (TOML, JSON, Python).",
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
