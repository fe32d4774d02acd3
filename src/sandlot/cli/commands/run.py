"""`sandlot run`: many attempts at an environment's tasks, graded and kept."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandlot.cli.options import (
    RUNS,
    AgentCommand,
    AtOnce,
    Calls,
    CallsAre,
    Harness,
    Image,
    Json,
    Judge,
    KvGib,
    MaxTokens,
    MaxTotalTokens,
    NumberType,
    OptionalEnv,
    OptionalModel,
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
    print_json,
)
from sandlot.core.errors import StoreError

if TYPE_CHECKING:
    from sandlot.run.config import RunConfig

Option = typer.Option


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(run)


def run(
    context: typer.Context,
    env: OptionalEnv = None,
    model: OptionalModel = None,
    rollouts: Annotated[
        int | None, Option("--rollouts", "-n", help="Rollouts in all, spread over the tasks. [default: one a task]")
    ] = None,
    group: Annotated[int | None, Option("--group", "-g", help="Rollouts of each task.")] = None,
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
    max_usd: Annotated[
        float | None, Option("--max-usd", help="Stop when the run's agent has cost this much; needs --price.")
    ] = None,
    price: Annotated[
        str | None, Option("--price", metavar="IN/OUT", help="USD per million prompt/completion tokens, `0.5/1.5`.")
    ] = None,
    calls: Calls = CallsAre.NATIVE,
    harness: Harness = None,
    agent_command: AgentCommand = None,
    tokenizer: Tokenizer = None,
    kv_gib: KvGib = None,
    dtype: NumberType = None,
    other_setting: OtherSetting = False,
    hook: Annotated[list[str] | None, Option("--hook", help="`module:attribute` of a hook; may be repeated.")] = None,
    seed: Annotated[
        int | None, Option("--seed", help="Of what models draw: the same seed, the same draws. [default: anew for each run]")
    ] = None,
    config_file: Annotated[
        Path | None, Option("--config", metavar="FILE", help="A whole run as `--dry-run` prints it, instead of ENV and options.")
    ] = None,
    for_training: Annotated[
        bool, Option("--for-training", help="A model will learn from it: held-out tasks are refused.")
    ] = False,
    place: Place = None,
    runs: Runs = RUNS,
    dry_run: Annotated[bool, Option("--dry-run", help="Show the resolved config and a forecast; run nothing.")] = False,
    json: Json = False,
) -> None:
    """Take many rollouts with a model; grade and keep all.

    The same command continues a run that was interrupted. Exit code 1 if the run was stopped as bad or any rollout failed,
    3 if it is incomplete.
    """
    from sandlot.core.ports.model import Sampling  # noqa: PLC0415 - as above
    from sandlot.run.config import RunConfig, Selection, read_config  # noqa: PLC0415 - as above
    from sandlot.wiring.config import AgentConfig, ModelConfig, judge_config, user_config  # noqa: PLC0415 - as above
    from sandlot.wiring.models import parse_prices  # noqa: PLC0415 - as above

    if config_file is not None:
        _require_alone(context)
        _run(read_config(config_file), runs=runs, place=place, dry_run=dry_run, json=json)
        return
    if env is None or model is None:
        missing = "ENV" if env is None else "--model"
        raise typer.BadParameter(f"`{missing}` is missing; give an environment and a model, or a whole run with `--config FILE`")
    sampling = Sampling(temperature=temperature, max_tokens=max_tokens)
    prompt_price, completion_price = parse_prices(price)
    config = RunConfig(
        env=env,
        model=ModelConfig(
            spec=model,
            sampling=sampling,
            tokenizer=tokenizer,
            kv_gib=kv_gib,
            dtype=dtype,
            connections=max(at_once, 64),
            max_total_tokens=max_total_tokens,
            max_usd=max_usd,
            usd_per_million_prompt=prompt_price,
            usd_per_million_completion=completion_price,
        ),
        select=Selection(tasks=tuple(task or ()), split=split, rollouts=rollouts, group=group, training=for_training),
        agent=AgentConfig(
            harness=harness or ("command" if agent_command is not None else "tool-loop"),
            command=agent_command,
            calls="text" if calls is CallsAre.TEXT else "native",
            hooks=tuple(hook or ()),
        ),
        user=user_config(user),
        judge=judge_config(judge),
        rubric=rubric,
        image=image,
        sandbox=sandbox,
        at_once=at_once,
        seed=seed,
        other_setting=other_setting,
    )
    _run(config, runs=runs, place=place, dry_run=dry_run, json=json)


def _require_alone(context: typer.Context) -> None:
    """Refuse options that say what is run beside a file that says it."""
    beside = {"config_file", "runs", "place", "dry_run", "json"}
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in beside and source is not None and source.name == "COMMANDLINE":
            option = "ENV" if name == "env" else f"--{name.replace('_', '-')}"
            raise typer.BadParameter(f"`--config` holds the whole run; leave `{option}` out, or change it in the file")


def _run(config: "RunConfig", *, runs: Path, place: Path | None, dry_run: bool, json: bool) -> None:
    from sandlot.cli.views.run import run_watched, show_forecast  # noqa: PLC0415 - help does not need the run

    if dry_run:
        show_forecast(config, runs=runs, json=json)
        return
    try:
        finished = run_watched(config, runs=runs, place=place, quiet=json)
    except StoreError as error:
        typer.echo(f"sandlot: {error}; what was finished is kept, and the same command continues", err=True)
        raise typer.Exit(3) from error
    if json:
        print_json(finished.machine)
    else:
        finished.show()
    raise typer.Exit(finished.exit_code)
