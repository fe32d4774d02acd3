"""The part of a training's report that shows its environments side by side, if it has several."""

from collections.abc import Iterable, Sequence
from html import escape

from sandlot.observe.chart import Curve, line_chart
from sandlot.observe.training_records import Learned, Measured
from sandlot.train.report.progress import TrainingProgress
from sandlot.train.report.summary import EnvironmentOutcome, Heldout, Outcome

_COLOURS = ("--blue", "--green", "--amber", "--violet", "--red", "--dim")


def environments_section(progress: TrainingProgress, outcome: Outcome) -> str:
    """A table of the environments, and their curves; empty for a training of one."""
    if len(outcome.environments) < 2:
        return ""
    head = (
        "<tr><th>environment</th><th>held-out before</th><th>after</th><th>change by task</th><th>training reward</th>"
        "<th>full marks</th><th>groups</th><th>rollouts</th><th>without a score</th></tr>"
    )
    rows = "".join(_row(name, each) for name, each in outcome.environments.items())
    charts = "".join(_charts(list(outcome.environments), progress.evaluations, progress.steps))
    return (
        f'<h2>By environment</h2><div class="wide"><table>{head}{rows}</table></div><section class="pictures">{charts}</section>'
    )


def _row(name: str, env: EnvironmentOutcome) -> str:
    paired = env.paired.difference if env.paired else None
    moved = f"{paired.mean:+.3f} <small>{paired.low:+.3f} to {paired.high:+.3f}</small>" if paired else "-"
    cells = [
        escape(name),
        _score(env.heldout_before),
        _score(env.heldout_after),
        moved,
        "-" if env.reward is None else f"{env.reward:.2f}",
        "-" if env.passed is None else f"{env.passed:.0%}",
        f"{env.groups:,}",
        f"{env.rollouts:,}",
        f"{env.failed:,}",
    ]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _score(heldout: Heldout | None) -> str:
    return f"{heldout.mean:.3f} <small>{heldout.low:.3f} to {heldout.high:.3f}</small>" if heldout else "-"


def _charts(names: Sequence[str], measured: Sequence[Measured], steps: Sequence[Learned]) -> Iterable[str]:
    colours = {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(names)}

    def of_steps(field: str) -> list[Curve]:
        return [
            Curve(
                name,
                [
                    (float(step.version), getattr(step.environments[name], field))
                    for step in steps
                    if name in step.environments and step.environments[name].groups
                ],
                colours[name],
            )
            for name in names
        ]

    known = [line for line in measured if line.environments]
    heldout = [Curve(name, [(line.version, line.environments[name].mean) for line in known], colours[name]) for name in names]
    yield _card("Held-out score by environment", "On tasks that are never trained on.", heldout, "version")
    yield _card("Full marks in training by environment", "Share of the scored rollouts of a step.", of_steps("passed"), "step")
    told = "Mean weight of its tasks: low where they are too hard or too easy. The same for all without `weigh`."
    yield _card("Sampling weight by environment", told, of_steps("weight"), "step")


def _card(title: str, told: str, curves: Sequence[Curve], x_name: str) -> str:
    chart = line_chart(curves, x_name=x_name, y_range=(0, 1), label=title.lower())
    return f"<figure><h2>{escape(title)}</h2><p>{escape(told)}</p>{chart}</figure>"
