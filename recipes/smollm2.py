"""SmolLM2-135M learns to use a shell: shown a few hundred chores of `drill`, then left to try. Wants a GPU.

    python recipes/smollm2.py --device cuda        everything: shown, three seeds of GRPO, asynchronous against synchronous
    sandlot train recipes/smollm2.py:shown         only what comes before reinforcement

The model as it comes has never called a tool of ours. Imitating golden solutions of the train split brings it to where it succeeds
sometimes; from there on nobody shows it anything. All measurements are on the same held-out tasks with the same random draws.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))  # a machine that only trains has no sandlot installed

from sandlot.ports import Sampling  # noqa: E402
from sandlot.train.algorithms import Imitate, PolicyGradient  # noqa: E402
from sandlot.train.components import Clip  # noqa: E402
from sandlot.train.outcome import outcome_of  # noqa: E402
from sandlot.train.recipe import Evaluation, Recipe  # noqa: E402
from sandlot.train.train import train  # noqa: E402
from sandlot.train.trainer import Optimisation  # noqa: E402

PLACE = Path("runs") / "smollm2"
EVALUATION = Evaluation(every=20, tasks=128, group=2)


ENOUGH = 0.2
"""It has been shown enough at the first measurement that reaches this."""
A_WHILE = 8
"""Steps of imitation between two measurements."""


def shown(device: str = "cuda", steps: int = A_WHILE) -> Recipe:
    """Imitation of golden solutions: enough to call the tool, not enough to be good at it."""
    return Recipe(
        name="smollm2-shown",
        env=ROOT / "environments" / "drill",
        model="smollm2",
        steps=steps,
        tasks=32,
        group=1,
        resample=1,
        teacher="scripted:golden",
        algorithm=Imitate(),
        optimisation=Optimisation(learning_rate=1e-4, warmup=4, tokens=16384),
        sampling=Sampling(max_tokens=96),
        evaluation=Evaluation(every=A_WHILE, tasks=128, group=2),
        at_once=128,
        device=device,
    )


def recipe(device: str = "cuda", seed: int = 0, staleness: int = 0, steps: int = 40, start: int = A_WHILE) -> Recipe:
    """GRPO from the weights that were shown `start` steps."""
    return Recipe(
        name=f"smollm2-seed{seed}-stale{staleness}",
        env=ROOT / "environments" / "drill",
        model=f"hf:{PLACE / 'shown'}/checkpoints/{start:06d}/model",
        steps=steps,
        tasks=16,
        group=8,
        resample=1,
        algorithm=PolicyGradient(baseline="grpo", loss=Clip(0.2, 0.28), aggregate="token"),
        optimisation=Optimisation(learning_rate=1e-5, warmup=4, tokens=32768),
        sampling=Sampling(max_tokens=96),
        evaluation=EVALUATION,
        staleness=staleness,
        at_once=256,
        seed=seed,
        device=device,
    )


def told(made: Recipe, place: Path) -> dict[str, Any]:
    """Train it, and what came out: held-out before and after, and the reward over wall-clock time."""
    started = time.monotonic()
    progress = train(made, run=place)
    outcome = outcome_of(progress, made, made.sandbox)
    before, after = outcome.heldout_before, outcome.heldout_after
    said = {
        "name": made.name,
        "seconds": round(time.monotonic() - started, 1),
        "before": before and [round(before.mean, 3), round(before.low, 3), round(before.high, 3)],
        "after": after and [round(after.mean, 3), round(after.low, 3), round(after.high, 3)],
        "steps": [[round(step.seconds, 2), round(step.reward, 3), step.staleness] for step in progress.steps],
    }
    print(json.dumps(said), flush=True)
    return said


def main() -> None:
    """All of it, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    flags = parser.parse_args()
    figures: list[dict[str, Any]] = []
    start = 0
    while start < 8 * A_WHILE and not (figures and figures[-1]["after"][0] >= ENOUGH):
        start += A_WHILE
        figures.append(told(shown(flags.device, start), PLACE / "shown"))
    for seed in range(flags.seeds):
        figures.append(told(recipe(flags.device, seed, steps=flags.steps, start=start), PLACE / f"seed{seed}"))
    figures.append(told(recipe(flags.device, 0, staleness=2, steps=flags.steps, start=start), PLACE / "asynchronous"))
    (PLACE / "figures.json").write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
