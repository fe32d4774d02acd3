"""Simulated runs on the screen: one line per set of rules."""

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from sandlot.run.simulate.result import SimulatedRun


def print_simulation(found: Mapping[str, SimulatedRun]) -> None:
    """Print a table, fastest first."""
    console = Console(highlight=False)
    first, any_of = next(iter(found.items()))
    console.print(f"{any_of.rollouts:,} rollouts; no schedule can be faster than {_seconds(any_of.bound_s)}")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("rules", "time", "to bound", "last tenth", "busy", "moved", "prefilled", "sent away"):
        table.add_column(name, justify="left" if name == "rules" else "right")
    for name, run in sorted(found.items(), key=lambda item: item[1].makespan_s):
        table.add_row(
            name,
            _seconds(run.makespan_s),
            f"{run.ratio:.2f}",
            _seconds(run.tail_s),
            f"{run.utilisation:.0%}",
            f"{run.moved_tokens / 1e6:,.0f}M",
            f"{run.prefilled_tokens / 1e6:,.1f}M",
            f"{run.sent_away:,}",
        )
    console.print(table)
    if any_of.deaths:
        console.print(f"[dim]instances that died under `{first}`: {any_of.deaths}[/]")


def _seconds(value: float) -> str:
    return f"{value:,.0f} s" if value >= 10 else f"{value:.2g} s"
