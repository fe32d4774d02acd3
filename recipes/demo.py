"""`make demo`: a small model learns small chores in real sandboxes, on a laptop, in three minutes.

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
    """GRPO on `drill`: 16 chores per step, 8 attempts at each, compared with each other."""
    return Recipe(
        name="demo",
        env=ROOT / "environments" / "drill",
        model="rookie",
        steps=16,
        select=lambda task: "single" in task.tags,  # one chore at a time: two in a row are beyond its two million parameters
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
    """For machines where no sandbox can be opened: the same chores at a simulated shell."""
    return recipe().but(env=ROOT / "recipes" / "pretend.py")


INTRODUCTION = """\
A model with two million parameters (`rookie`) gets small chores at a shell: sort this file, count those lines, swap a word.
It was pretrained on solved examples. From here on it sees no more of them: it tries each chore in a fresh sandbox, a rubric
grades the files it leaves, and GRPO moves its weights towards the attempts that scored better than its others.
It is measured on held-out tasks, which it never trains on, before and after.
"""

NO_SANDBOX = """\
No sandbox can be opened on this machine ({why}); `sandlot doctor` says what is missing.
This demo therefore uses a simulated shell with a dozen commands that runs nothing: same tasks, same rubric.
"""


def main() -> int:
    """Introduce, train, sum up."""
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
    """What it means, and what to look at next."""
    if outcome is None or outcome.heldout_before is None or outcome.heldout_after is None:
        return "\nNot finished: `make demo` again continues where it stopped."
    before, after = outcome.heldout_before, outcome.heldout_after
    proof = "The intervals do not touch: this is not luck." if outcome.separate else "The intervals touch: this may be luck."
    env = "recipes/pretend.py" if outcome.sandbox == "none" else "environments/drill"
    again = f"sandlot run {env} --split heldout --model hf:{PLACE}/{outcome.best_weights}"
    gain = f"{before.passed.mean:.0%} to {after.passed.mean:.0%} full marks in {outcome.seconds:.0f} s"
    return f"""
On tasks it never trained on, the model went from {gain}. {proof}

  curves, skills, rollouts before and after   {PLACE}/report.html
  the numbers                                 {PLACE}/summary.json
  every rollout                               sandlot show {PLACE}
  the new model at work                       {again}
  how it was done, in 25 lines                recipes/demo.py"""


if __name__ == "__main__":
    sys.exit(main())
