"""`make demo`: a small model learns small chores in real sandboxes, on a laptop, in three minutes.

The recipe is the first function; everything else tells a person what happens. The same recipe runs by itself with
`sandlot train recipes/demo.py`.
"""

import shutil
import sys
from pathlib import Path

import anyio
import msgspec

from sandlot.cli.views.train import train_watched
from sandlot.core.errors import SandlotError
from sandlot.core.ports.model import Sampling
from sandlot.train.algorithms.algorithms import PolicyGradient
from sandlot.train.algorithms.losses import Clip
from sandlot.train.recipe import Evaluation, Recipe
from sandlot.train.report.summary import Outcome
from sandlot.train.trainer import Optimisation
from sandlot.wiring.parts import open_backend

ROOT = Path(__file__).parent.parent
PLACE = Path("runs") / "demo"


def recipe() -> Recipe:
    """GRPO on `drill`: 16 chores a step, 8 attempts at each, compared with each other."""
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
    """Where no sandbox can be opened: the same chores at a pretend shell, which needs none."""
    return recipe().but(env=ROOT / "recipes" / "pretend.py")


INTRODUCTION = """\
A model of two million parameters (`rookie`) gets small chores at a shell: sort this file, count those lines, swap a word.
It has seen a few hundred solved ones. From here on nobody shows it anything: it tries, in a sandbox of its own each time,
a rubric grades what it left behind, and GRPO moves its weights towards what worked better than its other attempts.
Before and after, it is measured on tasks that it never trains on.
"""

NO_SANDBOX = """\
No sandbox can be opened on this machine ({why}); `sandlot doctor` says what is missing.
So the chores of this demo are done at a pretend shell that knows a dozen commands and runs nothing: same tasks, same rubric.
"""


def main() -> int:
    """Tell, train, tell."""
    why = anyio.run(no_sandbox)
    print(NO_SANDBOX.format(why=why) if why else INTRODUCTION, flush=True)
    if done(PLACE):
        shutil.rmtree(PLACE)  # a finished demo makes room for the next; an interrupted one goes on
    finished = train_watched(without_sandboxes() if why else recipe(), place=PLACE, quiet=False)
    print()
    finished.show(json=False)
    print(closing(finished.outcome))
    return finished.exit_code


async def no_sandbox() -> str:
    """Why no sandbox can be opened here; nothing if one can."""
    try:
        async with open_backend("native"):
            return ""
    except SandlotError as error:
        return str(error)


def done(place: Path) -> bool:
    """True if an earlier demo ran to its end."""
    file = place / "summary.json"
    return file.is_file() and msgspec.json.decode(file.read_bytes(), type=Outcome).verdict == "complete"


def closing(outcome: Outcome) -> str:
    """What it means, and where to go from here."""
    before, after = outcome.heldout_before, outcome.heldout_after
    if outcome.verdict != "complete" or before is None or after is None:
        return "\nNot finished: `make demo` again goes on where it stopped."
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
