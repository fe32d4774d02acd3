"""`sandlot doctor`: what works on this machine."""

import typer

from sandlot.cli.options import Json, print_json


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(json: Json = False) -> None:
    """Say what works on this machine.

    And what to do about what does not. Exit code 1 if something needed is missing.
    """
    from sandlot.cli.examining import examined  # noqa: PLC0415 - help does not need it

    findings = examined()
    if json:
        print_json(findings)
    else:
        for finding in findings:
            print(f"{'ok ' if finding.ok else 'NO '} {finding.what:<28} {finding.detail}")
    raise typer.Exit(0 if all(finding.ok or not finding.needed for finding in findings) else 1)
