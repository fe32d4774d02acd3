"""`sandlot task`: tasks and rubrics in a spreadsheet, for domain experts."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import Json, Judge, app, print_json

_commands = typer.Typer(help="Write tasks and checks in a spreadsheet.", no_args_is_help=True)
app.add_typer(_commands, name="task")

_File = Annotated[Path, typer.Argument(metavar="FILE", help="A spreadsheet: .xlsx, .ods or .csv.")]


@_commands.command("new")
def _new(file: _File) -> None:
    """Write a spreadsheet with examples to start from.

    A `.csv` has a file for each sheet: `NAME.csv`, `NAME.checks.csv`, `NAME.files.csv`, `NAME.settings.csv`.
    """
    from sandlot.interop.sheets.template import write_template  # noqa: PLC0415 - help does not need it

    for path in write_template(file):
        print(path)
    typer.echo(f"\nFill it in, then check it:  sandlot task lint {file}", err=True)


@_commands.command("lint")
def _lint(file: _File, json: Json = False) -> None:
    """Find mistakes in a spreadsheet of tasks, cell by cell.

    Golden answers are tried on their checks. Nothing is imported. Exit code 1 if there is an error among the findings.
    """
    from sandlot.cli.views.task import print_findings  # noqa: PLC0415 - help does not need it
    from sandlot.interop.sheets.lint import lint_sheet  # noqa: PLC0415 - as above

    findings = lint_sheet(file)
    if json:
        print_json([{"place": finding.place, **_fields(finding)} for finding in findings])
    else:
        print_findings(file, findings)
    raise typer.Exit(1 if any(finding.severity == "error" for finding in findings) else 0)


@_commands.command("preview")
def _preview(
    file: _File,
    task: Annotated[str | None, typer.Option("--task", help="Only this task.")] = None,
    json: Json = False,
) -> None:
    """Show what the agent and the grader will see of each task."""
    from sandlot.cli.views.task import print_previews  # noqa: PLC0415 - help does not need it
    from sandlot.interop.sheets.grid import read_sheet_file  # noqa: PLC0415 - as above
    from sandlot.interop.sheets.preview import preview_tasks  # noqa: PLC0415 - as above
    from sandlot.interop.sheets.tasks import read_tasks  # noqa: PLC0415 - as above

    sheet = read_tasks(read_sheet_file(file))
    previews = preview_tasks(sheet, task)
    if json:
        return print_json(previews)
    print_previews(previews, sheet.findings.ordered(), file)
    return None


@_commands.command("audit")
def _audit(
    file: _File,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="COPY", help="Write a copy of the spreadsheet with a column of findings.")
    ] = None,
    judge: Judge = None,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of tasks to play.")] = 100,
    json: Json = False,
) -> None:
    """Audit the tasks of a spreadsheet, and write the findings beside the cells they are about.

    The spreadsheet is linted; if it has no errors, its tasks are audited as an environment. Exit code: 0 SHIP, 1 FIX or errors
    in the spreadsheet, 3 INCOMPLETE.
    """
    from sandlot.cli.views.audit import Progress  # noqa: PLC0415 - help does not need it
    from sandlot.cli.views.task import print_findings  # noqa: PLC0415 - as above
    from sandlot.interop.sheets.audit import audit_sheet  # noqa: PLC0415 - as above

    found = audit_sheet(file, copy=out, judge=judge, limit=limit, sink=Progress(quiet=json).receive)
    if json:
        print_json(found)
    else:
        print_findings(file, found.findings)
        played = f"{found.verdict}: {found.tasks} tasks, {found.trials} trials"
        print(played if found.tasks else "FIX: the tasks were not played; correct the errors first")
        if found.copy:
            typer.echo(f"findings are in the column Findings of {found.copy}", err=True)
    raise typer.Exit(found.exit_code)


@_commands.command("draft")
def _draft(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="The folder before the work was done.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="The folder afterwards.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The .xlsx file to write.")],
    task: Annotated[str, typer.Option("--task", help="Name of the task. [default: the name of AFTER]")] = "",
    prompt: Annotated[str, typer.Option("--prompt", help="What the agent is asked to do.")] = "",
    json: Json = False,
) -> None:
    """Draft a task from a folder before and after the work was done, with proposed checks and their mutation score.

    The score is the share of the auditor's wrong solutions that the checks notice.
    """
    from sandlot.cli.views.task import print_draft  # noqa: PLC0415 - help does not need it
    from sandlot.interop.sheets.draft import draft_task  # noqa: PLC0415 - as above

    found = draft_task(before, after, out, task=task, prompt=prompt)
    if json:
        return print_json(found)
    print_draft(found)
    return None


def _fields(finding: object) -> dict[str, object]:
    import msgspec  # noqa: PLC0415 - help does not need it

    return msgspec.to_builtins(finding)
