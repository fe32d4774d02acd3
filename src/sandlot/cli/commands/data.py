"""`sandlot data`: data of others before it becomes tasks."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import Json, app, print_json

_commands = typer.Typer(help="Import, clean and describe data (jsonl, csv, parquet).", no_args_is_help=True)
app.add_typer(_commands, name="data")

_Option = typer.Option
_Sources = Annotated[list[str], typer.Argument(metavar="SOURCE...", help="Files (.jsonl, .csv, .parquet), or folders of them.")]
_Out = Annotated[Path | None, _Option("--out", metavar="FILE", help="The .jsonl or .parquet file to write.")]
_NeededOut = Annotated[Path, _Option("--out", metavar="FILE", help="The .jsonl or .parquet file to write.")]
_Kinds = Annotated[list[str] | None, _Option("--kind", help="Redact only this kind; may be repeated. [default: all]")]
_Report = Annotated[Path | None, _Option("--report", metavar="FILE", help="Also write the report here, as JSON.")]


@_commands.command("import")
def _import(
    sources: _Sources,
    out: _NeededOut,
    redact: Annotated[bool, _Option("--redact", help="Replace secrets and personal data.")] = False,
    report: _Report = None,
    json: Json = False,
) -> None:
    """Read data into one file; every row keeps the file, the line and a hash of its source in the field `provenance`."""
    from sandlot.interop.data.rows import read_data, write_data  # noqa: PLC0415 - help does not need it

    if redact:
        return _redact_into(sources, out, None, report, json=json)
    number = write_data(out, read_data(sources))
    if json:
        return print_json({"rows": number, "file": str(out)})
    print(f"{number:,} rows -> {out}")
    return None


@_commands.command("redact")
def _redact(sources: _Sources, out: _NeededOut, kind: _Kinds = None, report: _Report = None, json: Json = False) -> None:
    """Replace secrets and personal data by marks such as `[email-1]`, and report kinds, counts and places.

    The same value gets the same mark. The report has no secret. Names, addresses and dates of birth are not found.
    """
    _redact_into(sources, out, kind, report, json=json)


def _redact_into(sources: list[str], out: Path, kinds: list[str] | None, report: Path | None, *, json: bool) -> None:
    import msgspec  # noqa: PLC0415 - help does not need it

    from sandlot.cli.views.data import print_redaction  # noqa: PLC0415 - as above
    from sandlot.core.disk import write_file  # noqa: PLC0415 - as above
    from sandlot.interop.data.redact import KINDS, Redactor  # noqa: PLC0415 - as above
    from sandlot.interop.data.rows import read_data, write_data  # noqa: PLC0415 - as above

    redactor = Redactor(kinds or KINDS)
    write_data(out, redactor.redact_rows(read_data(sources)))
    found = redactor.report()
    if report is not None:
        write_file(report, msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    if json:
        return print_json(found)
    print_redaction(found, out)
    return None


@_commands.command("dedupe")
def _dedupe(
    sources: _Sources,
    out: _Out = None,
    against: Annotated[
        list[str] | None, _Option("--against", metavar="FILE", help="Held-out rows that no row may contain; may be repeated.")
    ] = None,
    similarity: Annotated[
        float, _Option("--similarity", help="Share of common word sequences that makes near duplicates.")
    ] = 0.8,
    field: Annotated[list[str] | None, _Option("--field", help="Compare only this field; may be repeated.")] = None,
    report: _Report = None,
    json: Json = False,
) -> None:
    """Find duplicate rows, exact and near, and rows that contain held-out ones; with `--out`, write the others.

    Of duplicates the first stays. Rows with the field `split` = `heldout` are held out. Exit code 1 if there are duplicates and
    no `--out`.
    """
    import msgspec  # noqa: PLC0415 - help does not need it

    from sandlot.cli.views.data import print_duplicates  # noqa: PLC0415 - as above
    from sandlot.core.disk import write_file  # noqa: PLC0415 - as above
    from sandlot.interop.data.duplicates import dedupe  # noqa: PLC0415 - as above
    from sandlot.interop.data.rows import read_data, write_data  # noqa: PLC0415 - as above

    heldout = read_data(against) if against else ()
    kept, found = dedupe(read_data(sources), against=heldout, threshold=similarity, fields=field or ())
    if out is not None:
        write_data(out, kept)
    if report is not None:
        write_file(report, msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    if json:
        print_json(found)
    else:
        print_duplicates(found, out)
    raise typer.Exit(1 if found.duplicates and out is None else 0)


@_commands.command("validate")
def _validate(
    sources: _Sources,
    schema: Annotated[
        str | None,
        _Option("--schema", metavar="FILE|task", help="A JSON Schema, or `task`. [default: what nearly all rows have]"),
    ] = None,
    json: Json = False,
) -> None:
    """Find rows that do not fit a schema. Exit code 1 if there are any."""
    from sandlot.cli.views.data import print_row_findings  # noqa: PLC0415 - help does not need it
    from sandlot.interop.data.rows import read_data  # noqa: PLC0415 - as above
    from sandlot.interop.data.validate import read_schema, validate_rows  # noqa: PLC0415 - as above

    wanted = schema if schema is None or schema == "task" else read_schema(Path(schema))
    found = validate_rows(read_data(sources), wanted)
    if json:
        print_json(found)
    else:
        print_row_findings(found)
    raise typer.Exit(1 if found.findings else 0)


@_commands.command("stats")
def _stats(sources: _Sources, json: Json = False) -> None:
    """Describe data: rows, files, and the types, gaps, sizes and frequent values of every field."""
    from sandlot.cli.views.data import print_stats  # noqa: PLC0415 - help does not need it
    from sandlot.interop.data.rows import read_data  # noqa: PLC0415 - as above
    from sandlot.interop.data.stats import describe_rows  # noqa: PLC0415 - as above

    found = describe_rows(read_data(sources))
    if json:
        return print_json(found)
    print_stats(found)
    return None
