"""The output of `sandlot simulator`: progress, then each figure with its gate."""

import functools
from typing import Any

from rich.console import Console
from rich.markup import escape

from sandlot.calibrate.judges.gates import GateState, Validation
from sandlot.calibrate.users.simulator import SimulatorQuality
from sandlot.calibrate.users.validate import validate_user
from sandlot.cli.options import authors_on_stderr
from sandlot.cli.views.judge import STYLES, GatedResult, people_lines, percent, print_gates
from sandlot.cli.views.summary import clean
from sandlot.core.concurrency.blocking import run_interruptible
from sandlot.wiring.config import ModelConfig


def simulate_watched(env: str, user: ModelConfig, *, quiet: bool, **how: Any) -> GatedResult:
    """Validate it (`how` is for `validate_user`), showing on stderr what it plays."""
    console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)

    def begin(tasks: int, conversations: int) -> None:
        console.print(
            f"[bold]{escape(user.shown)}[/] plays the users of {tasks} tasks in {conversations} conversations, some repeated"
        )

    with authors_on_stderr(), console.status("talking"):
        found = run_interruptible(functools.partial(validate_user, env, user, begin=begin, **how))
    return GatedResult(found, functools.partial(_print_simulator, found))


def _print_simulator(found: Validation[SimulatorQuality]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    quality, standing = found.quality, found.standing
    said = {GateState.PASS: "passes", GateState.FAIL: "fails", GateState.UNCALIBRATED: "unknown: too little data"}[standing]
    console.print(f"user [bold]{escape(quality.user)}[/]: [{STYLES[standing]}]{said}[/]")
    console.print(f"[dim]    tested[/]  in {quality.calls:,} conversations as the users of {quality.tasks} tasks")
    print_gates(console, found.gates)
    kappa = "" if quality.fleiss is None else f"; kappa (Fleiss) [bold]{quality.fleiss:.2f}[/]"
    lines = [("repeated", f"ends differently {percent(quality.flips)}{kappa}")]
    lines.append(("ends", f"too early {percent(quality.premature)}; not when done {percent(quality.missing)}"))
    lines.append(("facts", f"given when asked {percent(quality.facts)}; given unasked {percent(quality.unasked)}"))
    lines += people_lines(quality.agreements)
    lines += [(name, f"[dim]example:[/] {escape(clean(example))}") for name, example in quality.examples.items()]
    for name, value in lines:
        console.print(f"[dim]{name:>10}[/]  {value}")
