"""RLHF end to end on a small model and two CPU cores: rollouts, pairs, DPO, a reward model, GRPO on the reward model.

1. `rookie` tries every single task of drill four times; the best and the worst attempt at a task become a pair.
2. DPO learns from the file of pairs, without further rollouts.
3. A Bradley-Terry reward model learns to rank the pairs. Pairs of a fifth of the tasks are held out; its agreement with them is
   measured, next to that of the rule "rank by length".
4. GRPO learns from the reward model's scores. The environment's own score is recorded and not trained on.

Both policies are measured on held-out tasks with the environment's own score. `python recipes/rlhf.py` does it all in
`runs/rlhf`; the same command continues where it stopped.
"""

import subprocess
import sys
from pathlib import Path

import msgspec

import sandlot
from sandlot.train import (
    Clip,
    Dpo,
    Evaluation,
    Optimisation,
    Outcome,
    PairAgreement,
    PolicyGradient,
    Prefer,
    Recipe,
    RewardModel,
    RewardRecipe,
    Sampling,
    train_reward_model,
)

ROOT = Path(__file__).parent.parent
DRILL = ROOT / "environments" / "drill"
PLACE = Path("runs") / "rlhf"
PAIRS = PLACE / "pairs.jsonl"
TOKENS = 64


def single(task: sandlot.Task) -> bool:
    """True for the tasks that two million parameters can learn."""
    return "single" in task.tags


def common(name: str) -> Recipe:
    """What both trainings of the policy share."""
    return Recipe(
        name=name,
        env=DRILL,
        model="rookie",
        select=single,
        tasks=16,
        sampling=Sampling(max_tokens=TOKENS),
        at_once=128,
        threads=1,
    )


def preferences() -> Recipe:
    """DPO on the file of pairs: about one pass."""
    return common("rlhf-dpo").but(
        pairs=PAIRS,
        steps=27,
        tasks=32,
        algorithm=Prefer(loss=Dpo(0.1)),
        optimisation=Optimisation(learning_rate=3e-5, tokens=4096),
        evaluation=Evaluation(every=9, tasks=200, group=2),
    )


def taste() -> RewardRecipe:
    """The reward model: about one pass over the pairs that are not held out."""
    return RewardRecipe(
        pairs=PAIRS, model="rookie", steps=44, batch=16, every=11, optimisation=Optimisation(learning_rate=1e-4), threads=1
    )


def reinforced() -> Recipe:
    """GRPO on the reward model's scores, with the settings of `make demo`, which learns from the environment's own score."""
    return common("rlhf-grpo").but(
        steps=16,
        group=8,
        resample=1,
        algorithm=PolicyGradient(baseline="grpo", loss=Clip(0.2, 0.28)),
        optimisation=Optimisation(learning_rate=5e-4, tokens=1024),
        evaluation=Evaluation(every=8, tasks=200, group=2),
        reward=RewardModel(PLACE / "taste"),
    )


def command(*words: object) -> None:
    """Run `sandlot` with these words."""
    done = subprocess.run([sys.executable, "-m", "sandlot", *map(str, words)], check=False)  # noqa: S603 - our own
    if done.returncode not in {0, 1}:  # 1: some rollouts failed, or an alarm; the table shows both
        sys.exit(done.returncode)


def collect() -> None:
    """Four attempts at each task, and the file of pairs."""
    tasks = [task.id for task in sandlot.tasks_of(sandlot.load(DRILL), sandlot.Split.TRAIN) if single(task)]
    chosen = [word for task in tasks for word in ("--task", task)]
    sampled = ("--model", "rookie", "--max-tokens", TOKENS, "--group", 4, "--seed", 0, "--at-once", 128)
    command("run", DRILL, *sampled, "--for-training", "--run", PLACE / "rollouts", *chosen)
    command("export", "pairs", PLACE / "rollouts", "--out", PAIRS)


def main() -> None:
    """Run all stages, and print what came out."""
    if not PAIRS.is_file():
        collect()
    command("train", f"{__file__}:preferences", "--run", PLACE / "dpo")
    record = train_reward_model(taste(), PLACE / "taste", sink=lambda line: print(line, flush=True))
    command("train", f"{__file__}:reinforced", "--run", PLACE / "grpo")
    print("\n| reward model | held-out pairs | agreement | confidence |\n|---|---|---|---|")
    for name, found in (("before", record.before), ("after", record.after), ("ranked by length", record.length)):
        print(f"| {name} | {agreement(found)} |")
    print("\n| policy | held-out before | after | change, by task | alarms |\n|---|---|---|---|---|")
    for name in ("dpo", "grpo"):
        print(f"| {name} | {change(PLACE / name)} |")


def agreement(found: PairAgreement) -> str:
    """The agreement of a reward model, in cells of a table."""
    return f"{found.pairs} | {found.share:.3f} ({found.low:.3f} to {found.high:.3f}) | {found.confidence:.3f}"


def change(place: Path) -> str:
    """The held-out score before and after a training, in cells of a table."""
    outcome = msgspec.json.decode((place / "summary.json").read_bytes(), type=Outcome)
    before, after, paired = outcome.heldout_before, outcome.heldout_after, outcome.paired
    if before is None or after is None or paired is None:
        return "not finished | | |"
    levels = " | ".join(f"{each.mean:.3f} ({each.low:.3f} to {each.high:.3f})" for each in (before, after))
    moved = paired.difference
    return (
        f"{levels} | {moved.mean:+.3f} ({moved.low:+.3f} to {moved.high:+.3f}), p = {paired.p_value:.3f} | {len(outcome.alarms)}"
    )


if __name__ == "__main__":
    main()
