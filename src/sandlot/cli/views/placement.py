"""A calibration for a person: the histogram, the errors of the rule, what to do with which task, and what to train on."""

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sandlot.calibrate.tasks.calibration import BINS, Calibration, Errors
from sandlot.calibrate.tasks.placement import WORDS, Placement, TaskLabel
from sandlot.calibrate.tasks.rates import Rates
from sandlot.calibrate.tasks.rule import Region, Rule
from sandlot.cli.views.summary import clean

_COLOURS = {
    TaskLabel.TOO_HARD: "magenta",
    TaskLabel.IN_BAND: "green",
    TaskLabel.TOO_EASY: "cyan",
    TaskLabel.FLAT: "yellow",
    TaskLabel.BORDERLINE: "yellow",
    TaskLabel.UNSCORABLE: "red",
}
_REGIONS = {Region.BELOW: "magenta", Region.INSIDE: "green", Region.ABOVE: "cyan"}
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_WIDTH = 40
_SHOWN = 3
"""Tasks named of each label; `--json` and `calibration.json` have them all."""
_FAMILIES_SHOWN = 12


def print_calibration(found: Calibration, path: Path, curriculum: Path) -> None:
    """Print the calibration."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{found.environment}[/] with [bold]{escape(found.model)}[/]: {_verdict(found)}")
    _line(console, "band", _band(found.rule))
    _line(console, "tasks", _labels(found))
    console.print()
    _print_histogram(console, found)
    console.print()
    if len(found.families) > 1:
        _print_families(console, found)
    print_errors(console, found.rule, found.errors, "of tasks like these")
    _print_costs(console, found)
    _print_tasks(console, found, path)
    tasks = found.curriculum.tasks
    unsure = sum(not task.sure for task in tasks)
    likely = f" ({unsure} of them most likely in the band)" if unsure else ""
    _line(console, "curriculum", f"[bold]{len(tasks)}[/] tasks{likely} -> [bold]{escape(str(curriculum))}[/]")
    if tasks:
        _line(console, "", f"[dim]sandlot train RECIPE --curriculum {escape(str(curriculum))}[/]")


def print_errors(console: Console, rule: Rule, errors: Errors, of_what: str) -> None:
    """How often the rule errs, at every pass rate and over all."""
    expected = errors.expected
    _line(
        console,
        "errors",
        f"{of_what}: [bold]{expected.wrong:.1%}[/] placed wrongly, {expected.borderline:.1%} borderline, "
        f"{expected.rollouts:.1f} rollouts each",
    )
    if errors.fixed is not None:
        saved = 1 - expected.rollouts / errors.fixed.rollouts
        against = f"{saved:.0%} saved" if saved >= 0 else "these tasks are so similar that few rollouts are needed"
        _line(
            console,
            "",
            f"[dim]{expected.error:.1%} if borderline tasks get their likeliest label; for the same error rate, a fixed "
            f"number takes {errors.fixed.rollouts} rollouts each: {against}[/]",
        )
    grid = errors.grid if console.width >= 112 else [rates for rates in errors.grid if round((rates.rate or 0) * 100) % 10 == 0]
    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False, header_style="dim")
    table.add_column("true pass rate", justify="right", style="dim", min_width=23)
    for rates in grid:
        table.add_column(f"{rates.rate:.2f}".removeprefix("0") if rates.rate else "0", justify="right")
    for name, region in (("too hard %", Region.BELOW), ("in the band %", Region.INSIDE), ("too easy %", Region.ABOVE)):
        table.add_row(name, *(_cell(getattr(rates, region.value), rule, rates, region) for rates in grid))
    table.add_row("borderline %", *(_percent(rates.borderline) for rates in grid))
    table.add_row("rollouts", *(f"{rates.rollouts:.0f}" for rates in grid), style="dim")
    console.print(table)
    console.print()


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _cell(share: float, rule: Rule, rates: Rates, region: Region) -> str:
    """A percentage; in its colour where it is right."""
    assert rates.rate is not None
    text = _percent(share)
    if rule.region(rates.rate) is region:
        return f"[bold {_REGIONS[region]}]{text}[/]"
    return text if share >= 0.005 else f"[dim]{text}[/]"


def _line(console: Console, name: str, value: str) -> None:
    console.print(f"[dim]{name:>10}[/]  {value}")


def _verdict(found: Calibration) -> str:
    colour = {"complete": "green", "stopped": "red"}.get(found.verdict, "yellow")
    why = f": {escape(clean(found.stopped))}" if found.stopped else ""
    return f"[{colour}]{found.verdict}[/]{why}"


def _band(rule: Rule) -> str:
    passes = "full marks" if rule.threshold == 1.0 else f"a reward of {rule.threshold:g} or more"
    erring = ""
    if rule.false_positive or rule.false_negative:
        erring = f"; corrected for a grader that passes {rule.false_positive:.1%} wrongly and fails {rule.false_negative:.1%}"
    return f"{rule.low:g} to {rule.high:g} pass with {passes}; placed when {rule.confidence:.0%} sure{erring}"


def _labels(found: Calibration) -> str:
    pieces = [f"[bold]{len(found.placements)}[/]"]
    for label in (
        TaskLabel.TOO_HARD,
        TaskLabel.IN_BAND,
        TaskLabel.TOO_EASY,
        TaskLabel.BORDERLINE,
        TaskLabel.FLAT,
        TaskLabel.UNSCORABLE,
    ):
        share = found.shares[label]
        if share.value:
            count = len(found.labelled(label))
            pieces.append(f"[{_COLOURS[label]}]■[/] {count} {_word(label)} [dim]{share.low:.0%}-{share.high:.0%}[/]")
    return "   ".join(pieces)


def _word(label: TaskLabel) -> str:
    return "in the band" if label is TaskLabel.IN_BAND else label.value.replace("_", " ")


def _print_histogram(console: Console, found: Calibration) -> None:
    """Tasks by pass rate, the band in its colour."""
    most = max(found.histogram) or 1
    for number, count in enumerate(found.histogram):
        low, high = number / BINS, (number + 1) / BINS
        region = found.rule.region((low + high) / 2)
        # what the grader shows may be corrected, so the bins are of true rates
        name = f"{low:.1f} to {high:.1f}" if number else "pass rate 0 to 0.1"
        console.print(f"[dim]{name:>20}[/]  [{_REGIONS[region]}]{_bar(count / most)}[/] {count or '[dim]·[/]'}")


def _bar(share: float) -> str:
    eighths = round(share * _WIDTH * 8)
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def _print_families(console: Console, found: Calibration) -> None:
    by_family: dict[str, list[Placement]] = {}
    for each in found.placements:
        by_family.setdefault(each.family, []).append(each)
    for number, (name, family) in enumerate(sorted(found.families.items(), key=lambda item: item[1].mean)):
        if number == _FAMILIES_SHOWN:
            _line(console, "", f"[dim]and {len(found.families) - _FAMILIES_SHOWN} more families[/]")
            break
        inside = sum(each.label is TaskLabel.IN_BAND for each in by_family[name])
        mean = found.rule.corrected(family.mean)
        bar = f"[{_REGIONS[found.rule.region(mean)]}]{_bar(mean / 4):<10}[/]"
        said = f"{mean:4.0%} [dim]± {family.std:.0%}[/] {bar} {family.tasks} tasks, {inside} in the band"
        _line(console, "families" if number == 0 else "", f"{escape(name or 'untagged'):<14} {said}")
    console.print()


def _print_costs(console: Console, found: Calibration) -> None:
    spent, group = found.spent, found.group
    tasks = len(found.placements)
    failed = f", [red]{spent.failed} without a score[/]" if spent.failed else ""
    tokens = f"; {spent.prompt_tokens:,} tokens in, {spent.completion_tokens:,} out" if spent.completion_tokens else ""
    _line(console, "rollouts", f"{spent.rollouts:,}, {spent.rollouts / max(tasks, 1):.1f} per task{failed}{tokens}")
    if found.budget is not None and spent.rollouts >= found.budget:
        waiting = sum(each.scored < found.rule.cap for each in found.labelled(TaskLabel.BORDERLINE))
        _line(console, "budget", f"[yellow]{found.budget:,} rollouts are used up; {waiting} tasks needed more[/]")
    better = f", [bold]{found.informative_curriculum:.0%}[/] of the curriculum's" if found.informative_curriculum else ""
    _line(
        console,
        "groups",
        f"of {group}: {found.informative:.0%} of all tasks'{better} will have passes and failures (only those give a gradient)",
    )
    cost = found.group_cost
    if cost is not None and cost.completion_tokens:
        usd = f", {cost.usd:.4f} USD" if cost.usd else ""
        said = f"{cost.prompt_tokens:,.0f} tokens in, {cost.completion_tokens:,.0f} out, {cost.seconds:.1f} s of rollouts{usd}"
        _line(console, "a group is", said)


def _print_tasks(console: Console, found: Calibration, path: Path) -> None:
    """A few tasks of each label with what to do about them."""
    for label in (TaskLabel.UNSCORABLE, TaskLabel.FLAT, TaskLabel.TOO_HARD, TaskLabel.TOO_EASY, TaskLabel.BORDERLINE):
        chosen = sorted(found.labelled(label), key=lambda each: -max(each.below, each.inside, each.above))
        by_advice: dict[str, list[Placement]] = {}
        for each in chosen:
            likely = f"most likely {WORDS[each.likeliest]}" if label is TaskLabel.BORDERLINE else each.advice
            by_advice.setdefault(likely, []).append(each)
        for advice, tasks in list(by_advice.items())[:_SHOWN]:
            _line(console, _word(label), f"[{_COLOURS[label]}]{_named(tasks)}[/]  [dim]{escape(advice)}[/]")
    unscored = found.labelled(TaskLabel.UNSCORABLE)
    if unscored:
        _line(console, "", f"look closer: sandlot show {escape(str(path))}/{unscored[0].task}/0")


def _named(tasks: Iterable[Placement]) -> str:
    listed = list(tasks)
    shown = ", ".join(f"{escape(each.task)} {each.passed}/{each.scored}" for each in listed[:_SHOWN])
    return f"{shown}, ..." if len(listed) > _SHOWN else shown
