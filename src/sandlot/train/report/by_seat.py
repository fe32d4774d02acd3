"""The part of a training's report that shows its seats side by side, where several agents act."""

from collections.abc import Iterable, Sequence
from html import escape

from sandlot.observe.chart import Curve, line_chart
from sandlot.train.report.progress import TrainingProgress
from sandlot.train.report.summary import Heldout, Outcome, SeatOutcome

_COLOURS = ("--blue", "--green", "--amber", "--violet", "--red", "--dim")
_UNIT = (0.0, 1.0)


def seats_section(progress: TrainingProgress, outcome: Outcome) -> str:
    """A table of the seats that learn, and their curves, for each environment that has some."""
    return "".join(_environment(name, env.seats, progress) for name, env in outcome.environments.items() if env.seats)


def _environment(name: str, seats: dict[str, SeatOutcome], progress: TrainingProgress) -> str:
    head = (
        "<tr><th>seat</th><th>held-out before</th><th>after</th><th>change by task</th><th>training reward</th>"
        "<th>model</th><th>best version</th><th>last weights</th></tr>"
    )
    rows = "".join(_row(seat, each) for seat, each in seats.items())
    charts = "".join(_charts(name, list(seats), progress))
    return (
        f'<h2>By seat: {escape(name)}</h2><div class="wide"><table>{head}{rows}</table></div>'
        f'<section class="pictures">{charts}</section>'
    )


def _row(name: str, seat: SeatOutcome) -> str:
    paired = seat.paired.difference if seat.paired else None
    cells = [
        escape(name),
        _score(seat.heldout_before),
        _score(seat.heldout_after),
        f"{paired.mean:+.3f} <small>{paired.low:+.3f} to {paired.high:+.3f}</small>" if paired else "-",
        "-" if seat.reward is None else f"{seat.reward:.2f}",
        escape(f"{seat.model}, weights of its own" if seat.own else seat.model),
        "-" if seat.best_version is None else str(seat.best_version),
        escape(seat.last_weights or seat.last_adapter or "-"),
    ]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _score(heldout: Heldout | None) -> str:
    return f"{heldout.mean:.3f} <small>{heldout.low:.3f} to {heldout.high:.3f}</small>" if heldout else "-"


def _charts(env: str, seats: Sequence[str], progress: TrainingProgress) -> Iterable[str]:
    colours = {seat: _COLOURS[number % len(_COLOURS)] for number, seat in enumerate(seats)}
    measured = [(line.version, line.environments[env].seats) for line in progress.evaluations if env in line.environments]
    rewards = [(float(step.version), step.environments[env].seats) for step in progress.steps if env in step.environments]
    heldout = [
        Curve(
            seat,
            [(version, each[seat].mean) for version, each in measured if seat in each],
            colours[seat],
            band=[(each[seat].low, each[seat].high) for _, each in measured if seat in each],
            dots=True,
        )
        for seat in seats
    ]
    trained = [Curve(seat, [(step, each[seat]) for step, each in rewards if seat in each], colours[seat]) for seat in seats]
    entropies = [
        Curve(
            seat, [(float(step.version), step.policies[seat].entropy) for step in progress.steps if seat in step.policies], colour
        )
        for seat, colour in colours.items()
    ]
    yield _card(
        "Held-out score by seat", "On tasks that are never trained on, by each seat's own score.", heldout, "version", _UNIT
    )
    yield _card("Training reward by seat", "Means over the rollouts of a step.", trained, "step", _UNIT)
    if any(curve.points for curve in entropies):
        yield _card("Entropy by seat", "Of each policy with weights of its own, in nats per token.", entropies, "step", None)


def _card(title: str, told: str, curves: Sequence[Curve], x_name: str, y_range: tuple[float, float] | None) -> str:
    chart = line_chart(curves, x_name=x_name, y_range=y_range, label=title.lower())
    return f"<figure><h2>{escape(title)}</h2><p>{escape(told)}</p>{chart}</figure>"
