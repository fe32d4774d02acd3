"""A training on the screen: one line per step on stderr, a bar during evaluations, and the result."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn

from sandlot.cli.options import authors_on_stderr, print_json, print_plain_json, print_result
from sandlot.cli.views.bars import Bars
from sandlot.cli.views.run import steered_line
from sandlot.cli.views.summary import clean
from sandlot.observe.events import (
    AlarmRaised,
    EvaluationBegan,
    EvaluationEnded,
    RolledBack,
    RolloutEnded,
    RunEvent,
    RunSteered,
    Sink,
    SinkFailed,
    StepLearned,
    TrainingBegan,
    fan_out,
    ignore_event,
)
from sandlot.observe.training_records import Learned, Measured, by_seat
from sandlot.train.own_policy import SHARED
from sandlot.train.recipe import FILE as RECIPE
from sandlot.train.recipe import Recipe, as_plain_data
from sandlot.train.report.html import FILE as REPORT
from sandlot.train.report.progress import TrainingProgress as Learning
from sandlot.train.report.summary import FILE, EnvironmentOutcome, Heldout, Outcome, SeatOutcome
from sandlot.train.train import place_of, train

_CURVE = 40
"""Characters of a bar for a score of 1."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A training run that has ended."""

    path: Path
    outcome: Outcome

    @property
    def exit_code(self) -> int:
        """0 fine, 1 stopped as bad or an alarm, 3 incomplete."""
        if self.outcome.verdict == "incomplete":
            return 3
        return 1 if self.outcome.verdict == "stopped" or self.outcome.alarms else 0

    def show(self, *, json: bool) -> None:
        """The result on stdout."""
        if json:
            print_json(self.outcome)
        else:
            _print_outcome(self.path, self.outcome)


def train_watched(recipe: Recipe, *, place: Path | None, quiet: bool, more: Sink = ignore_event) -> TrainingResult:
    """Train, with progress on stderr unless `quiet`; `more` receives the events too."""
    path = place_of(recipe, place)
    console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    with Bars(
        TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(compact=True),
        console=console,
    ) as bars, authors_on_stderr():  # fmt: skip
        progress = train(recipe, run=path, sink=fan_out(_Lines(bars, console).receive, more))
        if progress.stopped:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # everything is stored; a second Ctrl-C must not hide how to continue
    return TrainingResult(path, msgspec.json.decode((path / FILE).read_bytes(), type=Outcome))


class _Lines:
    """Draws a training: one line per step and evaluation, and a bar while an evaluation runs."""

    def __init__(self, bars: Bars, console: Console) -> None:
        self._bars = bars
        self._console = console
        self._bar: TaskID | None = None
        self._measuring: tuple[str, ...] = ()
        """Names of the running evaluation's runs."""
        self._heldout = ""
        self._alarmed = False

    def receive(self, event: RunEvent) -> None:
        """Draw an event; a sink."""
        match event:
            case TrainingBegan():
                self._begin(event)
            case EvaluationBegan():
                self._measuring = (event.run, *event.others)
                self._bar = self._bars.add_task(f"evaluating version {event.version}", total=event.num_rollouts)
            case RolloutEnded() if self._bar is not None and event.run in self._measuring:
                self._bars.update(self._bar, advance=1)
            case EvaluationEnded():
                self._show_evaluation(event.evaluation)
            case StepLearned():
                self._alarmed = self._alarmed or event.alarmed
                self._console.print(step_line(event.step, self._heldout, alarmed=self._alarmed))
            case AlarmRaised():
                word = "[bold yellow]warning:[/]" if event.kind == "idle" else "[bold red]alarm:[/]"
                self._console.print(f"{word} {escape(event.sentence)}")
            case RolledBack():
                given_up = f"version {event.version}{_of_policy(event.policy)} is given up"
                self._console.print(f"[yellow]{given_up}: training continues from the weights of version {event.best}[/]")
            case RunSteered():
                self._console.print(steered_line(event))
            case SinkFailed():
                why = f"{escape(event.reason)}; progress.jsonl has everything"
                self._console.print(f"[yellow]`{escape(event.sink)}` failed and receives nothing more: {why}[/]")
            case _:
                pass

    def _begin(self, event: TrainingBegan) -> None:
        sandboxed = "in sandboxes" if event.sandboxed else "no sandbox needed"
        continued = f", continuing after step {event.version}" if event.version else ""
        batch = f"{event.tasks} of {event.pairs:,} pairs" if event.pairs else f"{event.tasks} tasks x {event.group} rollouts"
        self._console.print(
            f"training [bold]{escape(event.model)}[/] on [bold]{escape(event.environment)}[/] ({sandboxed}): "
            f"{event.steps} steps of {batch} -> [bold]{escape(event.path)}[/]{continued}"
        )
        if event.left_out:
            self._console.print(f"[yellow]{escape(clean(event.left_out))}[/]")
        if event.differences:
            before = escape("; ".join(event.differences))
            self._console.print(f"[yellow]trained in another setting before: {before}; training continues in this one[/]")
        self._alarmed = event.alarmed
        self._heldout = "" if event.heldout is None else f"{event.heldout:.3f}"

    def _show_evaluation(self, evaluation: Measured) -> None:
        if self._bar is not None:
            self._bars.remove_task(self._bar)
            self._bar = None
        self._heldout = f"{evaluation.mean:.3f}"
        seats = {name: env.seats for name, env in evaluation.environments.items()}
        failed = f", [red]{evaluation.failed} failed[/]" if evaluation.failed else ""
        self._console.print(
            f"[bold green]held-out {evaluation.mean:.3f}[/]  {evaluation.low:.3f} to {evaluation.high:.3f} at 95%, "
            f"full marks {evaluation.passed:.1%}  [dim]version {evaluation.version}, {evaluation.rollouts} rollouts{failed}[/]"
            + _side_by_side({name: each.mean for name, each in evaluation.environments.items()})
            + _side_by_side({seat: each.mean for seat, each in by_seat(seats).items()})
        )


def _of_policy(policy: str) -> str:
    return f" of `{escape(policy)}`" if policy else ""


def _side_by_side(figures: Mapping[str, float]) -> str:
    """A figure of each environment, or of each seat, if there are several."""
    if len(figures) < 2:
        return ""
    return "  [dim](" + ", ".join(f"{escape(name)} {value:.3f}" for name, value in figures.items()) + ")[/]"


def step_line(step: Learned, heldout: str, *, alarmed: bool = False) -> str:
    """One step in one line."""
    shares = " ".join(f"{name} {share:.0%}" for name, share in step.shares.items())
    pieces = [
        f"[bold]v{step.version:<3}[/] {_batch_figures(step)}",
        f"[dim]held-out[/] {heldout or '-'}",
        *_group_figures(step),
        _update_figures(step),
        f"[dim]distinct {step.diversity.distinct:.0%}[/]" if step.diversity else "",
        f"{step.tokens_per_s:.0f} tok/s" if step.rollouts else "",
        f"[dim]{step.seconds:.1f} s: {shares}[/]",
        "[bold red]ALARM[/]" if alarmed else "",
    ]
    return "  ".join(piece for piece in pieces if piece)


def _batch_figures(step: Learned) -> str:
    """Reward and full marks of the rollouts; for pairs, the share that was ranked rightly before the step."""
    if not step.rollouts and step.agreement is not None:
        return f"ranked rightly [bold]{step.agreement:4.0%}[/] of {step.groups} pairs"
    by_environment = _side_by_side({name: each.reward for name, each in step.environments.items() if each.groups})
    seats = _side_by_side(by_seat({name: env.seats for name, env in step.environments.items()}))
    return f"reward [bold]{step.reward:.3f}[/]{by_environment}{seats}  passed {step.passed:4.0%}"


def _group_figures(step: Learned) -> list[str]:
    if not step.rollouts:
        return []
    return [f"groups {step.informative}/{step.groups}", f"[red]failed {step.failed}[/]" if step.failed else "failed 0"]


def _update_figures(step: Learned) -> str:
    """The loss of imitation; else KL, entropy, clipping and staleness."""
    if step.kl is None:
        return f"loss [bold]{step.loss:.3f}[/]"
    return f"[dim]kl {step.kl:.0e} ent {step.entropy:.2f} clip {step.clipped:.0%} stale {step.staleness}[/]"


def show_training(path: Path) -> None:
    """Print a training run: its result or progress, the held-out scores, and its last step."""
    progress = Learning.read(path)
    ended = path / FILE
    outcome = msgspec.json.decode(ended.read_bytes(), type=Outcome) if ended.is_file() else None
    steps = progress.steps[-1].version if progress.steps else 0
    if outcome is not None and outcome.steps == steps:
        _print_outcome(path, outcome)
    else:
        _print_unfinished(path, progress, steps)
    console = Console(highlight=False, soft_wrap=True)
    for line in progress.evaluations:
        bar = "█" * round(line.mean * _CURVE)
        console.print(
            f"[dim]{f'version {line.version}':>12}[/]  {line.mean:.3f}  [dim]{line.low:.3f} to {line.high:.3f}[/]  {bar}"
        )
    if progress.steps:
        heldout = f"{progress.evaluations[-1].mean:.3f}" if progress.evaluations else ""
        console.print(f"[dim]   last step[/]  {step_line(progress.steps[-1], heldout, alarmed=bool(progress.alarms))}")


def _print_unfinished(path: Path, progress: Learning, steps: int) -> None:
    """Print a training that is running, or was killed."""
    recipe = msgspec.json.decode((path / RECIPE).read_bytes(), type=dict[str, Any])
    best = f"; best: version {progress.best.version} with {progress.best.score_of(SHARED):.3f}" if progress.best else ""
    Console(highlight=False, soft_wrap=True).print(
        f"[bold]{escape(str(recipe['name']))}[/]: {escape(str(recipe['model']))} on {escape(', '.join(_named(recipe)))}: "
        f"[yellow]training or interrupted[/], {steps} of {recipe['steps']} steps{best}; `sandlot train RECIPE` continues"
    )


def _named(recipe: Mapping[str, Any]) -> list[str]:
    """The environments of a stored recipe."""
    if recipe["env"] is not None:
        return [str(recipe["env"])]
    named = (cast("dict[str, Any]", each)["env"] if isinstance(each, dict) else each for each in recipe["envs"])
    return [str(each) for each in named]


def _print_outcome(path: Path, outcome: Outcome) -> None:
    """Print the result of a training run for a person."""
    console = Console(highlight=False, soft_wrap=True)
    colour = {"complete": "green", "incomplete": "yellow"}.get(outcome.verdict, "red")
    console.print(
        f"[bold]{escape(outcome.name)}[/]: {escape(outcome.model)} on {escape(outcome.environment)}: "
        f"[{colour}]{outcome.verdict}[/]" + (f": {escape(clean(outcome.stopped))}" if outcome.stopped else "")
    )
    for name, value in _lines(path, outcome):
        console.print(f"[dim]{name:>10}[/]  {value}")
    for sentence in outcome.alarms:
        console.print(f"[bold red]alarm:[/] {escape(sentence)}")
    console.print(f"look closer: {escape(str(path / REPORT))}")


def _lines(path: Path, outcome: Outcome) -> list[tuple[str, str]]:
    failed = f", [red]{outcome.failed} without a score[/]" if outcome.failed else ", all scored"
    lines = [
        ("steps", f"{outcome.steps} of {outcome.of_steps}"),
        ("rollouts", f"{outcome.rollouts:,}{failed}; sandbox: {outcome.sandbox}"),
    ]
    lines += [
        (name, _level(each)) for name, each in (("before", outcome.heldout_before), ("after", outcome.heldout_after)) if each
    ]
    if outcome.paired is not None:
        paired, apart = outcome.paired, "intervals apart" if outcome.separate else "intervals overlap"
        chance = "p < 0.001" if paired.p_value < 0.001 else f"p = {paired.p_value:.3f}"
        moved = f"[bold]{paired.difference.mean:+.3f}[/]  [dim]{paired.difference.low:+.3f} to {paired.difference.high:+.3f}[/]"
        counts = f"{paired.improved} tasks better, {paired.regressed} worse"
        lines.append(("change", f"{moved} paired by task, {chance}; {apart}; {counts}"))
    if len(outcome.environments) > 1:
        lines += [(name, _environment_line(each)) for name, each in outcome.environments.items()]
    seats = by_seat({name: env.seats for name, env in outcome.environments.items()})
    if len(seats) > 1 or any(seat.best_version is not None for seat in seats.values()):
        lines += [(name, _seat_line(path, seat)) for name, seat in seats.items()]
    for name, each in outcome.robustness.items():
        if each.after and each.change:
            lines.append(
                (f"{name}", f"{each.after.mean:.3f} held-out variant: {each.change.mean:+.3f} compared with the original tasks")
            )
    if outcome.diversity_before and outcome.diversity_after:
        first, last = outcome.diversity_before, outcome.diversity_after
        lines.append(
            (
                "diversity",
                f"{first.distinct:.0%} of a group's rollouts differed in the first step, {last.distinct:.0%} in the last",
            )
        )
    whole = sum(outcome.time.values()) or 1.0
    shares = ", ".join(f"{name} {spent / whole:.0%}" for name, spent in outcome.time.items())
    lines.append(("time", f"{outcome.seconds:.0f} s, {outcome.cpu_s:.0f} s of CPU; steps: {shares}"))
    if outcome.best_weights:
        lines.append(("best", f"version {outcome.best_version}: --model hf:{escape(str(path / outcome.best_weights))}"))
    if outcome.best_adapter:
        lines.append(("adapter", f"{escape(str(path / outcome.best_adapter))}  [dim]for PEFT and vLLM[/]"))
    return lines


def _environment_line(env: EnvironmentOutcome) -> str:
    """One environment of several: its held-out scores and its share of the groups."""
    before, after = (f"{each.mean:.3f}" if each else "-" for each in (env.heldout_before, env.heldout_after))
    change = ""
    if env.paired is not None:
        difference = env.paired.difference
        change = f", [bold]{difference.mean:+.3f}[/]  [dim]{difference.low:+.3f} to {difference.high:+.3f}[/]"
    failed = f", [red]{env.failed} without a score[/]" if env.failed else ""
    return f"{before} to {after}{change}; {env.groups:,} groups, {env.rollouts:,} rollouts{failed}"


def _seat_line(path: Path, seat: SeatOutcome) -> str:
    """One seat that learns: its held-out scores, and where its weights are if they are its own."""
    before, after = (f"{each.mean:.3f}" if each else "-" for each in (seat.heldout_before, seat.heldout_after))
    change, weights = "", ""
    if seat.paired is not None:
        difference = seat.paired.difference
        change = f", [bold]{difference.mean:+.3f}[/]  [dim]{difference.low:+.3f} to {difference.high:+.3f}[/]"
    if seat.last_weights is not None:
        weights = f"; last weights: hf:{escape(str(path / seat.last_weights))}"
    if seat.best_weights is not None and seat.best_weights != seat.last_weights:
        weights += f"; best, version {seat.best_version}: hf:{escape(str(path / seat.best_weights))}"
    return f"{before} to {after}{change}{weights}"


def _level(heldout: Heldout) -> str:
    tries = "   ".join(f"pass@{k} {share:.1%}" for k, share in heldout.pass_at.items())
    return f"[bold]{heldout.mean:.3f}[/]  [dim]{heldout.low:.3f} to {heldout.high:.3f} at 95%, held-out[/]   {tries}"


def show_recipe(recipe: Recipe, place: Path | None, *, json: bool) -> None:
    """Print the recipe that would be trained; train nothing."""
    shown = {"run": str(place_of(recipe, place)), "recipe": as_plain_data(recipe)}
    print_result(shown, print_plain_json, json=json)
