"""`sandlot run`: take rollouts of an environment's tasks, grade and store them."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandlot.cli.options import (
    RUNS,
    Envs,
    Json,
    MetricsPlace,
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
_On = Annotated[
    str,
    _Option(
        "--on",
        metavar="PLACE",
        help="Where rollouts are taken: `local`, this process, `processes:N` worker processes, `ray:N` or `ray:HOST:PORT`, or "
        "`workers:HOST:PORT`, where workers join (`sandlot worker`).",
    ),
]
_Weights = Annotated[
    str | None,
    _Option("--weights", metavar="W,W,...", help="With several environments: how much the need of each counts. [default: 1]"),
]


@app.command("run")
@add_run_options
def _run(
    context: typer.Context,
    options: RunOptions,
    envs: Envs = None,
    model: OptionalModel = None,
    rollouts: Annotated[
        int | None,
        _Option("--rollouts", "-n", help="Rollouts of each environment, spread over its tasks. [default: one per task]"),
    ] = None,
    group: Annotated[int | None, _Option("--group", "-g", help="Rollouts of each task.")] = None,
    seed: Annotated[
        int | None, _Option("--seed", help="Seed of sampling, not of tasks. [default: different in each run]")
    ] = None,
    weights: _Weights = None,
    config_file: Annotated[
        Path | None, _Option("--config", metavar="FILE", help="A whole run as `--dry-run` prints it, instead of ENV and options.")
    ] = None,
    for_training: Annotated[
        bool, _Option("--for-training", help="A model will be trained on it: refuse held-out tasks.")
    ] = False,
    approve: Annotated[
        bool, _Option("--approve", help="Let turns that the environment holds wait for a person: `sandlot approve`, or the page.")
    ] = False,
    on: _On = "local",
    place: Place = None,
    metrics: MetricsPlace = None,
    otlp: SpanReceiver = None,
    watch: WatchFile = None,
    runs: Runs = RUNS,
    dry_run: Annotated[bool, _Option("--dry-run", help="Print the resolved config and a forecast; run nothing.")] = False,
    json: Json = False,
) -> None:
    """Run a model on the tasks of one or more environments.

    Every rollout is graded and stored; each environment has a run of its own. The same command continues runs that were
    interrupted. Exit code 1 if any rollout failed, 3 if a run is incomplete.
    """
    from sandlot.cli.telemetry import open_telemetry  # noqa: PLC0415 - help does not need it
    from sandlot.cli.views.run import run_all_watched, run_watched, show_forecast  # noqa: PLC0415 - as above

    select = {"rollouts": rollouts, "group": group, "training": for_training}
    configs = _configs(context, options, envs or [], model, config_file, seed=seed, **select)
    shares = _weights(weights, len(configs))
    _require_one(configs, {"--run": place, "--approve": approve, "--dry-run --json": dry_run and json})
    if dry_run:
        for config in configs:
            show_forecast(config, runs=runs, json=json)
        return
    with open_telemetry(metrics, otlp, watch) as more:
        if len(configs) == 1:
            work = functools.partial(
                run_watched, configs[0], runs=runs, place=place, quiet=json, more=more.receive, approve=approve, on=on
            )
        else:
            work = functools.partial(run_all_watched, configs, shares, runs=runs, quiet=json, more=more.receive, on=on)
        print_finished(work, json=json, exit_code=more.exit_code)


def _configs(
    context: typer.Context,
    options: RunOptions,
    envs: list[str],
    model: str | None,
    config_file: Path | None,
    **select: Any,
) -> "list[RunConfig]":
    """The runs that are asked for: from the file, or from the options."""
    from sandlot.run.config import read_config  # noqa: PLC0415 - help does not need it

    if config_file is not None:
        _require_alone(context)
        return [read_config(config_file)]
    if not envs or model is None:
        missing = "--model" if envs else "ENV"
        raise typer.BadParameter(f"`{missing}` is missing; give an environment and a model, or a whole run with `--config FILE`")
    return [options.config(env, model, **select) for env in envs]


def _weights(given: str | None, count: int) -> list[float]:
    """One positive number for each environment."""
    if given is None:
        return [1.0] * count
    try:
        weights = [float(each) for each in given.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"`--weights {given}`: {error}; give numbers such as `2,1,1`") from error
    if len(weights) != count or not all(0 < weight < float("inf") for weight in weights):
        raise typer.BadParameter(f"`--weights {given}`: give one number above 0 for each of the {count} environments")
    return weights


def _require_one(configs: "list[RunConfig]", given: dict[str, Any]) -> None:
    """Refuse options that only make sense for one environment."""
    for name, value in given.items():
        if value and len(configs) > 1:
            raise typer.BadParameter(f"`{name}` is for one environment; this command names {len(configs)}")


def _require_alone(context: typer.Context) -> None:
    """Refuse options that describe a run if a config file describes it."""
    beside = {"on", "config_file", "runs", "place", "metrics", "otlp", "watch", "approve", "dry_run", "json"}
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in beside and source is not None and source.name == "COMMANDLINE":
            option = "ENV" if name == "envs" else f"--{name.replace('_', '-')}"
            raise typer.BadParameter(f"`--config` holds the whole run; leave `{option}` out, or change it in the file")
