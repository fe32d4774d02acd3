"""`make demo`: a small model learns small shell tasks in sandboxes, on a laptop, in three minutes.

The recipe is the first function; everything else explains what happens. `sandlot train recipes/demo.py` runs the same recipe.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

import sandlot
from sandlot.train import Clip, Evaluation, Optimisation, Outcome, PolicyGradient, Recipe, Sampling

ROOT = Path(__file__).parent.parent
PLACE = Path("runs") / "demo"


def recipe() -> Recipe:
    """GRPO on `drill`: 16 tasks per step, 8 rollouts of each, compared with each other."""
    return Recipe(
        name="demo",
        env=ROOT / "environments" / "drill",
        model="rookie",
        steps=16,
        select=lambda task: "single" in task.tags,  # tasks of two skills are too hard for two million parameters
        tasks=16,
        group=8,
        resample=1,
        algorithm=PolicyGradient(baseline="grpo", loss=Clip(0.2, 0.28), aggregate="token"),
        optimisation=Optimisation(learning_rate=5e-4, tokens=1024),
        sampling=Sampling(max_tokens=64),
        evaluation=Evaluation(every=8, tasks=200, group=2),
        at_once=128,
        threads=1,
    )


def without_sandboxes() -> Recipe:
    """For machines where no sandbox can be opened: the same tasks at a simulated shell."""
    return recipe().but(env=ROOT / "recipes" / "pretend.py")


INTRODUCTION = """\
A model with two million parameters (`rookie`) gets small tasks at a shell: sort this file, count those lines, swap a word.
It was pretrained on solved examples. From here on it sees no more of them. It tries each task in fresh sandboxes, a rubric
grades the files it leaves, and GRPO moves its weights towards the rollouts that scored better than others of the same task.
It is measured before and after, on held-out tasks that it never trains on.
"""

NO_SANDBOX = """\
No sandbox can be opened on this machine ({why}); `sandlot doctor` shows what is missing.
This demo therefore uses a simulated shell with a dozen commands that runs nothing: same tasks, same rubric.
"""


def main() -> int:
    """Print what will happen, train, print the result."""
    why = no_sandbox()
    print(NO_SANDBOX.format(why=why) if why else INTRODUCTION, flush=True)
    if finished() is not None:
        shutil.rmtree(PLACE)  # a finished demo makes room for the next; an interrupted one continues
    chosen = f"{__file__}:without_sandboxes" if why else __file__
    trained = subprocess.run([sys.executable, "-m", "sandlot", "train", chosen, "--run", PLACE], check=False)  # noqa: S603 - our own
    print(closing(finished()))
    return trained.returncode


def no_sandbox() -> str:
    """Why no sandbox can be opened here; empty if one can."""
    with tempfile.TemporaryDirectory() as runs:
        try:
            sandlot.run(ROOT / "environments" / "drill", "scripted:golden", rollouts=1, runs=runs)
        except sandlot.SandlotError as error:
            return str(error)
    return ""


def finished() -> Outcome | None:
    """The result of a demo that ran to its end; None if there is none."""
    file = PLACE / "summary.json"
    outcome = msgspec.json.decode(file.read_bytes(), type=Outcome) if file.is_file() else None
    return outcome if outcome is not None and outcome.verdict == "complete" else None


def closing(outcome: Outcome | None) -> str:
    """The result in one sentence, and what to look at next."""
    if outcome is None or outcome.heldout_before is None or outcome.heldout_after is None:
        return "\nNot finished: repeat `make demo` to continue where it stopped."
    before, after = outcome.heldout_before, outcome.heldout_after
    proof = "The 95% intervals do not overlap." if outcome.separate else "The 95% intervals overlap: this may be chance."
    env = "recipes/pretend.py" if outcome.sandbox == "none" else "drill"
    again = f"sandlot run {env} --split heldout --model hf:{PLACE}/{outcome.best_weights}"
    gain = f"{before.passed.mean:.0%} to {after.passed.mean:.0%} full marks in {outcome.seconds:.0f} s"
    return f"""
On tasks it never trained on, the model went from {gain}. {proof}

  report: curves, skills, example rollouts    {PLACE}/report.html
  the numbers                                 {PLACE}/summary.json
  every rollout                               sandlot show {PLACE}
  run the trained model                       {again}
  the recipe, 25 lines                        recipes/demo.py"""


if __name__ == "__main__":
    sys.exit(main())
