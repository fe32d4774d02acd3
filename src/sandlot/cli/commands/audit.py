"""`sandlot audit`: check that an environment is sound."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sandlot.audit.finding import Layer
from sandlot.cli.options import RUNS, Json, Judge, Runs, User, app, find_run

_Option = typer.Option

# -- what is audited -----------------------------------------------------------------------------------------------------------

_Env = Annotated[
    str | None,
    typer.Argument(
        metavar="ENV",
        help="A path to an environment (file or folder), the name of a ready or installed one, or `KIND:SOURCE` "
        "(`sandlot import`).",
    ),
]
_Grader = Annotated[
    str | None,
    _Option("--grader", metavar="MODULE:FUNCTION", help="Audit a plain Python grader instead, or a `grader.toml`."),
]
_TaskFile = Annotated[
    str | None,
    _Option("--tasks", metavar="FILE", help="The grader's tasks as JSON Lines, with prompt and golden answer."),
]
_Mapping = Annotated[
    str | None,
    _Option(
        "--map",
        help="How the grader is called: `answer={answer} expected={golden} entry={task}`. [default: {answer} {golden}]",
    ),
]
_Gym = Annotated[
    str | None,
    _Option(
        "--gym",
        metavar="MODULE:MAKE",
        help="Audit a Gymnasium environment instead: a function that makes it, its registered id, or a `gym.toml`.",
    ),
]
_GymArgument = Annotated[
    list[str] | None,
    _Option("--gym-argument", metavar="NAME=VALUE", help="Argument for making it; a value is JSON, else text. May be repeated."),
]
_Solution = Annotated[
    str | None,
    _Option(
        "--solution",
        metavar="MODULE:FUNCTION",
        help="A policy that solves it: called with the environment, it returns a function from observation to action.",
    ),
]
_Seeds = Annotated[int | None, _Option("--seeds", help="Number of seeds to play it with; each is a task. [default: 8]")]
_Steps = Annotated[int | None, _Option("--steps", help="Maximum steps per rollout. [default: 200]")]
_Python = Annotated[
    str | None,
    _Option("--python", help="The Python interpreter for the grader or Gymnasium environment. [default: python3]"),
]
_WithoutSandbox = Annotated[
    bool, _Option("--without-sandbox", help="Run foreign code in a plain process: only for code you trust.")
]

# -- how far, and with what ----------------------------------------------------------------------------------------------------

_Limit = Annotated[int, _Option("--limit", help="Maximum number of tasks to play; a seeded sample if there are more.")]
_Budget = Annotated[
    str | None,
    _Option("--budget", metavar="TIME", help="Take at most about this long (`60s`, `5m`): the most telling probes first."),
]
_Jobs = Annotated[int | None, _Option("--jobs", "-j", help="Probes that run at the same time. [default: as many as processors]")]
_Task = Annotated[list[str] | None, _Option("--task", help="Play only this task; may be repeated.")]
_Layers = Annotated[list[Layer] | None, _Option("--layer", help="Only this layer; may be repeated.")]
_Probes = Annotated[list[str] | None, _Option("--probe", help="Only this probe; may be repeated.")]
_Seed = Annotated[int, _Option("--seed", help="Seed of every random choice the audit makes.")]
_Reference = Annotated[
    Path | None,
    _Option("--reference", metavar="FILE", help="Real records (jsonl, csv, parquet) to compare the tasks' data with."),
]
_Manifest = Annotated[Path | None, _Option("--manifest", metavar="FILE", help="Tools in production: a JSON list of MCP tools.")]
_Model = Annotated[str | None, _Option("--model", "-m", help="Let this model play too, and check the health of its rollouts.")]
_Attacker = Annotated[
    str | None,
    _Option(
        "--attacker",
        metavar="MODEL",
        help="A model that proposes attacks and other right answers, or `file:PATH` with proposals; the audit runs them.",
    ),
]
_AttackerReads = Annotated[
    str, _Option("--attacker-reads", help="`prompt`: what an agent sees; `code`: the author's source too.")
]
_Reviewed = Annotated[str | None, _Option("--reviewed", metavar="RUN", help="Use this run's labels from `sandlot triage`.")]
_Waivers = Annotated[
    Path | None,
    _Option("--waivers", metavar="FILE", help="A file with [[waiver]] tables. [default: the environment's `audit.toml`]"),
]
_Report = Annotated[
    list[Path] | None,
    _Option(
        "--report",
        metavar="FILE",
        help="Also write the report here. Formats by extension: .html, .md, .json, .sarif, .xml (JUnit). May be repeated.",
    ),
]
_Sandbox = Annotated[str, _Option("--sandbox", help="`native`, `docker`, or `docker:SOCKET`.")]
_Patience = Annotated[
    float,
    _Option(
        "--patience",
        help="Seconds without output after which a trial counts as hung; waiting for a busy processor does not count.",
    ),
]
_Fix = Annotated[
    bool,
    _Option("--fix", help="Propose small changes of your files that remove confirmed defects, each tested, as a diff."),
]
_Write = Annotated[bool, _Option("--write", help="With --fix: write the changes into your files.")]
_Rounds = Annotated[int, _Option("--rounds", min=1, help="With --fix: at most so many changes, each attacked by a whole audit.")]
_ListProbes = Annotated[bool, _Option("--list-probes", help="List the probes and exit.")]


@app.command("audit")
def _audit(
    env: _Env = None,
    grader: _Grader = None,
    tasks: _TaskFile = None,
    mapping: _Mapping = None,
    gym: _Gym = None,
    gym_argument: _GymArgument = None,
    solution: _Solution = None,
    seeds: _Seeds = None,
    steps: _Steps = None,
    python: _Python = None,
    without_sandbox: _WithoutSandbox = False,
    limit: _Limit = 100,
    budget: _Budget = None,
    jobs: _Jobs = None,
    task: _Task = None,
    layer: _Layers = None,
    probe: _Probes = None,
    seed: _Seed = 0,
    judge: Judge = None,
    user: User = None,
    reference: _Reference = None,
    manifest: _Manifest = None,
    model: _Model = None,
    attacker: _Attacker = None,
    attacker_reads: _AttackerReads = "prompt",
    reviewed: _Reviewed = None,
    waivers: _Waivers = None,
    report: _Report = None,
    sandbox: _Sandbox = "native",
    patience: _Patience = 60.0,
    runs: Runs = RUNS,
    fix: _Fix = False,
    write: _Write = False,
    rounds: _Rounds = 3,
    list_probes: _ListProbes = False,
    json: Json = False,
) -> None:
    """Look for defects in an environment or a grader.

    The verdict is SHIP (exit code 0), FIX (1) or INCOMPLETE (3). The report, below `runs/audits/`, is valid until the environment
    changes. The same command continues an interrupted audit. --fix also proposes changes of your files, and takes longer.
    """
    from sandlot.audit.subjects.named import SubjectOptions, read_argument  # noqa: PLC0415 - help does not need it
    from sandlot.cli.views.audit import Progress, print_probes  # noqa: PLC0415 - as above
    from sandlot.cli.views.repair import print_found  # noqa: PLC0415 - as above

    if list_probes:
        return print_probes(json=json)
    arguments = dict(map(read_argument, gym_argument or ()))
    subject = SubjectOptions(env, grader, tasks, mapping, gym, arguments, solution, seeds, steps, python, without_sandbox)
    options: dict[str, Any] = {
        "tasks": task or (), "limit": limit, "budget": budget, "jobs": jobs, "layers": layer or (),
        "probes": probe or (), "seed": seed, "judge": judge, "user": user, "model": model, "attacker": attacker,
        "attacker_reads": attacker_reads, "reviewed": find_run(reviewed, runs) if reviewed else None, "reference": reference,
        "manifest": manifest, "waivers": waivers, "reports": report or (), "sandbox": sandbox, "patience_s": patience,
        "runs": runs, "sink": Progress(quiet=json).receive,
    }  # fmt: skip
    found, repaired = _look(subject, options, rounds if fix else 0, write=write)
    raise typer.Exit(print_found(found, repaired, None if task or layer or probe else runs, json=json))


def _look(subject: Any, options: dict[str, Any], rounds: int, *, write: bool) -> tuple[Any, Any]:
    """The audit, and what `--fix` proposes; None without it."""
    from sandlot.audit.audit import audit  # noqa: PLC0415 - help does not need it
    from sandlot.audit.repair.repair import repair  # noqa: PLC0415 - as above
    from sandlot.core.errors import ConfigError  # noqa: PLC0415 - as above

    if write and not rounds:
        raise ConfigError("--write is only for --fix")
    kept = not (rounds or options["tasks"] or options["layers"] or options["probes"])
    try:
        return repair(subject, rounds=rounds, write=write, **options) if rounds else (audit(subject, **options), None)
    except KeyboardInterrupt:
        typer.echo("sandlot: stopped" + "; finished probes are kept, and the same command continues" * kept, err=True)
        raise
