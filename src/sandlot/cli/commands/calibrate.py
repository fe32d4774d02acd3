"""`sandlot calibrate`: how often a model passes each task, and which tasks are worth training on."""

import functools
from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import (
    RUNS,
    Env,
    Json,
    MetricsPlace,
    Model,
    Place,
    RunOptions,
    Runs,
    SpanReceiver,
    WatchFile,
    add_run_options,
    app,
    parse_pair,
    print_finished,
)

_Option = typer.Option


@app.command("calibrate")
@add_run_options
def _calibrate(
    options: RunOptions,
    env: Env,
    model: Model,
    band: Annotated[str, _Option("--band", metavar="LOW:HIGH", help="Pass rates worth training on.")] = "0.2:0.5",
    budget: Annotated[int | None, _Option("--budget", help="Maximum number of rollouts. [default: as many as it takes]")] = None,
    confidence: Annotated[float, _Option("--confidence", help="Probability that a task's label must reach.")] = 0.9,
    start: Annotated[int, _Option("--start", help="First rollouts of every task, before any label.")] = 4,
    cap: Annotated[int, _Option("--cap", help="Maximum rollouts of one task; after that it is borderline.")] = 32,
    group: Annotated[int, _Option("--group", "-g", help="Rollouts per group in training, for the forecast.")] = 8,
    family: Annotated[
        list[str] | None,
        _Option("--family", metavar="TAG", help="Tasks with this tag form a family; may be repeated. [default: by first tag]"),
    ] = None,
    threshold: Annotated[float, _Option("--threshold", help="Reward from which a rollout passes.")] = 1.0,
    grader_errors: Annotated[
        str, _Option("--grader-errors", metavar="FP:FN", help="The grader's false-positive and false-negative rates.")
    ] = "0:0",
    curriculum: Annotated[Path | None, _Option("--curriculum", metavar="FILE", help="Write the curriculum here too.")] = None,
    place: Place = None,
    metrics: MetricsPlace = None,
    otlp: SpanReceiver = None,
    watch: WatchFile = None,
    runs: Runs = RUNS,
    dry_run: Annotated[bool, _Option("--dry-run", help="Print the config, a forecast and the error rates; run nothing.")] = False,
    json: Json = False,
) -> None:
    """Find the training tasks at the right difficulty for a model.

    Measures how often the model passes each task, and places the task below, in or above the band. Takes as few rollouts as that
    needs, prints the error rates, and writes the curriculum that `sandlot train` reads. The same command continues a calibration
    that was interrupted; another band reuses its rollouts. Exit code 1 if too many rollouts failed, a task has no score or no
    task is in the band, 3 if it is incomplete.
    """
    from sandlot.calibrate.tasks.calibrate import CalibrationConfig  # noqa: PLC0415 - help does not need it
    from sandlot.calibrate.tasks.rule import Rule  # noqa: PLC0415 - as above
    from sandlot.cli.telemetry import open_telemetry  # noqa: PLC0415 - as above
    from sandlot.cli.views.calibrate import calibrate_watched, show_forecast  # noqa: PLC0415 - as above

    low, high = parse_pair(band, "band")
    false_positive, false_negative = parse_pair(grader_errors, "grader-errors")
    rule = Rule(
        low=low, high=high, confidence=confidence, start=start, cap=cap, threshold=threshold,
        false_positive=false_positive, false_negative=false_negative,
    )  # fmt: skip
    run = options.config(env, model)
    config = CalibrationConfig(run=run, rule=rule, budget=budget, group=group, families=tuple(family or ()))
    if dry_run:
        show_forecast(config, runs=runs, json=json)
    else:
        work = functools.partial(calibrate_watched, config, runs=runs, place=place, curriculum=curriculum, quiet=json)
        with open_telemetry(metrics, otlp, watch) as more:
            print_finished(lambda: work(more=more.receive), json=json, exit_code=more.exit_code)
