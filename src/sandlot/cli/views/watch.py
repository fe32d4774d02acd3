"""What `sandlot watch` draws: one screen about a run, refreshed in place. Names that others wrote are made printable."""

import math
import sys
import time
from collections.abc import Iterator

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from sandlot.analysis.picture import RunPicture, RunViewer, TrainingPicture
from sandlot.cli.options import print_json
from sandlot.cli.views.columns import column_lines
from sandlot.core.text import one_line, printable_json
from sandlot.observe.live import RunNow
from sandlot.observe.progress import Pace
from sandlot.run.follow import FinishedRollout, RunState

_COLOURS = {"running": "green", "paused": "yellow", "complete": "green", "stopped": "red", "incomplete": "yellow"}
_BAR = 24
_NAME_CHARS = 48
_ROWS = 6
"""Lines of each table."""
_SLOW_LOOP_S = 0.25


def watch_run(viewer: RunViewer, every_s: float) -> RunPicture:
    """Draw pictures until the run ends or Ctrl-C; returns the last one."""
    console = Console(highlight=False)
    picture = viewer.look()
    try:
        if console.is_terminal:
            picture = _draw_in_place(viewer, console, picture, every_s)
        else:
            picture = _write_lines(viewer, console, picture, every_s)
    except KeyboardInterrupt:
        picture = viewer.look()
    if not console.is_terminal:
        print_picture(picture)
    return picture


def _draw_in_place(viewer: RunViewer, console: Console, picture: RunPicture, every_s: float) -> RunPicture:
    with Live(_screen(picture), console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while picture.live:
            time.sleep(every_s)
            picture = viewer.look()
            live.update(_screen(picture), refresh=True)
    return picture


def _write_lines(viewer: RunViewer, console: Console, picture: RunPicture, every_s: float) -> RunPicture:
    pace = Pace()
    while picture.live:
        if pace.due():
            console.print(Text("  ").join([_title(picture), _counts(picture.progress)]), soft_wrap=True)
        time.sleep(every_s)
        picture = viewer.look()
    return picture


def watch_run_json(viewer: RunViewer, every_s: float, *, follow: bool) -> RunPicture:
    """Print one picture as JSON, or with `follow` a line per refresh until the run ends or Ctrl-C; returns the last one."""
    picture = viewer.look()
    if not follow:
        print_json(picture)
        return picture
    try:
        while True:
            sys.stdout.buffer.write(printable_json(msgspec.json.encode(picture)) + b"\n")
            sys.stdout.flush()
            if not picture.live:
                return picture
            time.sleep(every_s)
            picture = viewer.look()
    except KeyboardInterrupt:
        return picture


def print_picture(picture: RunPicture) -> None:
    """One picture, to stdout; no line is cut."""
    console = Console(highlight=False)
    for line in _lines(picture):
        console.print(line, soft_wrap=True)


def _screen(picture: RunPicture) -> Group:
    lines = list(_lines(picture))
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


# -- the lines ---------------------------------------------------------------------------------------------------------


def _lines(picture: RunPicture) -> Iterator[Text]:
    state, now = picture.progress, picture.progress.now
    yield _title(picture)
    yield _counts(state)
    if state.sides:
        sides = ", ".join(f"{escape(one_line(side, 40))} {count:,}" for side, count in state.sides.items())
        yield _line("failed", f"[red]{sides}[/]")
    if picture.training is not None:
        yield from _training_lines(picture.training)
    yield from _now_lines(now)
    if now.in_flight:
        yield Text()
        rows = [
            (_rollout(each.task, each.rollout), _span(each.seconds), str(each.turns), f"{each.doing}, {_span(each.since_s)}")
            for each in now.in_flight[:_ROWS]
        ]
        yield from column_lines((f"in flight: {now.num_in_flight:,}", "for", "turns", "waits for"), rows)
    if now.tools:
        yield Text()
        rows = [
            (_name(each.name), f"{each.calls:,}", f"{each.errors:,}", f"{each.seconds:.1f} s", f"{each.longest:.2f} s")
            for each in now.tools[:_ROWS]
        ]
        yield from column_lines(("slowest tools", "calls", "errors", "in all", "longest"), rows)
    if state.last:
        yield Text()
        rows = [(_rollout(each.task, each.rollout), _ended(each), str(each.turns), _span(each.seconds)) for each in state.last]
        yield from column_lines(("finished last", "score", "turns", "took"), rows)


def _title(picture: RunPicture) -> Text:
    why = f": {escape(one_line(picture.stopped, 200))}" if picture.stopped else ""
    return Text.from_markup(
        f"[bold]{escape(one_line(picture.run, 120))}[/]  {escape(one_line(picture.environment, 80))} with "
        f"{escape(one_line(picture.model, 120))}  [{_COLOURS.get(picture.state, 'dim')}]{escape(picture.state)}[/]{why}"
    )


def _counts(state: RunState) -> Text:
    share = min(1.0, state.rollouts / state.planned) if state.planned else None
    bar = "" if share is None else f"{'━' * round(share * _BAR)}[dim]{'─' * (_BAR - round(share * _BAR))}[/] "
    planned = "" if state.planned is None else f" of {state.planned:,}"
    pieces = [f"{bar}{state.rollouts:,}{planned} rollouts"]
    pieces += [f"{state.now.per_second:.1f}/s"] if state.now.per_second else []
    pieces += [f"{_span(state.left_s)} left"] if state.live and state.left_s is not None else []
    pieces += [f"score [bold]{state.score:.3f}[/]"] if state.score is not None else []
    pieces += [f"[red]{state.failed:,} failed[/]"] if state.failed else []
    return Text.from_markup("  ".join(pieces))


def _now_lines(now: RunNow) -> Iterator[Text]:
    if now.waits:
        yield _line("in flight", ", ".join(f"{count:,} {escape(doing)}" for doing, count in now.waits.items()))
    if now.limit is not None:
        yield _line("at once", f"at most {now.limit:,} now: {escape(one_line(now.bound, 40))}")
    if now.phases:
        shares = [f"{escape(one_line(name, 40))} {share:.0%}" for name, share in now.phases.items() if share >= 0.01]
        yield _line("time", ", ".join(shares))
    if now.tokens_per_s is not None and now.num_in_flight:
        yield _line("tokens", f"{now.tokens_per_s:,.0f}/s sampled")
    if now.reward_latency_s is not None:
        yield _line("reward", f"{_span(now.reward_latency_s)} after the agent's end")
    if now.lag_s is not None:
        late = f"{now.lag_s * 1000:,.0f} ms"
        yield _line("loop lag", f"[yellow]{late}[/]" if now.lag_s >= _SLOW_LOOP_S else late)


def _training_lines(training: TrainingPicture) -> Iterator[Text]:
    yield _line("training", f"{training.step:,} of {training.steps:,} steps" + (f"; {training.doing}" if training.doing else ""))
    for incident in training.incidents[-3:]:
        said = escape(one_line(incident.said, 400))
        yield _line("alarm", f"[red]version {incident.version}: {said}[/] ({escape(incident.did)})")
    if training.heldout:
        last = training.heldout[-4:]
        scores = [f"{each.version}: {each.mean:.3f} [dim]({each.low:.3f} to {each.high:.3f})[/]" for each in last]
        yield _line("held-out", "  ".join(scores))
    if training.last_steps:
        yield Text()
        rows = [
            (
                str(step.version),
                f"{step.reward:.3f}",
                f"{step.passed:.0%}",
                f"{step.informative} of {step.groups}",
                f"{step.entropy:.3f}",
                "-" if step.kl is None else f"{step.kl:.4f}",
                "-" if math.isnan(step.loss) else f"{step.loss:.4f}",
                _span(step.seconds),
            )
            for step in training.last_steps
        ]
        yield from column_lines(("step", "reward", "full marks", "groups that teach", "entropy", "KL", "loss", "took"), rows)


def _line(name: str, text: str) -> Text:
    return Text.from_markup(f"[dim]{name:>10}[/]  {text}")


def _rollout(task: str, rollout: int) -> str:
    return f"{_name(task)}/{rollout}"


def _name(text: str) -> str:
    return escape(one_line(text, _NAME_CHARS))


def _ended(rollout: FinishedRollout) -> str:
    if rollout.score is not None:
        return f"{rollout.score:.3f}"
    return f"[red]failed: {escape(one_line(rollout.side, 40))}[/]" if rollout.side else escape(rollout.outcome)


def _span(seconds: float) -> str:
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
