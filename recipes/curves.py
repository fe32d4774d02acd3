"""Learning curves: one model, trained in four ways with the same tasks and number of updates, and measured in the same way.

    python recipes/curves.py                          train what is missing in runs/curves, then write the charts and the table
    python recipes/curves.py --env drill --seeds 0 1 --ways grpo random
    python recipes/curves.py --only-show              train nothing, show the runs that exist
    python recipes/curves.py --only-show --with FILE  also show a `curves.json` from another machine

- `grpo` learns from its own rollouts.
- `sft` imitates golden solutions of the train split: in every update as many as GRPO has rollouts.
- `rejection` imitates its own rollouts with the best scores.
- `random` is GRPO with a random reward (control): its score must not rise.

Each is an ordinary training run with its own report. The same command continues after an interruption.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sandlot import Trace
from sandlot.cli.views.train import train_watched
from sandlot.core.types import derive_seed
from sandlot.observe.chart import Curve as ChartCurve
from sandlot.observe.chart import line_chart
from sandlot.observe.page import html_page
from sandlot.observe.training_records import Measured
from sandlot.train import Clip, Evaluation, Imitate, Optimisation, Outcome, PolicyGradient, Recipe, Sampling, TrainingProgress
from sandlot.train.report.summary import Level

ROOT = Path(__file__).parent.parent
PLACE = Path("runs") / "curves"
GUIDE = ROOT / "docs" / "guides" / "train.md"
MARKS = ("<!-- written by `recipes/curves.py` -->", "<!-- end -->")


def drill() -> Recipe:
    """Tasks of a single skill at a shell, in sandboxes."""
    return Recipe(
        name="drill",
        env=ROOT / "environments" / "drill",
        model="rookie",
        steps=16,
        select=lambda task: "single" in task.tags,
        tasks=16,
        group=8,
        resample=1,
        algorithm=PolicyGradient(baseline="grpo", loss=Clip(0.2, 0.28)),
        optimisation=Optimisation(learning_rate=5e-4, tokens=1024),
        sampling=Sampling(max_tokens=64),
        evaluation=Evaluation(every=4, tasks=160, group=2),
        at_once=128,
        threads=1,
    )


def arithmetic() -> Recipe:
    """Sums of two-digit numbers, one turn each."""
    return drill().but(
        name="arithmetic",
        env=ROOT / "environments" / "arithmetic",
        steps=48,
        select=None,
        sampling=Sampling(max_tokens=16),
        evaluation=Evaluation(every=12, group=4),
    )


def helpdesk() -> Recipe:
    """Four tickets, ten tools, about twenty turns."""
    return drill().but(
        name="helpdesk",
        env=ROOT / "environments" / "helpdesk",
        steps=10,
        select=None,
        tasks=6,
        group=6,
        sampling=Sampling(max_tokens=128),
        evaluation=Evaluation(every=5, group=2),
        at_once=76,
    )


def chance(trace: Trace) -> float:
    """A random reward, independent of what the agent did."""
    return derive_seed("chance", trace.task, trace.rollout) / 2**63


def grpo(recipe: Recipe) -> Recipe:
    """The recipe, unchanged."""
    return recipe


def sft(recipe: Recipe) -> Recipe:
    """SFT on golden solutions: one per task (they never differ), and as many in an update as GRPO has rollouts."""
    return recipe.but(teacher="scripted:golden", algorithm=Imitate(), tasks=recipe.tasks * recipe.group, group=1)


def rejection(recipe: Recipe) -> Recipe:
    """SFT on its own rollouts with full marks; on helpdesk, where it gets none, on those with 0.4 or more."""
    return recipe.but(algorithm=Imitate(least=0.4 if recipe.name == "helpdesk" else 1.0))


def random(recipe: Recipe) -> Recipe:
    """GRPO with a random reward."""
    return recipe.but(reward=chance)


ENVIRONMENTS = {"arithmetic": arithmetic, "drill": drill, "helpdesk": helpdesk}
WAYS = {"grpo": grpo, "sft": sft, "rejection": rejection, "random": random}
LABELS = {
    "grpo": ("GRPO", "--blue"),
    "sft": ("SFT on golden solutions", "--green"),
    "rejection": ("SFT on its best rollouts", "--amber"),
    "random": ("GRPO, random reward (control)", "--red"),
}


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """One training run, measured on held-out tasks."""

    environment: str
    way: str
    seed: int
    points: tuple[Measured, ...]
    before: Level
    after: Level
    change: Level
    """Paired by task."""
    p_value: float
    overlap: bool
    """True if the intervals before and after overlap."""
    updates: int
    rollouts: int
    seconds: float


# -- running -----------------------------------------------------------------------------------------------------------


def place_of(environment: str, way: str, seed: int) -> Path:
    return PLACE / f"{environment}-{way}-{seed}"


def learn(environment: str, way: str, seed: int) -> None:
    """Train it, or continue it."""
    recipe = WAYS[way](ENVIRONMENTS[environment]())
    # One name for all ways: held-out tasks get the same random draws, so that every way starts from the same measurement.
    train_watched(recipe.but(seed=seed), place=place_of(environment, way, seed), quiet=False)


def curve_of(environment: str, way: str, seed: int) -> Curve | None:
    """The curve of a complete training; None if it is not complete."""
    path = place_of(environment, way, seed)
    file = path / "summary.json"
    outcome = msgspec.json.decode(file.read_bytes(), type=Outcome) if file.is_file() else None
    if outcome is None or outcome.heldout_before is None or outcome.heldout_after is None or outcome.paired is None:
        return None
    before, after = (
        Level(mean=each.mean, low=each.low, high=each.high) for each in (outcome.heldout_before, outcome.heldout_after)
    )
    return Curve(
        environment=environment,
        way=way,
        seed=seed,
        points=tuple(TrainingProgress.read(path).evaluations),
        before=before,
        after=after,
        change=outcome.paired.difference,
        p_value=outcome.paired.p_value,
        overlap=before.low <= after.high and after.low <= before.high,
        updates=outcome.steps,
        rollouts=sum(step.rollouts for step in TrainingProgress.read(path).steps),
        seconds=outcome.seconds,
    )


# -- showing -----------------------------------------------------------------------------------------------------------


def picture(curves: list[Curve]) -> str:
    """One chart per environment and seed."""
    figures = ""
    for environment, seed in dict.fromkeys((curve.environment, curve.seed) for curve in curves):
        lines = [
            ChartCurve(
                LABELS[curve.way][0],
                [(point.version, point.mean) for point in curve.points],
                LABELS[curve.way][1],
                band=[(point.low, point.high) for point in curve.points],
                dots=True,
            )
            for curve in curves
            if (curve.environment, curve.seed) == (environment, seed)
        ]
        chart = line_chart(lines, x_name="update", y_range=(0, 1), label=f"held-out score on {environment} by update")
        caption = "Held-out score; bands are 95 % intervals over tasks."
        figures += f"<figure><h2>{environment}, seed {seed}</h2><p>{caption}</p>{chart}</figure>"
    return html_page("Learning curves", f'<h1>Learning curves of rookie</h1><section class="pictures">{figures}</section>')


def table(curves: list[Curve]) -> str:
    """The table of the guide, as Markdown."""
    rows = [
        "| environment | learned from | seed | updates, rollouts | held-out before | after | change, by task | intervals |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for curve in curves:
        chance = "p < 0.001" if curve.p_value < 0.001 else f"p = {curve.p_value:.3f}"
        rows.append(
            f"| {curve.environment} | {LABELS[curve.way][0]} | {curve.seed} | {curve.updates}, {curve.rollouts:,} "
            f"| {_level(curve.before)} | {_level(curve.after)} "
            f"| {curve.change.mean:+.3f} ({curve.change.low:+.3f} to {curve.change.high:+.3f}), {chance} "
            f"| {'overlap' if curve.overlap else 'apart'} |"
        )
    return "\n".join(rows)


def _level(level: Level) -> str:
    return f"{level.mean:.3f} ({level.low:.3f} to {level.high:.3f})"


def known(elsewhere: Sequence[Path]) -> list[Curve]:
    """Curves of all runs here, and of the files given; if both have the same curve, the run's is used."""
    found = [curve for file in elsewhere for curve in msgspec.json.decode(file.read_bytes(), type=list[Curve])]
    for path in PLACE.glob("*-*-[0-9]*"):
        environment, way, seed = path.name.rsplit("-", 2)
        curve = curve_of(environment, way, int(seed)) if environment in ENVIRONMENTS and way in WAYS else None
        found += [curve] if curve is not None else []
    order = {name: number for number, name in enumerate([*ENVIRONMENTS, *WAYS])}
    distinct = {(order[curve.environment], curve.seed, order[curve.way]): curve for curve in found}
    return [distinct[place] for place in sorted(distinct)]


def show(elsewhere: Sequence[Path], *, guide: bool) -> None:
    """Write `curves.json` and the charts, and with `guide` the table of the guide."""
    curves = known(elsewhere)
    PLACE.mkdir(parents=True, exist_ok=True)
    (PLACE / "curves.json").write_bytes(msgspec.json.format(msgspec.json.encode(curves), indent=2) + b"\n")
    (PLACE / "curves.html").write_text(picture(curves), encoding="utf-8")
    print(table(curves))
    if guide:
        before, _, rest = GUIDE.read_text(encoding="utf-8").partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        GUIDE.write_text(f"{before}{MARKS[0]}\n\n{table(curves)}\n\n{MARKS[1]}{after}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--env", nargs="+", choices=[*ENVIRONMENTS], default=[*ENVIRONMENTS])
    parser.add_argument("--ways", nargs="+", choices=[*WAYS], default=[*WAYS])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--only-show", action="store_true", help="run nothing")
    parser.add_argument(
        "--with", nargs="+", type=Path, default=[], dest="elsewhere", help="`curves.json` files from other machines"
    )
    parser.add_argument("--guide", action="store_true", help="write the table into docs/guides/train.md too")
    asked = parser.parse_args()
    for environment in () if asked.only_show else asked.env:
        for seed in asked.seeds:
            for way in asked.ways:
                if curve_of(environment, way, seed) is None:
                    learn(environment, way, seed)
    show(asked.elsewhere, guide=asked.guide)
    return 0


if __name__ == "__main__":
    sys.exit(main())
