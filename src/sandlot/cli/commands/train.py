"""`sandlot train`: train a model on graded rollouts, by a recipe."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandlot.cli.options import RUNS, Json, MetricsPlace, Runs, SpanReceiver, WatchFile, app
from sandlot.core.errors import HarnessError, StoreError

if TYPE_CHECKING:
    from sandlot.train.recipe import Recipe

_Option = typer.Option
_RecipePath = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE", help="`path.py` or `path.py:function`: a function (default: `recipe`) that returns a `Recipe`."
    ),
]
_Adapt = Annotated[
    bool, _Option("--adapt", help="Find out how many rollouts in flight the model and the machine can take, up to `at_once`.")
]


@app.command("train")
def _train(
    recipe: _RecipePath,
    place: Annotated[Path | None, _Option("--run", metavar="DIR", help="The run directory. [default: runs/NAME]")] = None,
    steps: Annotated[int | None, _Option("--steps", help="Number of steps. [default: the recipe's]")] = None,
    seed: Annotated[int | None, _Option("--seed", help="Seed of task order and sampling. [default: the recipe's]")] = None,
    curriculum: Annotated[
        Path | None,
        _Option("--curriculum", metavar="FILE", help="Train only on the tasks in this `curriculum.json` of `sandlot calibrate`."),
    ] = None,
    tracker: Annotated[
        str | None,
        _Option(
            "--track",
            metavar="TRACKER",
            help="Also send metrics to `tensorboard`, `mlflow`, `wandb` (offline) or an installed tracker.",
        ),
    ] = None,
    adapt: _Adapt = False,
    audited: Annotated[
        bool, _Option("--require-audit", help="Train only if `sandlot audit` gave the environment, unchanged, the verdict SHIP.")
    ] = False,
    metrics: MetricsPlace = None,
    otlp: SpanReceiver = None,
    watch: WatchFile = None,
    runs: Runs = RUNS,
    dry_run: Annotated[bool, _Option("--dry-run", help="Print the resolved recipe; train nothing.")] = False,
    json: Json = False,
) -> None:
    """Train a model on an environment, by a recipe.

    Held-out tasks are measured before, during and after training, and a report is written. The same command continues a run
    that was interrupted. Exit code 1 if too many rollouts failed, no group was informative for long, or an alarm was
    raised; 3 if it is incomplete.
    """
    from sandlot.cli.telemetry import open_telemetry  # noqa: PLC0415 - help does not need it
    from sandlot.cli.views.train import show_recipe, train_watched  # noqa: PLC0415 - help does not need torch
    from sandlot.train.parallel.ranks import is_leader  # noqa: PLC0415 - as above
    from sandlot.train.recipe import load_recipe  # noqa: PLC0415 - as above
    from sandlot.train.train import train as follow  # noqa: PLC0415 - as above

    changed = {"steps": steps, "seed": seed, "curriculum": curriculum, "tracker": tracker, "adapt": adapt or None}
    made = load_recipe(recipe).but(**{name: value for name, value in changed.items() if value is not None})
    if audited:
        _require_audit(made, runs)
    if dry_run:
        if is_leader():
            show_recipe(made, place, json=json)
        return
    try:
        if not is_leader():
            follow(made, run=place)  # one of the further processes of `torchrun`: the first one shows how it goes
            return
        with open_telemetry(metrics, otlp, watch) as more:
            finished = train_watched(made, place=place, quiet=json, more=more.receive)
            code = more.exit_code(finished.exit_code)
    except (StoreError, HarnessError) as error:
        typer.echo(f"sandlot: {error}; what was finished is kept, and the same command continues", err=True)
        raise typer.Exit(3) from error
    finished.show(json=json)
    raise typer.Exit(code)


def _require_audit(recipe: "Recipe", runs: Path) -> None:
    from sandlot.audit.reports.folder import require_audit  # noqa: PLC0415 - only who asks for it pays for it

    for each in recipe.environments:
        require_audit(each.env, runs)
