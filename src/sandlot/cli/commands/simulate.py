"""`sandlot simulate`: how long a fleet of model instances would take, by scheduling rule."""

import sys
from typing import Annotated

import typer

from sandlot.cli.options import Json, app, print_result


@app.command("simulate")
def _simulate(
    workload: Annotated[
        str, typer.Argument(metavar="WORKLOAD", help="`moonlight`, `qwen2-vl`, `kimi-k2`, or `custom`.")
    ] = "custom",
    rules: Annotated[list[str] | None, typer.Option("--rules", help="Only these rules; may be repeated. [default: all]")] = None,
    instances: Annotated[int, typer.Option(help="Model instances.")] = 32,
    cache_tokens: Annotated[int, typer.Option(help="Tokens of keys and values that an instance holds.")] = 700_000,
    groups: Annotated[int | None, typer.Option(help="Groups of rollouts. [custom: 400]")] = None,
    group_size: Annotated[int | None, typer.Option(help="Rollouts per group. [custom: 8]")] = None,
    mean: Annotated[float | None, typer.Option(help="Mean tokens per rollout. [custom: 8000]")] = None,
    longest: Annotated[int | None, typer.Option(help="Maximum tokens per rollout. [custom: 32768]")] = None,
    between: Annotated[float | None, typer.Option(help="Standard deviation of log lengths between groups. [custom: 0.8]")] = None,
    within: Annotated[float | None, typer.Option(help="The same inside a group. [custom: 0.25]")] = None,
    turns: Annotated[int | None, typer.Option(help="Turns per rollout. [1]")] = None,
    tool_s: Annotated[float | None, typer.Option(help="Mean seconds of a tool call. [0]")] = None,
    failures_per_hour: Annotated[float, typer.Option(help="How often an instance dies.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the workload.")] = 0,
    json: Json = False,
) -> None:
    """Simulate rollouts on a fleet of model instances under several scheduling rules.

    Prints for each: time, ratio to a lower bound, time of the last tenth, use of the instances, cache tokens moved. Instances are
    described by the time of a decode step; see docs/guides/simulate.md.
    """
    from sandlot.cli.views.simulate import print_simulation  # noqa: PLC0415 - help does not need it
    from sandlot.run.simulate.fleet import Fleet  # noqa: PLC0415 - as above
    from sandlot.run.simulate.simulation import compare_rules  # noqa: PLC0415 - as above
    from sandlot.run.simulate.workload import describe_workload, make_workload  # noqa: PLC0415 - as above

    model = describe_workload(
        workload,
        groups=groups,
        group_size=group_size,
        mean=mean,
        longest=longest,
        between=between,
        within=within,
        turns=turns,
        tool_s=tool_s,
    )
    fleet = Fleet(instances=instances, cache_tokens=cache_tokens, failures_per_hour=failures_per_hour)
    made = make_workload(workload, model, seed)
    found = compare_rules(made, fleet, rules or (), done=lambda name: print(f"{name}: done", file=sys.stderr))
    print_result(found, print_simulation, json=json)
