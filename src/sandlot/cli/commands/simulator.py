"""`sandlot simulator`: validate a model that plays the user."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import Env, Json, SplitOnly, Task, app, print_finished

_Option = typer.Option


@app.command("simulator")
def _simulator(
    env: Env,
    user: Annotated[str, _Option("--user", metavar="MODEL", help="The model that plays the user, named as for `sandlot run`.")],
    labels: Annotated[
        Path | None,
        _Option(
            "--labels",
            metavar="FILE",
            help="Conversations labelled by people, JSON Lines: `task`, `agent` (its messages), `labels` (`done` or `goes on`).",
        ),
    ] = None,
    task: Task = None,
    split: SplitOnly = None,
    tasks: Annotated[int, _Option("--tasks", help="Maximum number of tasks to measure.")] = 10,
    repeats: Annotated[int, _Option("--repeats", help="How often each conversation about the end is repeated.")] = 3,
    temperature: Annotated[float, _Option("--temperature", help="Sampling temperature; use the one of your runs.")] = 0.7,
    max_tokens: Annotated[int, _Option("--max-tokens", help="Maximum tokens per reply.")] = 512,
    at_once: Annotated[int, _Option("--at-once", help="Maximum number of conversations in flight.")] = 8,
    max_flips: Annotated[
        float, _Option("--max-flips", help="Maximum share of conversations that may end differently when repeated.")
    ] = 0.05,
    max_leaks: Annotated[float, _Option("--max-leaks", help="Maximum share of replies that give a fact unasked.")] = 0.05,
    kappa: Annotated[float, _Option("--kappa", help="Minimum agreement with people on the end (Cohen's kappa).")] = 0.6,
    json: Json = False,
) -> None:
    """Validate a model that plays the user.

    Checks that it is consistent, gives its facts only when asked, ends the conversation at the right time and stays in its role.
    It is tested in short conversations whose correct outcome follows from the environment's personas, and in those that people
    labelled. Exit code 1 if a gate fails, 3 if too little is known.
    """
    from sandlot.calibrate.users.gates import SimulatorGates  # noqa: PLC0415 - help does not need it
    from sandlot.cli.views.simulator import simulate_watched  # noqa: PLC0415 - as above
    from sandlot.core.ports.model import Sampling  # noqa: PLC0415 - as above
    from sandlot.wiring.config import ModelConfig  # noqa: PLC0415 - as above

    finished = simulate_watched(
        env,
        ModelConfig(spec=user, sampling=Sampling(temperature=temperature, max_tokens=max_tokens)),
        labels=labels,
        tasks=tuple(task or ()),
        split=split,
        most=tasks,
        repeats=repeats,
        at_once=at_once,
        gates=SimulatorGates(flips=max_flips, unasked=max_leaks, kappa=kappa),
        quiet=json,
    )
    print_finished(lambda: finished, json=json)
