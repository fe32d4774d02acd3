"""SmolLM2-135M learns to use a shell: SFT on golden solutions of `drill`, then GRPO. Needs a GPU.

    python recipes/smollm2.py --device cuda                         everything: SFT, then GRPO with 3 seeds and staleness 0, 2, 4
    python recipes/smollm2.py --device cuda --seeds 1 --staleness 0 4
    sandlot train recipes/smollm2.py:imitation                      SFT only

The published model does not know how to call these tools. SFT on golden solutions of the train split continues until it
solves some held-out tasks; after that it learns from its own rollouts only. All measurements use the same held-out tasks.
Sampling seeds follow the recipe's name and seed, so trainings with one seed are measured with the same draws, whatever their
staleness.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))  # a machine that only trains has no sandlot installed

from sandlot import Task, train  # noqa: E402
from sandlot.train import (  # noqa: E402
    Clip,
    Evaluation,
    Imitate,
    Optimisation,
    PolicyGradient,
    Recipe,
    Sampling,
    TrainingProgress,
    outcome_of,
)

PLACE = Path("runs") / "smollm2"
EVALUATION = Evaluation(every=100, tasks=200, group=2)


ENOUGH = 0.2
"""SFT ends at the first measurement with this held-out score."""
SFT_STEPS = 16
"""Steps of SFT between two measurements."""


def single(task: Task) -> bool:
    """True for tasks of a single skill."""
    return "single" in task.tags


def imitation(device: str = "cuda", steps: int = SFT_STEPS) -> Recipe:
    """SFT on golden solutions: enough to call the tool, not enough to be good at it."""
    return Recipe(
        name="smollm2-shown",
        env=ROOT / "environments" / "drill",
        select=single,
        model="smollm2",
        steps=steps,
        tasks=32,
        group=1,
        resample=1,
        teacher="scripted:golden",
        algorithm=Imitate(),
        optimisation=Optimisation(learning_rate=1e-4, warmup=4, tokens=16384),
        sampling=Sampling(max_tokens=96),
        evaluation=Evaluation(every=SFT_STEPS, tasks=200, group=2),
        at_once=128,
        device=device,
    )


def recipe(device: str = "cuda", seed: int = 0, staleness: int = 0, steps: int = 60, start: int = SFT_STEPS) -> Recipe:
    """GRPO, starting from the weights after `start` steps of SFT."""
    return Recipe(
        name="smollm2",
        env=ROOT / "environments" / "drill",
        select=single,
        model=f"hf:{PLACE / 'shown'}/checkpoints/{start:06d}/model",
        steps=steps,
        tasks=16,
        group=8,
        resample=1,
        algorithm=PolicyGradient(baseline="grpo", loss=Clip(0.2, 0.28).for_staleness(staleness)),
        # At 3e-5 with staleness, the reward stops rising after a few steps (docs/guides/train.md, Staleness).
        optimisation=Optimisation(learning_rate=1e-5, warmup=2, tokens=8192),
        sampling=Sampling(max_tokens=96),
        evaluation=EVALUATION,
        staleness=staleness,
        at_once=256,
        seed=seed,
        device=device,
    )


def train_and_print(made: Recipe, place: Path) -> dict[str, Any]:
    """Train; print and return the held-out score before and after, and each step's seconds, reward and staleness."""
    started = time.monotonic()
    progress = train(made, run=place)
    outcome = outcome_of(progress, made, made.sandbox)
    before, after = outcome.heldout_before, outcome.heldout_after
    figures = {
        "run": place.name,
        "seconds": round(time.monotonic() - started, 1),
        "before": before and [round(before.mean, 3), round(before.low, 3), round(before.high, 3)],
        "after": after and [round(after.mean, 3), round(after.low, 3), round(after.high, 3)],
        "steps": [[round(step.seconds, 2), round(step.reward, 3), step.staleness] for step in progress.steps],
    }
    print(json.dumps(figures), flush=True)
    if progress.stopped:
        sys.exit(f"stopped: {progress.stopped}; the same command continues")
    return figures


def imitate_until_enough(device: str) -> tuple[int, list[dict[str, Any]]]:
    """Train with SFT until the held-out score reaches `ENOUGH`: the number of steps, and the figures of this call."""
    figures: list[dict[str, Any]] = []
    for start in range(SFT_STEPS, 8 * SFT_STEPS + 1, SFT_STEPS):
        measured = next((each for each in TrainingProgress.read(PLACE / "shown").evaluations if each.version == start), None)
        if measured is None:  # not from an earlier call of this command
            figures.append(train_and_print(imitation(device, start), PLACE / "shown"))
            measured = TrainingProgress.read(PLACE / "shown").evaluations[-1]
        if measured.mean >= ENOUGH:
            return start, figures
    sys.exit(f"{8 * SFT_STEPS} steps of SFT did not reach a held-out score of {ENOUGH}")


def main() -> None:
    """SFT, then GRPO with several seeds and bounds on staleness, one training after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--staleness", type=int, nargs="+", default=[0, 2, 4])
    parser.add_argument("--steps", type=int, default=60)
    flags = parser.parse_args()
    start, figures = imitate_until_enough(flags.device)
    for seed in range(flags.seeds):
        for stale in flags.staleness:
            made = recipe(flags.device, seed, stale, steps=flags.steps, start=start)
            figures.append(train_and_print(made, PLACE / f"seed{seed}-stale{stale}"))
    (PLACE / "figures.json").write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
