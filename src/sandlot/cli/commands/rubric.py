"""`sandlot rubric lint`: what is wrong with a rubric before it grades anything."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import Json, app, authors_on_stderr, print_json

_commands = typer.Typer(help="Work on rubrics.", no_args_is_help=True)
app.add_typer(_commands, name="rubric")


@_commands.command("lint")
def _lint(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A rubric, such as `rubrics/default.json`.")],
    json: Json = False,
) -> None:
    """Find mistakes in a rubric.

    Exit code 1 if there is an error among them.
    """
    from sandlot.env.folder import lint_rubric  # noqa: PLC0415 - help does not need it

    with authors_on_stderr():
        findings = lint_rubric(path)
    if json:
        print_json(findings)
    else:
        for finding in findings:
            place = f"{finding.check}: " if finding.check and f"`{finding.check}`" not in finding.message else ""
            print(f"{finding.severity:<7}  {place}{finding.message}  [{finding.code}]\n         {finding.fix}")
        print(f"{path}: {len(findings) or 'no'} finding{'s' if len(findings) != 1 else ''}")
    raise typer.Exit(1 if any(finding.severity == "error" for finding in findings) else 0)


@_commands.command("schema")
def _schema() -> None:
    """Print the JSON Schema of rubrics."""
    from sandlot.grade.loading import rubric_schema  # noqa: PLC0415 - help does not need it

    print_json(rubric_schema())
