"""`make bench NAME=grpo`: the same learning by `sandlot train` and by TRL's GRPOTrainer, on the CPU.

The same model, tasks, groups, sampling, loss and optimiser, the same number of steps and threads. Each is run at two sizes, so
that start-up can be told from steps. What both have learned is measured afterwards on the same held-out tasks, by Sandlot's own
grading of the weights each left. `sums` is answered in one message, by TRL with its own sampling; `chores` has tools in
sandboxes, which Sandlot plays for both; with `--smollm2` there are the sums again with 135 million parameters.
"""

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from peers import PEERS, TRL, ready
from report import Measured, Report, Row, machine, measure, publish, say

from sandlot import Run
from sandlot.core.types import Split
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of
from sandlot.model.engine.weights import model_folder
from sandlot.model.nn.folder import COMPANIONS

NAME = "grpo"
ROOT = Path(__file__).parent.parent
SANDLOT = Path(sys.executable).with_name("sandlot")
THREADS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One learning, as both sides are told it."""

    name: str
    env: str
    model: str
    few: int
    """Steps of the short run; what it costs is taken off the long one."""
    steps: int
    tasks: int = 16
    group: int = 8
    max_tokens: int = 16
    learning_rate: float = 5e-4
    batch_tokens: int = 4096
    batch_rows: int = 128
    """Rollouts TRL learns from at once; it pads them all to the longest of the step, and memory is what that takes."""
    tag: str = ""
    """Only tasks that have it."""
    alone: bool = True
    """TRL samples and scores by itself; else Sandlot plays the rollouts for it."""
    heldout: int = 0
    """Rollouts of each held-out task to measure with; none for a job that only asks what a step costs."""


JOBS = (
    Job(name="sums", env="environments/arithmetic", model="rookie", few=2, steps=24, heldout=4),
    Job(
        name="chores",
        env="environments/drill",
        model="rookie",
        few=1,
        steps=3,
        max_tokens=64,
        batch_rows=16,
        tag="single",
        alone=False,
    ),
    Job(
        name="smollm2",
        env="environments/arithmetic",
        model="smollm2",
        few=1,
        steps=3,
        tasks=4,
        group=4,
        batch_rows=16,
        learning_rate=1e-5,
    ),
)


@dataclass(frozen=True, slots=True)
class Side:
    """What one side's two runs cost, and the weights it left."""

    few: Measured
    whole: Measured
    weights: Path
    job: Job

    def figures(self) -> dict[str, float]:
        further = self.job.steps - self.job.few
        step_s = (self.whole.cpu_s - self.few.cpu_s) / further
        return {
            "steps_per_cpu_minute": round(60 / step_s, 2),
            "steps_per_cpu_minute_whole": round(60 * self.job.steps / self.whole.cpu_s, 2),
            "rollouts_per_cpu_s": round(self.job.tasks * self.job.group / step_s, 1),
            "wall_s_a_step": round((self.whole.wall_s - self.few.wall_s) / further, 2),
            **self.whole.costs(),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a few steps, and the table is left alone: does it work?")
    parser.add_argument("--only", choices=[job.name for job in JOBS], help="one of them; the table is left alone")
    parser.add_argument("--smollm2", action="store_true", help="the large model too: minutes more")
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    where = machine()
    ready(TRL)
    wanted = [flags.only] if flags.only else ["sums", "chores", *(["smollm2"] if flags.smollm2 else [])]
    jobs = [smaller(job) if flags.small else job for job in JOBS if job.name in wanted]
    ours: dict[str, Any] = {"threads": THREADS}
    theirs: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for job in jobs:
            ours[job.name], theirs[job.name] = compared(job, Path(folder), flags.seed)
    ratios = {
        f"{name}_steps_per_cpu_minute": round(ours[name]["steps_per_cpu_minute"] / figures["steps_per_cpu_minute"], 2)
        for name, figures in theirs.items()
    }
    report = Report(NAME, ours, {"trl": theirs}, ratios, rows_of(jobs, ours, theirs), where)
    publish(report, write_table=not (flags.small or flags.only))


def smaller(job: Job) -> Job:
    return Job(**asdict(job) | {"few": 1, "steps": 2, "tasks": 4, "group": 4, "batch_rows": 16, "heldout": min(job.heldout, 1)})


def compared(job: Job, folder: Path, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both sides of one job, one after the other: they share the machine's cores, not its moment."""
    sides = {"sandlot": by_sandlot(job, folder, seed), "trl": by_trl(job, folder, seed)}
    figures: dict[str, dict[str, Any]] = {name: side.figures() for name, side in sides.items()}
    if job.heldout:
        before = measured(job, Path(model_folder(job.model)), folder / job.name / "before" / "heldout")
        for name, side in sides.items():
            after = measured(job, side.weights, folder / job.name / f"after-{name}" / "heldout")
            figures[name] |= {"heldout_before": before, "heldout_after": after}
    for name, found in figures.items():
        say(f"{job.name}, {name}: {found}")
    return figures["sandlot"], figures["trl"]


def told(job: Job, **more: Any) -> dict[str, str]:
    """The job as the variable both sides read."""
    return {"GRPO": json.dumps({**asdict(job), "env": str(ROOT / job.env), "threads": THREADS, **more})} | SETTINGS


SETTINGS = {
    "OMP_NUM_THREADS": str(THREADS),
    "OMP_WAIT_POLICY": "PASSIVE",  # threads that wait for each other on a busy machine are not at work
    "HF_HUB_OFFLINE": "1",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def by_sandlot(job: Job, folder: Path, seed: int) -> Side:
    runs: list[Measured] = []
    for steps in (job.few, job.steps):
        place = folder / job.name / f"sandlot-{steps}"
        argv = (SANDLOT, "train", Path(__file__).with_name("grpo_recipe.py"), "--run", place, "--json")
        runs.append(measure(argv, env=told(job, steps=steps, seed=seed)))
        say(f"{job.name}, sandlot, {steps} steps: {runs[-1].costs()}")
    return Side(*runs, folder / job.name / f"sandlot-{job.steps}" / "checkpoints" / f"{job.steps:06d}" / "model", job)


def by_trl(job: Job, folder: Path, seed: int) -> Side:
    model = model_folder(job.model)
    runs: list[Measured] = []
    for steps in (job.few, job.steps):
        place = folder / job.name / f"trl-{steps}"
        more = {"questions": questions(job) if job.alone else [], "folder": str(model), "out": str(place), "run": f"{place}-run"}
        runs.append(measure((TRL.bin("python"), PEERS / "trl_grpo.py"), env=told(job, steps=steps, seed=seed, **more)))
        say(f"{job.name}, trl, {steps} steps: {runs[-1].costs()} {runs[-1].stdout.splitlines()[-1]}")
    weights = folder / job.name / f"trl-{job.steps}" / "model"
    for name in COMPANIONS:  # the tokenizer both sides began with
        if (model / name).is_file():
            shutil.copyfile(model / name, weights / name)
    return Side(*runs, weights, job)


def questions(job: Job) -> list[dict[str, str]]:
    """The train tasks in plain words: what is asked, and the answer that the environment's golden solution gives."""
    env = load(ROOT / job.env)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "golden"
        measure((SANDLOT, "run", ROOT / job.env, "--model", "scripted:golden", "--split", "train", "--run", place))
        traces = {trace.task: trace for trace in Run(place)}
    return [
        {"prompt": traces[task.id].nodes[0].message.text, "answer": traces[task.id].answer} for task in tasks_of(env, Split.TRAIN)
    ]


def measured(job: Job, weights: Path, place: Path) -> dict[str, float]:
    """The score on held-out tasks, with its interval; runs of one name draw the same random numbers."""
    argv = (SANDLOT, "run", ROOT / job.env, "--split", "heldout", "--group", str(job.heldout), "--model", f"hf:{weights}")
    measure((*argv, "--max-tokens", str(job.max_tokens), "--run", place), env=SETTINGS)
    score = Run(place).summary().score
    return {"mean": round(score.value or 0.0, 3), "low": round(score.low, 3), "high": round(score.high, 3)}


def rows_of(jobs: list[Job], ours: dict[str, Any], theirs: dict[str, Any]) -> list[Row]:
    rows: list[Row] = []
    for job in jobs:
        mine, other = ours[job.name], theirs[job.name]
        whose = "" if job.alone else ", Sandlot's rollouts"
        what = f"{job.name}: {job.tasks} x {job.group} rollouts a step{whose}"
        for words, key in (
            ("steps per CPU-minute, each further one", "steps_per_cpu_minute"),
            (f"the same, whole command of {job.steps} steps", "steps_per_cpu_minute_whole"),
            ("wall seconds a step", "wall_s_a_step"),
            ("memory of the process at most, MB", "peak_mb"),
        ):
            rows.append(
                Row(f"{what}, {words}" if not rows or key == "steps_per_cpu_minute" else words, mine[key], {"trl": other[key]})
            )
        if job.heldout:
            rows.append(Row("held-out score before", shown(mine["heldout_before"]), {"trl": shown(other["heldout_before"])}))
            rows.append(
                Row(
                    f"held-out score after {job.steps} steps",
                    shown(mine["heldout_after"]),
                    {"trl": shown(other["heldout_after"])},
                )
            )
    return rows


def shown(level: dict[str, float]) -> str:
    return f"{level['mean']:.3f} ({level['low']:.3f} to {level['high']:.3f})"


if __name__ == "__main__":
    main()
