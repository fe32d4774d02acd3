"""From calibration to training: only what the curriculum names is learned from, and another environment's is refused."""

import os
import signal
from pathlib import Path

import msgspec
import pytest

from builders.tiny_models import write_tiny
from drive.command_line import ENVIRONMENTS, refused
from sandlot.core.ports.model import Sampling
from sandlot.core.types import Split
from sandlot.env.fingerprint import environment_fingerprint
from sandlot.env.load import load
from sandlot.env.module import load_module
from sandlot.env.taskset import tasks_of
from sandlot.run.curriculum import FORMAT, Curriculum, CurriculumTask
from sandlot.run.results import Run
from sandlot.store.reader import RunReader
from sandlot.train.train import train

pytestmark = pytest.mark.timeout(300)

WORLD = Path(__file__).parent.parent / "worlds" / "letters.py"
letters = load_module(WORLD)


def written(path: Path, environment, fingerprint: str) -> Path:
    tasks = [task.id for task in tasks_of(environment, Split.TRAIN)][:3]
    made = Curriculum(
        format=FORMAT,
        environment=environment.name,
        fingerprint=fingerprint,
        setting="",
        model="tiny",
        sampling=Sampling(),
        band=(0.2, 0.5),
        created=0.0,
        tasks=tuple(CurriculumTask(task=task, rate=0.3, sure=True) for task in tasks),
    )
    path.write_bytes(msgspec.json.encode(made))
    return path


def test_only_what_the_curriculum_names_is_learned_from(tmp_path):
    folder = write_tiny(tmp_path / "tiny")
    environment = load(letters.recipe(folder).env)
    file = written(tmp_path / "curriculum.json", environment, environment_fingerprint(environment))
    train(letters.recipe(folder).but(curriculum=file, steps=1), run=tmp_path / "run")
    named = {task["task"] for task in msgspec.json.decode(file.read_bytes())["tasks"]}
    assert {row.task for row in Run(tmp_path / "run").rows} <= named


def test_a_curriculum_of_another_environment_is_refused(sandlot_with_torch, tmp_path):
    folder = write_tiny(tmp_path / "tiny")
    file = written(tmp_path / "curriculum.json", load(letters.recipe(folder).env), "another")
    said = refused(sandlot_with_torch("train", WORLD, "--curriculum", file, "--run", "run", cwd=tmp_path, TINY=str(folder)))
    assert "Calibrate again" in said


def test_calibrate_speaks_to_people_and_machines(sandlot, tmp_path):
    words = ("calibrate", ENVIRONMENTS / "arithmetic", "--model", "scripted:mixed:0.35", "--cap", "8", "--task", "arithmetic-1")
    words = (*words, "--task", "arithmetic-2", "--curriculum", "here.json")
    dry = sandlot(*words, "--dry-run", "--json", cwd=tmp_path)
    assert dry.json["rollouts"]["fewest"] == 8
    assert not (tmp_path / "runs").exists()
    machine = sandlot(*words, "--json", cwd=tmp_path)
    assert machine.code in {0, 1}
    assert sum(machine.json["labels"].values()) == 2
    assert (tmp_path / "here.json").is_file()
    person = sandlot(*words, cwd=tmp_path)
    assert person.code == machine.code
    assert "pass rate" in person.out
    assert "continuing after" in person.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--band", "0.5"), "two numbers"),
        (("--band", "0.5:0.2"), "rising"),
        (("--grader-errors", "0.5:0.6"), "carries no information"),
        (("--confidence", "1"), "confidence is 1"),
        (("--budget", "3"), "budget is 3"),
    ],
)
def test_a_calibration_that_cannot_be_is_one_sentence(sandlot, tmp_path, words, complaint):
    said = sandlot("calibrate", ENVIRONMENTS / "arithmetic", "--model", "scripted:golden", *words, cwd=tmp_path)
    assert complaint in refused(said)


@pytest.mark.system
def test_killed_with_no_warning_it_goes_on_and_doubles_nothing(sandlot, tmp_path):
    nursery, here = sandlot.__self__, tmp_path / "here"
    words = (
        "calibrate",
        ENVIRONMENTS / "arithmetic",
        "--model",
        "scripted:mixed:0.35",
        "--budget",
        "1600",
        "--run",
        here,
        "--json",
    )
    pid = nursery.start(*words, cwd=tmp_path)
    while not (here / "manifest.json").is_file() or len(RunReader(here)) < 100:
        os.sched_yield()
    os.kill(pid, signal.SIGKILL)
    assert nursery.wait().code == -signal.SIGKILL
    kept = RunReader(here).done_keys()
    assert 100 <= len(kept) < 1600
    done = sandlot(*words, cwd=tmp_path)
    assert done.code == 0, done
    rows = list(RunReader(here).rows())
    assert len(rows) == len({(row.task, row.rollout) for row in rows}) == done.json["spent"]["rollouts"] == 1600
    assert kept <= {(row.task, row.rollout) for row in rows}
