"""Measuring a judge with a person watching, and the figures as a person reads them: each with its interval and its gate."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sandlot.calibrate.judges.gates import Gates, GateState, JudgeGate, judge_gates, overall_state
from sandlot.calibrate.judges.items import JudgedItem, checks_of, example_items, labelled_items, run_items
from sandlot.calibrate.judges.judge import Probing, Quality, measure_judge
from sandlot.calibrate.judges.labels import Agreement
from sandlot.cli.options import authors_on_stderr, run_path
from sandlot.core.errors import ConfigError
from sandlot.core.rubric import JudgeCheck
from sandlot.core.stats.intervals import Interval
from sandlot.wiring.config import ModelConfig
from sandlot.wiring.models import open_panel

_FROM_RUNS = 500
"""Items taken of a run at most."""
STYLES = {GateState.PASS: "green", GateState.FAIL: "bold red", GateState.UNCALIBRATED: "yellow"}


@dataclass(frozen=True, slots=True)
class Judging:
    """What is to be measured, and by what."""

    what: str
    labels: Path | None
    model: ModelConfig
    probing: Probing
    gates: Gates


@dataclass(frozen=True, slots=True)
class GatedResult:
    """Something that was measured and held to gates: a judge, or who plays a user."""

    quality: msgspec.Struct
    gates: tuple[JudgeGate, ...]
    show: Callable[[], None]
    """Prints the result for a person."""

    @property
    def machine(self) -> Any:
        """The object `--json` prints."""
        return {
            **msgspec.to_builtins(self.quality),
            "gates": msgspec.to_builtins(self.gates),
            "verdict": overall_state(self.gates),
        }

    @property
    def exit_code(self) -> int:
        """0 fine, 1 a gate was failed, 3 too little is known."""
        return {GateState.PASS: 0, GateState.FAIL: 1, GateState.UNCALIBRATED: 3}[overall_state(self.gates)]


def judge_watched(judging: Judging, *, runs: Path, quiet: bool) -> GatedResult:
    """Ask it everything, saying on stderr what is asked."""
    console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    with authors_on_stderr():
        quality = anyio.run(functools.partial(_measured, judging, runs, console))
    gates = judge_gates(quality, judging.gates)
    return GatedResult(quality, gates, functools.partial(_print_quality, quality, gates))


async def _measured(judging: Judging, runs: Path, console: Console) -> Quality:
    items = await _items_of(judging.what, judging.labels, runs)
    labelled = sum(bool(item.labels) for item in items)
    console.print(
        f"asking [bold]{escape(judging.model.shown)}[/] about {len(items)} items, {labelled} of them labelled by people"
    )
    with console.status("asking"):
        async with open_panel(judging.model, judging.probing.repeats) as panel:
            return await measure_judge(panel, items, judging.probing, panel[0].ask_several)


async def _items_of(what: str, labels: Path | None, runs: Path) -> list[JudgedItem]:
    """Everything there is to ask about: examples in rubrics, what a run left, what people labelled."""
    items: list[JudgedItem] = []
    checks: dict[str, JudgeCheck] = {}
    path = Path(what)
    if path.suffix == ".jsonl":
        items += labelled_items(path, {})
    elif any((folder / "manifest.json").is_file() for folder in (path, runs / what)):
        items += [item async for item in run_items(run_path(what, runs), _FROM_RUNS)]
        checks = {item.check: JudgeCheck(id=item.check, prompt=item.question, choices=item.choices) for item in items}
    else:
        checks = checks_of(what)
        items += example_items(checks)
    items += labelled_items(labels, checks) if labels else []
    if not items:
        judged = f"its judge checks ({', '.join(checks)}) have no examples" if checks else "it has no judge checks"
        raise ConfigError(f"nothing to ask about `{what}`: {judged}; give `--labels FILE`, or name a run")
    return items


def _print_quality(quality: Quality, gates: tuple[JudgeGate, ...]) -> None:
    """To stdout."""
    console = Console(highlight=False, soft_wrap=True)
    standing = overall_state(gates)
    said = {GateState.PASS: "passes", GateState.FAIL: "fails", GateState.UNCALIBRATED: "not known: too few labels"}[standing]
    console.print(f"judge [bold]{escape(quality.judge)}[/]: [{STYLES[standing]}]{said}[/]")
    console.print(
        f"[dim]     asked[/]  {quality.calls:,} questions about {quality.items} items, {quality.labelled} labelled by people"
    )
    print_gates(console, gates)
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
    lines = [("itself", f"flips {percent(quality.flips)}{kappa}")] if quality.flips.value is not None else []
    lines += people_lines(quality.agreements)
    if quality.corrected is not None and quality.judged_mean is not None:
        lines.append(
            ("mean", f"{quality.judged_mean:.3f} by the judge; corrected by people's labels {_range(quality.corrected)}")
        )
    return lines


def percent(interval: Interval) -> str:
    """A share with its interval."""
    if interval.value is None:
        return "nothing counted"
    return f"[bold]{interval.value:.1%}[/] [dim]{interval.low:.0%} to {interval.high:.0%}[/]"


def _range(interval: Interval) -> str:
    if interval.value is None:
        return "none (all alike)"
    note = f" [dim]({escape(interval.note)})[/]" if interval.note else ""
    return f"[bold]{interval.value:.2f}[/] [dim]{interval.low:.2f} to {interval.high:.2f}[/]{note}"
