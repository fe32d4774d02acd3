"""The report of a training run: one HTML file with inline charts, which needs no network and no other file."""

import math
import shlex
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path

from sandlot.core.disk import write_file
from sandlot.core.stats.intervals import Interval
from sandlot.core.trace import Scored
from sandlot.core.trace_row import TraceRow
from sandlot.env.transcript import message_lines
from sandlot.observe.chart import Curve, line_chart, share_bar
from sandlot.observe.page import html_page
from sandlot.observe.training_records import Learned, by_seat
from sandlot.run.results import Run
from sandlot.train.recipe import Recipe
from sandlot.train.report.by_environment import environments_section
from sandlot.train.report.by_seat import seats_section
from sandlot.train.report.heldout import heldout_summary
from sandlot.train.report.progress import TrainingProgress
from sandlot.train.report.summary import Heldout, Level, Outcome, Paired, SeatOutcome, evaluation_runs, outcome_of, write_outcome

FILE = "report.html"
_EXAMPLES = 3
"""Tasks shown before and after training."""
_LONGEST = 600
"""Maximum characters per message of an example."""
_COLOURS = {"sampling": "--blue", "environment": "--green", "grading": "--amber", "update": "--violet"}


def write_report(progress: TrainingProgress, recipe: Recipe) -> Outcome:
    """Write `summary.json` and `report.html` into the run directory, finished or not."""
    sandboxed = any(each.load().image is not None for each in recipe.environments)
    outcome = outcome_of(progress, recipe, recipe.sandbox.partition(":")[0] if sandboxed else "none")
    write_outcome(progress.path, outcome)
    runs = [evaluation_runs(progress.path, line) for line in progress.evaluations]
    by_environment = [[each[name] for each in runs if name in each] for name in outcome.environments]
    sections = [
        headline(outcome),
        *(f'<p class="alarm">{escape(sentence)}</p>' for sentence in outcome.alarms),
        f'<section class="pictures">{"".join(_pictures(progress, outcome))}</section>',
        _robustness(outcome),
        environments_section(progress, outcome),
        seats_section(progress, outcome),
        *map(_skills, by_environment),
        *(_examples(each, progress.path) for each in by_environment),
        _settings(progress.path),
    ]
    text = html_page(f"{recipe.name}: {outcome.environment} with {outcome.model}", "".join(sections))
    write_file(progress.path / FILE, text.encode(), durable=False)
    return outcome


# -- the first screen --------------------------------------------------------------------------------------------------


def headline(outcome: Outcome) -> str:
    """The first screen of the report: the result, and the main figures."""
    parts = [f"<h1>{escape(what_happened(outcome))}</h1>", f'<p class="dim">{_subtitle(outcome)}</p>']
    before, after = outcome.heldout_before, outcome.heldout_after
    if before is not None and after is not None:
        parts.append(
            f'<section class="change">{_score(before, "before")}<div class="arrow">&rarr;</div>'
            f"{_score(after, 'after', _colour(outcome.paired))}"
        )
        parts.append(f'<div class="verdict">{_verdict(outcome)}</div></section>')
    tiles = {
        "steps": f"{outcome.steps} of {outcome.of_steps}",
        "rollouts": f"{outcome.rollouts:,}",
        "without a score": f"{outcome.failed:,}",
        "time": f"{outcome.seconds:.0f} s",
        "CPU": f"{outcome.cpu_s:.0f} s",
        "sandbox": outcome.sandbox,
        "best version": "-" if outcome.best_version is None else str(outcome.best_version),
    }
    shown = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in tiles.items())
    return "".join(parts) + f'<section class="tiles">{shown}</section>'


def what_happened(outcome: Outcome) -> str:
    """The result in one line: share of full marks before and after, or the score where there are no full marks."""
    before, after = outcome.heldout_before, outcome.heldout_after
    if before is None or after is None:
        return f"{outcome.name}: not evaluated yet"
    seats = by_seat({name: env.seats for name, env in outcome.environments.items()})
    if len(seats) > 1 and outcome.paired is not None:
        return f"{outcome.name}: held-out score " + ", ".join(f"{name} {_seat_change(seat)}" for name, seat in seats.items())
    if before.passed.mean or after.passed.mean:
        what, first, last = "full marks", *(f"{100 * each.passed.mean:.0f} %" for each in (before, after))
    else:
        what, first, last = "score", f"{before.mean:.2f}", f"{after.mean:.2f}"
    if outcome.paired is None:
        return f"{outcome.name}: held-out {what} {first} before the first step"
    unclear = "" if _colour(outcome.paired) else ", no clear change"
    return f"{outcome.name}: held-out {what} {first} to {last}{unclear}"


def _seat_change(seat: SeatOutcome) -> str:
    before, after = (f"{each.mean:.2f}" if each else "-" for each in (seat.heldout_before, seat.heldout_after))
    return f"{before} to {after}" + ("" if _colour(seat.paired) else " (no clear change)")


def _colour(paired: Paired | None) -> str:
    """CSS class of a change: green or red only if its interval does not contain 0."""
    if paired is None or paired.difference.low <= 0 <= paired.difference.high:
        return ""
    return "up" if paired.difference.mean > 0 else "down"


def _subtitle(outcome: Outcome) -> str:
    where = (
        "the environment needs no sandbox"
        if outcome.sandbox == "none"
        else f"every rollout in a {outcome.sandbox} sandbox of its own"
    )
    text = escape(f"{outcome.model} on {outcome.environment}, {outcome.algorithm}, seed {outcome.seed}; {where}.")
    stopped = f"{outcome.verdict}: {outcome.stopped}" if outcome.stopped else ""
    return text + (f'</p><p class="alarm">{escape(stopped)}' if stopped else "")


def _score(heldout: Heldout, word: str, colour: str = "") -> str:
    return (
        f'<div class="score"><span>{word}</span><b class="{colour}">{heldout.mean:.3f}</b>'
        f"<em>{heldout.low:.3f} to {heldout.high:.3f}</em>"
        f"<span>full marks {heldout.passed.mean:.0%}, version {heldout.version}</span></div>"
    )


def _verdict(outcome: Outcome) -> str:
    if outcome.paired is None:
        return "One evaluation so far: nothing to compare."
    paired = outcome.paired
    words = "The intervals do not touch." if outcome.separate else "The intervals overlap."
    chance = f"p {'&lt; 0.001' if paired.p_value < 0.001 else f'= {paired.p_value:.3f}'}"
    return (
        f"<b>{words}</b> On the same {paired.tasks} held-out tasks with the same random draws, the score moved by "
        f"{paired.difference.mean:+.3f} ({paired.difference.low:+.3f} to {paired.difference.high:+.3f}, {chance}): "
        f"{paired.improved} tasks better, {paired.regressed} worse. No held-out task was trained on."
    )


# -- pictures ----------------------------------------------------------------------------------------------------------


def _pictures(progress: TrainingProgress, outcome: Outcome) -> Iterable[str]:
    """The charts, each with an explanation."""
    measured, steps = progress.evaluations, progress.steps
    curve = Curve(
        "held-out score",
        [(line.version, line.mean) for line in measured],
        "--blue",
        band=[(line.low, line.high) for line in measured],
        dots=True,
    )
    yield _card(
        "Held-out score by version",
        "On tasks that are never trained on. The band is the 95 % interval over tasks.",
        line_chart([curve], x_name="version", y_range=(0, 1), label="held-out score by version"),
    )

    def over(name: str, colour: str, values: Iterable[float]) -> Curve:
        return Curve(name, list(zip((float(step.version) for step in steps), values, strict=True)), colour)

    rewards = [
        over("reward", "--blue", (step.reward for step in steps)),
        over("passed", "--green", (step.passed for step in steps)),
    ]
    if any(step.outcome != step.passed for step in steps):
        rewards.append(over("outcome", "--amber", (step.outcome for step in steps)))
    if any(step.rollouts for step in steps):
        yield _card(
            "Training reward and full marks by step",
            "Means over the rollouts of a step. Each step has other tasks, so the curve jumps.",
            line_chart(rewards, x_name="step", y_range=(0, 1), label="reward and full marks by step"),
        )
    yield from _of_learning(steps, over)
    yield from _diversity(steps)
    bar = share_bar([(name, spent, _COLOURS[name]) for name, spent in outcome.time.items()], label="where the time went")
    yield _card("Where the time of the steps went", "Evaluations are not included.", bar)


def _diversity(steps: Sequence[Learned]) -> Iterable[str]:
    """How differently the rollouts of a group acted; nothing if no step has figures for it."""
    known = [(float(step.version), step.diversity) for step in steps if step.diversity]
    if known:
        lines = [
            Curve("different rollouts", [(version, each.distinct) for version, each in known], "--green"),
            Curve("distance of two", [(version, each.distance) for version, each in known], "--blue"),
        ]
        yield _card(
            "Diversity within groups",
            "Different rollouts as a share of a group, and the distance between two of them. At 0 there is nothing to compare.",
            line_chart(lines, x_name="step", y_range=(0, 1), label="diversity within groups by step"),
        )


def _of_learning(steps: Sequence[Learned], over: Callable[[str, str, Iterable[float]], Curve]) -> Iterable[str]:
    """Loss for imitation; else entropy, clipping and KL of a policy that learns from its own samples."""
    idle = over("groups without a training signal", "--dim", (1 - step.informative / max(1, step.groups) for step in steps))
    if steps and not any(step.rollouts for step in steps):
        yield from _of_pairs(steps, over)
        return
    if steps and all(step.kl is None for step in steps):
        yield _card(
            "Loss of imitation",
            "Mean of -log p of the imitated tokens, in nats per token. Lower is closer to the demonstrations.",
            line_chart([over("loss", "--red", (step.loss for step in steps))], x_name="step", label="loss by step"),
        )
        yield _card(
            "Groups without anything to imitate",
            "Groups in which no rollout was good enough to imitate.",
            line_chart([idle], x_name="step", y_range=(0, 1), label="groups without a training signal by step"),
        )
        return
    yield _card(
        "Entropy",
        "In nats per token. A fall to 0 means that the policy has stopped exploring.",
        line_chart([over("entropy", "--violet", (step.entropy for step in steps))], x_name="step", label="entropy by step"),
    )
    clipped = over("share of tokens clipped", "--amber", (step.clipped for step in steps))
    yield _card(
        "Clipped tokens, uninformative groups",
        "Tokens whose ratio was clipped, and groups without a training signal because all members scored the same.",
        line_chart([clipped, idle], x_name="step", y_range=(0, 1), label="clipped tokens and uninformative groups by step"),
    )
    kl = over("KL", "--red", (step.kl or 0.0 for step in steps))
    yield _card(
        "KL from the sampling policy to the learning one",
        "Without staleness both have the same weights, and only rounding is left.",
        line_chart([kl], x_name="step", label="KL by step"),
    )


def _of_pairs(steps: Sequence[Learned], over: Callable[[str, str, Iterable[float]], Curve]) -> Iterable[str]:
    """Loss and agreement of a training from a file of pairs, which has no rollouts."""
    yield _card(
        "Loss of pairs",
        "Mean loss of the pairs of a step.",
        line_chart([over("loss", "--red", (step.loss for step in steps))], x_name="step", label="loss by step"),
    )
    ranked = over("ranked rightly", "--green", (step.agreement or 0.0 for step in steps))
    yield _card(
        "Pairs ranked rightly",
        "Share of a step's pairs whose better answer was ahead before the step. In the first pass, none of them was seen before.",
        line_chart([ranked], x_name="step", y_range=(0, 1), label="pairs ranked rightly by step"),
    )


def _card(title: str, told: str, body: str) -> str:
    return f"<figure><h2>{escape(title)}</h2><p>{escape(told)}</p>{body}</figure>"


# -- robustness --------------------------------------------------------------------------------------------------------


def _robustness(outcome: Outcome) -> str:
    """The scores of each variant of the held-out tasks before and after."""
    if not outcome.robustness:
        return ""
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{_spread(each.before)}</td><td>{_spread(each.after)}</td><td>{_spread(each.change)}</td></tr>"
        for name, each in outcome.robustness.items()
    )
    head = "<tr><th>variant</th><th>before</th><th>after</th><th>after, compared with the original tasks</th></tr>"
    return f'<h2>Held-out tasks, varied</h2><div class="wide"><table>{head}{rows}</table></div>'


def _spread(level: Level | None) -> str:
    return f"{level.mean:.2f} <small>{level.low:.2f} to {level.high:.2f}</small>" if level else "-"


# -- by skill ----------------------------------------------------------------------------------------------------------


def _skills(runs: Sequence[Run]) -> str:
    """The scores by tag before and after."""
    if len(runs) < 2:
        return ""
    before, after = (heldout_summary({run.manifest.environment: run}).tags for run in (runs[0], runs[-1]))
    rows = "".join(
        f"<tr><td>{escape(tag)}</td><td>{before[tag].tasks}</td><td>{_range(before[tag].score)}</td><td>{_range(after[tag].score)}</td>"
        f"{_change_cell(before[tag].score, after[tag].score)}</tr>"
        for tag in before
        if tag in after
    )
    if not rows:
        return ""
    head = "<tr><th>tag</th><th>tasks</th><th>before</th><th>after</th><th>change</th></tr>"
    return f'<h2>By tag: {escape(runs[0].manifest.environment)}</h2><div class="wide"><table>{head}{rows}</table></div>'


def _range(interval: Interval) -> str:
    value = "-" if interval.value is None else f"{interval.value:.2f}"
    return f"{value} <small>{interval.low:.2f} to {interval.high:.2f}</small>"


def _change_cell(before: Interval, after: Interval) -> str:
    if before.value is None or after.value is None:
        return "<td>-</td>"
    moved = after.value - before.value
    noise = math.hypot(before.high - before.low, after.high - after.low) / 2  # of the difference of two such means
    text = f"{moved:+.2f}" if round(moved, 2) else "0.00"
    colour = "dim" if abs(moved) <= noise or not round(moved, 2) else "up" if moved > 0 else "down"
    return f'<td class="{colour}">{text}</td>'


# -- examples ----------------------------------------------------------------------------------------------------------


def _examples(runs: Sequence[Run], place: Path) -> str:
    """The same rollouts before and after training: those that changed most, and one that stayed at 0."""
    if len(runs) < 2:
        return ""
    chosen = _choose_examples(list(runs[0].rows), list(runs[-1].rows))
    cards = "".join(
        f'<div class="pair"><h3>{escape(task)}, rollout {number}</h3>'
        f"<div>{_trace(runs[0], task, number, 'before', place)}</div>"
        f"<div>{_trace(runs[-1], task, number, 'after', place)}</div></div>"
        for task, number in chosen
    )
    told = '<p class="dim">The command below each example shows the whole trace; run it in the folder of this page.</p>'
    name = escape(runs[0].manifest.environment)
    return f"<h2>The same rollout of {name}, before and after</h2>{told}{cards}" if cards else ""


def _choose_examples(before: Sequence[TraceRow], after: Sequence[TraceRow]) -> list[tuple[str, int]]:
    now = {(row.task, row.rollout): row.score for row in after if row.score is not None}
    moved = [
        (now[row.task, row.rollout] - row.score, row.task, row.rollout)
        for row in before
        if row.score is not None and (row.task, row.rollout) in now
    ]
    best = sorted(moved, key=lambda each: (-each[0], each[1:]))
    tasks: dict[str, int] = {}
    for gain, task, rollout in best:
        if gain > 0 and len(tasks) < _EXAMPLES and task.partition("-")[0] not in {name.partition("-")[0] for name in tasks}:
            tasks[task] = rollout
    worst = [(task, rollout) for _, task, rollout in reversed(best) if now[task, rollout] == 0 and task not in tasks]
    return [*tasks.items(), *worst[:1]]


def _trace(run: Run, task: str, number: int, word: str, place: Path) -> str:
    trace = run.trace(task, number)
    score = str(trace.outcome.score) if isinstance(trace.outcome, Scored) else type(trace.outcome).__name__.lower()
    lines = [
        line if len(line) <= _LONGEST else line[:_LONGEST] + " ..."
        for node in trace.path()
        for line in message_lines(node.message)
    ]
    good = trace.reward is not None and trace.reward >= 1
    head = f'<h4>{word} <b class="{"up" if good else "down"}">{escape(score)}</b></h4>'
    return f"{head}<pre>{escape(chr(10).join(lines))}</pre>{_command(run, task, number, place)}"


def _command(run: Run, task: str, number: int, place: Path) -> str:
    """How to see the whole trace, from the folder that the report lies in."""
    shown = shlex.quote(f"{run.path.relative_to(place)}/{task}/{number}")
    return f"<p><code>sandlot show {escape(shown)}</code></p>"


def _settings(path: Path) -> str:
    """The recipe as it was run."""
    file = path / "recipe.json"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return f"<details><summary>The recipe</summary><pre>{escape(text)}</pre></details>" if text else ""
