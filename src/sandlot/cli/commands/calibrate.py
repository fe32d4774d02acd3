"""`sandlot calibrate`: which tasks a model can learn from."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import (
    RUNS,
    AgentCommand,
    AtOnce,
    Calls,
    CallsAre,
    Env,
    Harness,
    Image,
    Json,
    Judge,
    KvGib,
    MaxTokens,
    MaxTotalTokens,
    Model,
    NumberType,
    OtherSetting,
    Place,
    Rubric,
    Runs,
    Sandbox,
    SplitOnly,
    Task,
    Temperature,
    Tokenizer,
    User,
    pair,
    print_json,
)
from sandlot.core.errors import StoreError

_Option = typer.Option


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("calibrate")(_calibrate)


def _calibrate(
    env: Env,
    model: Model,
    band: Annotated[str, _Option("--band", metavar="LOW:HIGH", help="Pass rates worth learning from.")] = "0.2:0.5",
    budget: Annotated[int | None, _Option("--budget", help="Maximum number of rollouts. [default: as many as it takes]")] = None,
    confidence: Annotated[float, _Option("--confidence", help="How sure a task's place must be.")] = 0.9,
    start: Annotated[int, _Option("--start", help="Rollouts of every task before anything is decided.")] = 4,
    cap: Annotated[int, _Option("--cap", help="Most rollouts of one task; then it is borderline.")] = 32,
    group: Annotated[int, _Option("--group", "-g", help="Rollouts of a group in training.")] = 8,
    family: Annotated[
        list[str] | None,
        _Option("--family", metavar="TAG", help="Tasks with this tag are alike; may be repeated. [default: by first tag]"),
    ] = None,
    threshold: Annotated[float, _Option("--threshold", help="A rollout passes from this reward on.")] = 1.0,
    grader_errors: Annotated[
        str, _Option("--grader-errors", metavar="FP:FN", help="How often the grader passes what is wrong, fails what is right.")
    ] = "0:0",
    curriculum: Annotated[Path | None, _Option("--curriculum", metavar="FILE", help="Write the curriculum here too.")] = None,
    task: Task = None,
    split: SplitOnly = None,
    image: Image = None,
    sandbox: Sandbox = "native",
    at_once: AtOnce = 64,
    user: User = None,
    judge: Judge = None,
    rubric: Rubric = None,
    temperature: Temperature = 1.0,
    max_tokens: MaxTokens = None,
    max_total_tokens: MaxTotalTokens = None,
    calls: Calls = CallsAre.NATIVE,
    harness: Harness = None,
    agent_command: AgentCommand = None,
    tokenizer: Tokenizer = None,
    kv_gib: KvGib = None,
    dtype: NumberType = None,
    other_setting: OtherSetting = False,
    place: Place = None,
    runs: Runs = RUNS,
    dry_run: Annotated[bool, _Option("--dry-run", help="Show the config, a forecast and the error rates; run nothing.")] = False,
    json: Json = False,
) -> None:
    """Place every training task by how often a model passes it: too hard, in the band, too easy.

    Takes as few rollouts as the answer needs, says how often it errs, and writes the curriculum that `sandlot train` reads. The
    same command continues; another band goes on with the rollouts that are there. Exit code 1 if the run was stopped as bad, a
    task could never be scored or there is nothing to learn from, 3 if it is incomplete.
    """
    from sandlot.calibrate.tasks.calibrate import CalibrationConfig  # noqa: PLC0415 - help does not need it
    from sandlot.calibrate.tasks.rule import Rule  # noqa: PLC0415 - as above
    from sandlot.cli.views.calibrate import calibrate_watched, show_forecast  # noqa: PLC0415 - as above
    from sandlot.core.ports.model import Sampling  # noqa: PLC0415 - as above
    from sandlot.run.config import RunConfig, Selection  # noqa: PLC0415 - as above
    from sandlot.wiring.config import AgentConfig, ModelConfig, judge_config, user_config  # noqa: PLC0415 - as above

    low, high = pair(band, "band")
    false_positive, false_negative = pair(grader_errors, "grader-errors")
    config = CalibrationConfig(
        run=RunConfig(
            env=env,
            model=ModelConfig(
                spec=model,
                sampling=Sampling(temperature=temperature, max_tokens=max_tokens),
                tokenizer=tokenizer,
                kv_gib=kv_gib,
                dtype=dtype,
                connections=max(at_once, 64),
                max_total_tokens=max_total_tokens,
            ),
            select=Selection(tasks=tuple(task or ()), split=split),
            agent=AgentConfig(
                harness=harness or ("command" if agent_command is not None else "tool-loop"),
                command=agent_command,
                calls="text" if calls is CallsAre.TEXT else "native",
            ),
            user=user_config(user),
            judge=judge_config(judge),
            rubric=rubric,
            image=image,
            sandbox=sandbox,
            at_once=at_once,
            other_setting=other_setting,
        ),
        rule=Rule(
            low=low,
            high=high,
            confidence=confidence,
            start=start,
            cap=cap,
            threshold=threshold,
            false_positive=false_positive,
            false_negative=false_negative,
        ),
        budget=budget,
        group=group,
        families=tuple(family or ()),
    )
    if dry_run:
        show_forecast(config, runs=runs, json=json)
        return
    try:
        finished = calibrate_watched(config, runs=runs, place=place, curriculum=curriculum, quiet=json)
    except StoreError as error:
        typer.echo(f"sandlot: {error}; what was finished is kept, and the same command continues", err=True)
        raise typer.Exit(3) from error
    if json:
        print_json(finished.machine)
    else:
        finished.show()
    raise typer.Exit(finished.exit_code)
