"""The output of `sandlot judge`: progress, then each figure with its interval and its gate."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sandlot.calibrate.judges.gates import Gates, GateState, JudgeGate, Validation
from sandlot.calibrate.judges.judge import Probing, Quality
from sandlot.calibrate.judges.labels import Agreement
from sandlot.calibrate.judges.validate import validate_judge
from sandlot.cli.options import authors_on_stderr
from sandlot.core.concurrency.blocking import run_interruptible
from sandlot.core.stats.intervals import Interval
from sandlot.wiring.config import ModelConfig

STYLES = {GateState.PASS: "green", GateState.FAIL: "bold red", GateState.UNCALIBRATED: "yellow"}


@dataclass(frozen=True, slots=True)
class GatedResult:
    """A judge or a simulated user that was validated."""

    validation: Validation[Any]
    show: Callable[[], None]
    """Prints the result for a person."""

    @property
    def machine(self) -> Any:
        """The object `--json` prints."""
        quality, gates = msgspec.to_builtins(self.validation.quality), msgspec.to_builtins(self.validation.gates)
        return {**quality, "gates": gates, "verdict": self.validation.standing}

    @property
    def exit_code(self) -> int:
        """0 fine, 1 a gate failed, 3 too little is known."""
        return {GateState.PASS: 0, GateState.FAIL: 1, GateState.UNCALIBRATED: 3}[self.validation.standing]


def judge_watched(
    what: Path, judge: ModelConfig, *, labels: Path | None, probing: Probing, gates: Gates, quiet: bool
) -> GatedResult:
    """Validate it, showing on stderr what it is asked about."""
    console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)

    def begin(items: int, labelled: int) -> None:
        console.print(f"asking [bold]{escape(judge.shown)}[/] about {items} items, {labelled} of them labelled by people")

    asking = functools.partial(validate_judge, what, judge, labels=labels, probing=probing, gates=gates, begin=begin)
    with authors_on_stderr(), console.status("asking"):
        found = run_interruptible(asking)
    return GatedResult(found, functools.partial(_print_quality, found))


def _print_quality(found: Validation[Quality]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    quality, standing = found.quality, found.standing
    said = {GateState.PASS: "passes", GateState.FAIL: "fails", GateState.UNCALIBRATED: "unknown: too few labels"}[standing]
    console.print(f"judge [bold]{escape(quality.judge)}[/]: [{STYLES[standing]}]{said}[/]")
    console.print(
        f"[dim]     asked[/]  {quality.calls:,} questions about {quality.items} items, {quality.labelled} labelled by people"
    )
    print_gates(console, found.gates)
    for name, value in _figures(quality):
        console.print(f"[dim]{name:>10}[/]  {value}")


def print_gates(console: Console, gates: tuple[JudgeGate, ...]) -> None:
    """Each gate with what was found and what is allowed."""
    console.print()
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in ("", "gate", "found", "limit", ""):
        table.add_column(name, justify="right" if name == "found" else "left")
    for gate in gates:
        mark = {GateState.PASS: "✓", GateState.FAIL: "✗", GateState.UNCALIBRATED: "?"}[gate.standing]
        value = "[dim]none[/]" if gate.value is None else f"{gate.value:.3f}"
        table.add_row(f"[{STYLES[gate.standing]}]{mark}[/]", escape(gate.name), value, gate.limit, f"[dim]{escape(gate.why)}[/]")
    console.print(table)
    console.print()


def people_lines(agreements: tuple[Agreement, ...]) -> Iterator[tuple[str, str]]:
    """Agreement with people, next to what people reach among themselves."""
    for each in agreements:
        human = f"   people among themselves {_range(each.human)}" if each.human else ""
        of_what = f"`{escape(each.check)}`: " if each.check else ""
        yield "people", f"{of_what}kappa {_range(each.kappa)} [dim]of {each.labelled} items[/]{human}"
        yield "", f"precision {percent(each.precision)}, recall {percent(each.recall)} of `met`"


def _figures(quality: Quality) -> list[tuple[str, str]]:
    """The figures behind the gates, with their intervals."""
    kappa = "" if quality.fleiss is None else f"; kappa (Fleiss) [bold]{quality.fleiss:.2f}[/]"
    lines = [("repeated", f"verdict differs {percent(quality.flips)}{kappa}")] if quality.flips.value is not None else []
    lines += people_lines(quality.agreements)
    if quality.corrected is not None and quality.judged_mean is not None:
        lines.append(
            ("mean", f"{quality.judged_mean:.3f} by the judge; corrected by people's labels {_range(quality.corrected)}")
        )
    return lines


def percent(interval: Interval) -> str:
    """A share with its interval."""
    if interval.value is None:
        return "no data"
    return f"[bold]{interval.value:.1%}[/] [dim]{interval.low:.0%} to {interval.high:.0%}[/]"


def _range(interval: Interval) -> str:
    if interval.value is None:
        return "undefined (all labels are equal)"
    note = f" [dim]({escape(interval.note)})[/]" if interval.note else ""
    return f"[bold]{interval.value:.2f}[/] [dim]{interval.low:.2f} to {interval.high:.2f}[/]{note}"
