"""`sandlot export`: write rollouts for other trainers, and environments for other frameworks."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from sandlot.cli.options import RUNS, Json, Runs, app, find_run, print_json

_Option = typer.Option
_ROLLOUTS = ("sft", "pairs", "preferences", "rollouts", "predictions")


@app.command("export")
def _export(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="Of a run: `sft` (rollouts with a high reward), `pairs` (a better and a worse one of each task, by score), "
            "`preferences` (pairs that people compared in `sandlot view`), `rollouts` (exact tokens), "
            "`predictions` (patches of repositories, for SWE-bench). Of an environment: `harbor`, "
            "`terminal-bench`, `inspect`, `verifiers`, `openenv`, `gymnasium`, `pettingzoo`, "
            "and the kinds that other packages bring.",
        ),
    ],
    what: Annotated[str, typer.Argument(metavar="RUN|ENV", help="A run directory, or an environment, as for `sandlot run`.")],
    out: Annotated[
        Path | None,
        _Option(
            "--out",
            metavar="PLACE",
            help="For a run a .jsonl or .parquet file [default: RUN/exports/KIND.parquet]; else a folder.",
        ),
    ] = None,
    split: Annotated[Literal["train", "heldout", "all"], _Option("--split", help="Which tasks of a run to export.")] = "train",
    least: Annotated[float, _Option("--least", help="Minimum reward of a rollout, for `sft`.")] = 1.0,
    limit: Annotated[int | None, _Option("--limit", help="Maximum number of tasks of an environment. [default: all]")] = None,
    image: Annotated[str | None, _Option("--image", help="Another image for the exported environment.")] = None,
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """Export rollouts for other trainers (TRL, verl), or an environment for another framework.

    What the other side cannot express is left out or refused, with the reason. Exit code 1 if no rollout qualified.
    """
    if kind in _ROLLOUTS:
        from sandlot.core.types import Split  # noqa: PLC0415 - help does not need it
        from sandlot.interop.export import ExportKind, export_run  # noqa: PLC0415 - as above
        from sandlot.run.results import Run  # noqa: PLC0415 - as above

        wanted = None if split == "all" else Split(split)
        rows = export_run(Run(find_run(what, runs)), ExportKind(kind), out, split=wanted, least=least)
        if json:
            print_json(rows)
        else:
            print(f"{rows.rows} rows -> {rows.file}" + (f"; {rows.skipped} rollouts left out" if rows.skipped else ""))
        raise typer.Exit(0 if rows.rows else 1)
    from sandlot.interop.exporting import export_environment  # noqa: PLC0415 - as above

    place = out or Path("exports") / f"{Path(what.rstrip('/')).name}-{kind}"
    written = export_environment(kind, what, place, limit=limit, image=image)
    if json:
        return print_json(written)
    print(f"{len(written.tasks)} tasks -> {written.folder}")
    for each in written.left_out:
        print(f"left out  {each.what}: {each.why}")
    for note in written.notes:
        print(f"note  {note}")
    return None
