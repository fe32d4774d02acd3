"""`sandlot export`: write rollouts for other trainers."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from sandlot.cli.options import RUNS, Json, RunPath, Runs, app, find_run, print_json

_Option = typer.Option


@app.command("export")
def _export(
    run: RunPath,
    kind: Annotated[
        Literal["sft", "pairs", "preferences", "rollouts"],
        _Option(
            "--as",
            help="`sft`: rollouts with a high reward. `pairs`: a better and a worse one of each task, by score. "
            "`preferences`: pairs that people compared in `sandlot view`. `rollouts`: exact tokens.",
        ),
    ],
    out: Annotated[
        Path | None, _Option("--out", metavar="FILE", help="A .jsonl or .parquet file. [default: RUN/exports/KIND.parquet]")
    ] = None,
    split: Annotated[Literal["train", "heldout", "all"], _Option("--split", help="Which tasks to export.")] = "train",
    least: Annotated[float, _Option("--least", help="Minimum reward of a rollout, for `sft`.")] = 1.0,
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """Export rollouts for other trainers (TRL, verl).

    Exit code 1 if no rollout qualified.
    """
    from sandlot.core.types import Split  # noqa: PLC0415 - as above
    from sandlot.interop.export import ExportKind, export_run  # noqa: PLC0415 - as above
    from sandlot.run.results import Run  # noqa: PLC0415 - help does not need it

    wanted = None if split == "all" else Split(split)
    written = export_run(Run(find_run(run, runs)), ExportKind(kind), out, split=wanted, least=least)
    if json:
        print_json(written)
    else:
        print(f"{written.rows} rows -> {written.file}" + (f"; {written.skipped} rollouts left out" if written.skipped else ""))
    raise typer.Exit(0 if written.rows else 1)
