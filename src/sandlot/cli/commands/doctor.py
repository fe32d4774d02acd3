"""`sandlot doctor`: check this machine."""

import typer

from sandlot.cli.options import Json, app, print_json


@app.command("doctor")
def _doctor(json: Json = False) -> None:
    """Check this machine: what works, and how to fix what does not.

    `ok` works, `NO` is needed and missing, `--` is optional and missing. Exit code 1 if something needed is missing.
    """
    from sandlot.wiring.doctor import examine_machine  # noqa: PLC0415 - help does not need it

    findings = examine_machine()
    if json:
        print_json(findings)
    else:
        widest = max(len(finding.what) for finding in findings)
        for finding in findings:
            mark = "ok" if finding.ok else "NO" if finding.needed else "--"
            print(f"{mark}  {finding.what:<{widest}}  {finding.detail.removeprefix('yes: ').removeprefix('no: ')}")
        missing = [finding.what for finding in findings if finding.needed and not finding.ok]
        print(f"\nmissing: {', '.join(missing)}" if missing else "\nEverything that is needed works; `--` is optional.")
    raise typer.Exit(0 if all(finding.ok or not finding.needed for finding in findings) else 1)
