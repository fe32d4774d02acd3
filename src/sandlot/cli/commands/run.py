"""`sandlot run`: take rollouts of an environment's tasks, grade and store them."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandlot.cli.options import (
    RUNS,
    Json,
    MetricsPlace,
    OptionalEnv,
    OptionalModel,
    Place,
    RunOptions,
    Runs,
    SpanReceiver,
    WatchFile,
    add_run_options,
    app,
    print_finished,
)

if TYPE_CHECKING:
    from sandlot.run.config import RunConfig

_Option = typer.Option


@app.command("run")
@add_run_options
def _run(
    context: typer.Context,
    options: RunOptions,
    env: OptionalEnv = None,
    model: OptionalModel = None,
    rollouts: Annotated[
        int | None, _Option("--rollouts", "-n", help="Total number of rollouts, spread over the tasks. [default: one per task]")
    ] = None,
    group: Annotated[int | None, _Option("--group", "-g", help="Rollouts of each task.")] = None,
    seed: Annotated[
        int | None, _Option("--seed", help="Seed of sampling, not of tasks. [default: different in each run]")
    ] = None,
    config_file: Annotated[
        Path | None, _Option("--config", metavar="FILE", help="A whole run as `--dry-run` prints it, instead of ENV and options.")
    ] = None,
    for_training: Annotated[
        bool, _Option("--for-training", help="A model will be trained on it: refuse held-out tasks.")
    ] = False,
    approve: Annotated[
        bool, _Option("--approve", help="Let turns that the environment holds wait for a person: `sandlot approve`, or the page.")
    ] = False,
    place: Place = None,
    metrics: MetricsPlace = None,
    otlp: SpanReceiver = None,
    watch: WatchFile = None,
    runs: Runs = RUNS,
    dry_run: Annotated[bool, _Option("--dry-run", help="Print the resolved config and a forecast; run nothing.")] = False,
    json: Json = False,
) -> None:
    """Run a model on an environment's tasks.

    Every rollout is graded and stored. The same command continues a run that was interrupted. Exit code 1 if any
    rollout failed, 3 if the run is incomplete.
    """
    from sandlot.cli.telemetry import open_telemetry  # noqa: PLC0415 - help does not need it
    from sandlot.cli.views.run import run_watched, show_forecast  # noqa: PLC0415 - as above

    config = _config(context, options, env, model, config_file, seed=seed, rollouts=rollouts, group=group, training=for_training)
    if dry_run:
        show_forecast(config, runs=runs, json=json)
    else:
        with open_telemetry(metrics, otlp, watch) as more:
            work = functools.partial(run_watched, config, runs=runs, place=place, quiet=json, more=more.receive, approve=approve)
            print_finished(work, json=json, exit_code=more.exit_code)


def _config(
    context: typer.Context,
    options: RunOptions,
    env: str | None,
    model: str | None,
    config_file: Path | None,
    **select: Any,
) -> "RunConfig":
    """The run that is asked for: from the file, or from the options."""
    from sandlot.run.config import read_config  # noqa: PLC0415 - help does not need it

    if config_file is not None:
        _require_alone(context)
        return read_config(config_file)
    if env is None or model is None:
        missing = "ENV" if env is None else "--model"
        raise typer.BadParameter(f"`{missing}` is missing; give an environment and a model, or a whole run with `--config FILE`")
    return options.config(env, model, **select)


def _require_alone(context: typer.Context) -> None:
    """Refuse options that describe a run if a config file describes it."""
    beside = {"config_file", "runs", "place", "metrics", "otlp", "watch", "approve", "dry_run", "json"}
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in beside and source is not None and source.name == "COMMANDLINE":
            option = "ENV" if name == "env" else f"--{name.replace('_', '-')}"
            raise typer.BadParameter(f"`--config` holds the whole run; leave `{option}` out, or change it in the file")
