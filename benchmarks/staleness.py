"""Learning while sampling goes on, next to taking turns: the same recipe with a bound on staleness and without, in one run.

    make bench NAME=staleness ARGS="--table staleness"                rookie on drill, on the CPU
    make bench NAME=staleness ARGS="--device cuda --model hf:FOLDER"
    python benchmarks/staleness.py --staleness 0 1 2 4 --steps 32 --keep runs/staleness

With a bound of 0 the engine waits while weights are learned, and the trainer while rollouts are taken; with E both go on, and no
token that is learned from is more than E versions old. What counts is what a minute brings: held-out score gained, and how soon
the reward comes to where taking turns ends. Each arm is an ordinary training run; measurements are not in its time.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from report import Report, Row, publish, say

from sandlot.core.ports.model import Sampling
from sandlot.observe.training_records import Learned
from sandlot.train.algorithms.algorithms import PolicyGradient
from sandlot.train.algorithms.losses import Clip
from sandlot.train.recipe import Evaluation, Recipe
from sandlot.train.report.progress import TrainingProgress
from sandlot.train.train import train
from sandlot.train.trainer import Optimisation

NAME = "staleness"
ROOT = Path(__file__).parent.parent
SMOOTH = 4
"""Steps that the reward is averaged over: single ones jump."""


def recipe(options: argparse.Namespace, staleness: int, seed: int) -> Recipe:
    """The demo's; with staleness, its clip is the one for tokens of that age."""
    return Recipe(
        name="staleness",
        env=options.env,
        model=options.model,
        steps=options.steps,
        select=(lambda task: "single" in task.tags) if options.env.stem in {"drill", "pretend"} else None,
        tasks=options.tasks,
        group=options.group,
        resample=1,
        algorithm=PolicyGradient(baseline="grpo", loss=Clip(0.2, 0.28).for_staleness(staleness)),
        optimisation=Optimisation(learning_rate=options.rate, tokens=options.tokens),
        sampling=Sampling(max_tokens=64),
        evaluation=Evaluation(every=options.steps, tasks=options.heldout, group=2),
        staleness=staleness,
        at_once=options.tasks * options.group * (1 + min(staleness, 1)),
        threads=1 if options.device == "cpu" else None,
        device=options.device,
        seed=seed,
    )


def smoothed(steps: Sequence[Learned]) -> list[float]:
    """The reward at each step, averaged with those before it."""
    return [statistics.fmean(step.reward for step in steps[max(0, at - SMOOTH + 1) : at + 1]) for at in range(len(steps))]


def reached(progress: TrainingProgress, reward: float) -> float | None:
    """Seconds until the reward came to this; None if it never did."""
    clock = accumulate(step.seconds for step in progress.steps)
    places = zip(clock, smoothed(progress.steps), strict=True)
    return next((seconds for number, (seconds, value) in enumerate(places, 1) if number >= SMOOTH and value >= reward), None)


def figures(progress: TrainingProgress) -> dict[str, Any]:
    """What one arm came to."""
    steps, (before, *_, after) = progress.steps, progress.evaluations
    seconds = sum(step.seconds for step in steps)
    return {
        "seconds": round(seconds, 1),
        "updates_per_minute": round(60 * len(steps) / seconds, 2),
        "tokens_per_s": round(sum(step.sampled for step in steps) / seconds, 1),
        "stalest": max(step.staleness for step in steps),
        "kl": max(step.kl or 0.0 for step in steps),
        "before": [round(value, 4) for value in (before.mean, before.low, before.high)],
        "after": [round(value, 4) for value in (after.mean, after.low, after.high)],
        "gain_per_minute": round(60 * (after.mean - before.mean) / seconds, 4),
        "last_reward": round(smoothed(steps)[-1], 4),
        "curve": [
            [round(at, 2), round(step.reward, 4)]
            for at, step in zip(accumulate(step.seconds for step in steps), steps, strict=True)
        ],
    }


def rows(found: dict[int, list[dict[str, Any]]], first: int) -> list[Row]:
    """Means over seeds: the first bound as `ours`, the others beside it."""

    def line(what: str, key: str) -> Row:
        means = {bound: statistics.fmean(each[key] for each in arms) for bound, arms in found.items()}
        return Row(what, means[first], {f"staleness {bound}": value for bound, value in means.items() if bound != first})

    def by_seed(what: str, tell: Callable[[dict[str, Any]], str]) -> Row:
        told = {bound: ", ".join(tell(each) for each in arms) for bound, arms in found.items()}
        return Row(what, told[first], {f"staleness {bound}": text for bound, text in told.items() if bound != first})

    def level(key: str) -> Callable[[dict[str, Any]], str]:
        return lambda each: "{:.3f} ({:.3f} to {:.3f})".format(*each[key])

    def reached_after(each: dict[str, Any]) -> str:
        return "never" if each["to_reward"] is None else f"{each['to_reward']:.0f}"

    return [
        line("seconds of the whole training", "seconds"),
        line("updates a minute", "updates_per_minute"),
        line("sampled tokens a second", "tokens_per_s"),
        by_seed("held-out before, by seed", level("before")),
        by_seed("held-out after, by seed", level("after")),
        line("held-out score gained a minute", "gain_per_minute"),
        by_seed("seconds to the reward that taking turns ends with, by seed", reached_after),
        line("versions the stalest token was behind", "stalest"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", default="rookie")
    parser.add_argument("--env", type=Path, default=ROOT / "environments" / "drill")
    parser.add_argument("--staleness", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--heldout", type=int, default=120, help="tasks that are measured, twice each")
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--tokens", type=int, default=1024, help="tokens of one forest")
    parser.add_argument("--keep", type=Path, help="keep the runs here, and continue what is there")
    parser.add_argument("--table", help="write this section of README.md; leave out on a machine that is not quiet")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = options.keep or Path(scratch)
        found: dict[int, list[dict[str, Any]]] = {}
        for seed in options.seeds:
            arms = {bound: train(recipe(options, bound, seed), run=place / f"{bound}-{seed}") for bound in options.staleness}
            end = smoothed(arms[options.staleness[0]].steps)[-1]
            for bound, progress in arms.items():
                seconds = reached(progress, end)
                arm = {**figures(progress), "to_reward": None if seconds is None else round(seconds, 1)}
                say(f"staleness {bound}, seed {seed}: { ({key: value for key, value in arm.items() if key != 'curve'}) }")
                found.setdefault(bound, []).append(arm)
    first = options.staleness[0]
    ratios = {
        f"updates a minute, staleness {bound}": statistics.fmean(each["updates_per_minute"] for each in arms)
        / statistics.fmean(each["updates_per_minute"] for each in found[first])
        for bound, arms in found.items()
        if bound != first
    }
    peers = {f"staleness {bound}": {"runs": arms} for bound, arms in found.items() if bound != first}
    report = Report(options.table or NAME, ours={"runs": found[first]}, peers=peers, ratios=ratios, rows=rows(found, first))
    publish(report, write_table=options.table is not None)


if __name__ == "__main__":
    main()
