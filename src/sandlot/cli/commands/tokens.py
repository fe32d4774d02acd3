"""`sandlot tokens`: check the stored tokens of a run."""

from typing import Annotated

import typer

from sandlot.cli.options import RUNS, Json, RunPath, Runs, app, find_run, print_json


@app.command("tokens")
def _tokens(
    run: RunPath,
    model: Annotated[
        str | None,
        typer.Option("--model", help="The model it was sampled from, on this machine: `hf:FOLDER`, `smollm2`, `rookie`."),
    ] = None,
    gate: Annotated[
        str | None,
        typer.Option(
            "--gate",
            help="Tolerance: `fp32` if the same code sampled in fp32, `bf16` otherwise. [default: by how it was sampled]",
        ),
    ] = None,
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """Check the stored tokens of a run.

    Always checks lengths, masks, versions and branches. With `--model`, the prompts are rendered again and the
    log-probabilities computed again, to find token boundaries and numbers that are wrong. Exit code 1 if anything is wrong.
    """
    from sandlot.analysis.tokens.audit import check_tokens  # noqa: PLC0415 - as above
    from sandlot.cli.views.tokens import as_json, print_audit  # noqa: PLC0415 - help does not need it
    from sandlot.run.results import Run  # noqa: PLC0415 - as above

    audit = check_tokens(Run(find_run(run, runs)), model, gate=gate)
    if json:
        print_json(as_json(audit))
    else:
        print_audit(audit)
    raise typer.Exit(0 if audit.verdict == "sound" else 1)
