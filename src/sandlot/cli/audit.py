"""`sandlot audit`: whether an environment is sound, before a model learns its flaws."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.audit.finding import Layer
from sandlot.cli.options import RUNS, Json, Judge, Runs, run_path

Option = typer.Option


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("audit")(audit)


def audit(
    env: Annotated[
        str | None,
        typer.Argument(metavar="[ENV]", help="A path to an environment (file or folder), or the name of an installed one."),
    ] = None,
    grader: Annotated[
        str | None,
        Option("--grader", metavar="MODULE:FUNCTION", help="Audit a plain Python grader instead, or a `grader.toml`."),
    ] = None,
    tasks: Annotated[
        str | None,
        Option("--tasks", metavar="FILE", help="Its tasks: a JSON object a line, with prompt and golden answer."),
    ] = None,
    mapping: Annotated[
        str | None,
        Option(
            "--map",
            help="How it is called: `answer={answer} expected={golden} entry={task}`. [default: {answer} {golden}]",
        ),
    ] = None,
    python: Annotated[
        str | None, Option("--python", help="The Python that has what the grader imports. [default: python3]")
    ] = None,
    without_sandbox: Annotated[
        bool, Option("--without-sandbox", help="Run the grader in a plain process: only for code you trust.")
    ] = False,
    limit: Annotated[int, Option("--limit", help="Most tasks that are played; a seeded choice of more.")] = 100,
    task: Annotated[list[str] | None, Option("--task", help="Play only this task; may be repeated.")] = None,
    layer: Annotated[list[Layer] | None, Option("--layer", help="Only this layer; may be repeated.")] = None,
    probe: Annotated[list[str] | None, Option("--probe", help="Only this probe, as a finding names it; may be repeated.")] = None,
    seed: Annotated[int, Option("--seed", help="Of every random choice the audit makes.")] = 0,
    judge: Judge = None,
    reference: Annotated[
        Path | None,
        Option("--reference", metavar="FILE", help="Real records (jsonl, csv, parquet) to compare the tasks' data with."),
    ] = None,
    manifest: Annotated[
        Path | None, Option("--manifest", metavar="FILE", help="The tools as production serves them: a JSON list of MCP tools.")
    ] = None,
    model: Annotated[
        str | None, Option("--model", "-m", help="Let this model play too, and look at the health of its rollouts.")
    ] = None,
    reviewed: Annotated[
        str | None, Option("--reviewed", metavar="RUN", help="Take in what people labelled with `sandlot triage`.")
    ] = None,
    sandbox: Annotated[str, Option("--sandbox", help="`native`, `docker`, or `docker:SOCKET`.")] = "native",
    patience: Annotated[float, Option("--patience", help="Seconds without a sign of life after which a trial is lost.")] = 60.0,
    runs: Runs = RUNS,
    list_probes: Annotated[bool, Option("--list-probes", help="Print what would be looked for, and leave.")] = False,
    json: Json = False,
) -> None:
    """Judge an environment: SHIP (exit code 0), FIX (1) or INCOMPLETE (3).

    Layers run from cheap to dear: static, grader, scripted, differential. Every finding has a witness and a command that shows it
    again. The report (JSON, Markdown, HTML) is kept below `runs/audits/` and speaks for exactly these bytes: a changed
    environment voids it.
    """
    from sandlot.cli.judging import Asked, audited, named, print_probes, show  # noqa: PLC0415 - help does not need it

    if list_probes:
        print_probes(json=json)
        return
    asked = Asked(
        what=named(env, grader, tasks, mapping, python, without_sandbox=without_sandbox),
        limit=limit,
        tasks=tuple(task or ()),
        layers=tuple(layer or ()),
        probes=tuple(probe or ()),
        seed=seed,
        judge=judge,
        reference=reference,
        manifest=manifest,
        model=model,
        reviewed=run_path(reviewed, runs) if reviewed else None,
        sandbox=sandbox,
        patience_s=patience,
        runs=runs,
    )
    result, folder = audited(asked, quiet=json)
    show(result, folder, json=json)
    raise typer.Exit(result.verdict.exit_code)
