"""`torchrun ... sandlot train`: two processes learn what one does, and any of them may be killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from builders.tiny_models import write_tiny
from drive.command_line import environ
from sandlot.env.module import load_module
from sandlot.train.report.progress import TrainingProgress, read_lines
from sandlot.train.train import train

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

ROOT = Path(__file__).parent.parent.parent
WORLD = ROOT / "tests" / "worlds" / "letters.py"
letters = load_module(WORLD)
STEPS = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def alone(folder, tmp_path_factory) -> Path:
    """The run of one process."""
    place = tmp_path_factory.mktemp("alone") / "run"
    train(letters.recipe(folder, steps=STEPS), run=place)
    return place


def torchrun(recipe: Path, place: Path, *words: object, **more: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "-m", "--"]
    return subprocess.Popen(
        [*map(str, command), *map(str, ("sandlot", "train", recipe, "--run", place, "--json", *words))],
        cwd=place.parent,
        env=environ(OMP_NUM_THREADS="1", **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen) -> str:
    """What it said when all was well."""
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out


def figures(place: Path) -> list[tuple]:
    steps = TrainingProgress.read(place).steps
    return [value for step in steps for value in (step.version, step.loss, step.norm, step.reward, step.tokens, step.entropy)]


def rank_of(process: subprocess.Popen, rank: int) -> int:
    """The process id of one rank."""
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
                return int(child)
    raise AssertionError(f"no rank {rank}")


def reached(process: subprocess.Popen, place: Path, version: int) -> None:
    while process.poll() is None and all(line.version < version for line in read_lines(place)):
        time.sleep(0.002)  # the processes have the cores


def killed(process: subprocess.Popen, place: Path, rank: int, version: int) -> str:
    """Kill one rank after a step; what the others said."""
    reached(process, place, version)
    os.kill(rank_of(process, rank), signal.SIGKILL)
    _, said = process.communicate()
    assert process.returncode == 1, said
    return said


def test_two_processes_and_one_go_on_where_the_others_stopped_or_were_killed_and_learn_what_one_does(folder, alone, tmp_path):
    place = tmp_path / "run"
    for rank, version in ((1, 1), (0, 4)):
        said = killed(torchrun(WORLD, place, "--steps", STEPS, TINY=str(folder)), place, rank, version)
        assert f"sandlot: process {rank} of this training has ended before the others" in said
        assert "Traceback" not in said.partition("torch/distributed/elastic")[0]
        if rank:
            train(letters.recipe(folder, steps=3), run=place)
    assert max(line.version for line in read_lines(place)) < STEPS, "it was over before it could be killed"
    assert '"complete"' in finished(torchrun(WORLD, place, "--steps", STEPS, TINY=str(folder)))
    # The steps that only one sitting measured differ in what is measured, not in what is learned.
    assert figures(place) == pytest.approx(figures(alone), abs=1e-5)


def test_an_interrupted_run_of_two_is_kept_and_says_how_to_continue(folder, tmp_path):
    place = tmp_path / "run"
    process = torchrun(WORLD, place, "--steps", 500, TINY=str(folder))
    reached(process, place, 1)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert process.returncode != 0
    assert "interrupted by SIGTERM; repeat the command to continue" in out, err
    assert "has ended before the others" not in err


def test_rookie_learns_shell_chores_in_two_processes(tmp_path):
    recipe = tmp_path / "chores.py"
    recipe.write_text(
        f"""
import sys
sys.path.insert(0, {str(ROOT / "recipes")!r})
from demo import recipe as demo
from sandlot.train.recipe import Evaluation
from sandlot.train.trainer import Optimisation

def recipe():
    return demo().but(steps=2, tasks=2, group=4, evaluation=Evaluation(every=2, tasks=2, group=1),
                      optimisation=Optimisation(learning_rate=1e-3, tokens=512), threads=1)
"""
    )
    assert '"complete"' in finished(torchrun(recipe, tmp_path / "run"))
    steps = TrainingProgress.read(tmp_path / "run").steps
    assert [step.version for step in steps] == [1, 2]
    assert all(step.kl < 1e-6 for step in steps), "what is sampled with is what learns"
