"""What a run needs dies at random moments: no rollout is lost, none is stored twice, and none gets a score from it.

Runs go on while someone kills their workers, their sandboxes, the servers of their model, and at times the run itself, which is
then repeated. In the end the books must balance (`tests/drive/chaos.py`). `CHAOS_S` says how long each kind of chaos goes on: one
run after another until the time is up (`make test-chaos`: ten minutes each).
"""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from builders.tiny_models import write_tiny
from drive.chaos import (
    CHAOS_S,
    Command,
    JoinedWorkers,
    Mortal,
    OwnWorkers,
    Replicas,
    Sandboxes,
    books_balance,
    harass,
    nothing_is_left,
)
from drive.command_line import NOTES, environ
from drive.ports import free_port
from sandlot import Run
from sandlot.core.trace import Scored
from sandlot.core.types import Role, Side
from sandlot.env.module import load_module
from sandlot.train.choices import FILE as CHOICES
from sandlot.train.report.progress import TrainingProgress
from worlds.executors import CHORES

pytestmark = [pytest.mark.system, pytest.mark.chaos, pytest.mark.timeout(3 * CHAOS_S + 900)]
WORLDS = Path(__file__).parent.parent / "worlds"
TALK = WORLDS / "talk.py"
LONG_CHORES = [word for number in range(4) for word in ("--task", f"long-{number}")]
MODEL = "scripted:mixed:0.7"
ONLY_DEATHS = "workers ended one after the other"
"""What a run says if all its workers are killed before it has begun; who started it tries again."""
START_S = 15
"""A further run is worth its start only if more time is left."""
Start = Callable[..., Command]
"""Starts the run, with more words."""


def kill_workers(start: Start, folder: Path) -> tuple[Command, list[Mortal]]:
    command = start("--model", MODEL, "--on", "processes:3", refused=ONLY_DEATHS)
    return command, [OwnWorkers(command)]


def kill_sandboxes(start: Start, folder: Path) -> tuple[Command, list[Mortal]]:
    command = start("--model", MODEL, "--on", "processes:2", refused=ONLY_DEATHS)
    workers = OwnWorkers(command)
    return command, [workers, Sandboxes(workers), Sandboxes(workers)]


def kill_joined(start: Start, folder: Path) -> tuple[Command, list[Mortal]]:
    port = free_port()
    command = start("--model", MODEL, "--on", f"workers:{port}")
    return command, [JoinedWorkers(command, port, 3)]


def kill_replicas(start: Start, folder: Path) -> tuple[Command, list[Mortal]]:
    replicas = Replicas(folder, 2)
    replicas.wait()
    # The command says so at its start; who started it tries again.
    return start("--model", replicas.model, refused="none of the servers of"), [replicas]


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A run, and who dies."""

    env: Path
    words: Sequence[object]
    begin: Callable[[Start, Path], tuple[Command, list[Mortal]]]
    sides: Mapping[Side, frozenset[str]] = field(default_factory=dict)
    pace: tuple[float, float] = (0.3, 1.5)
    """Seconds between two harms. A server that is killed as soon as it listens again answers nobody."""

    @property
    def command(self) -> list[object]:
        return ["run", self.env, *self.words, "--seed", 1, "--at-once", 16, "--json"]


SCENES = {
    "workers": Scene(env=NOTES, words=("--group", 400), begin=kill_workers),
    "sandboxes": Scene(
        env=CHORES,
        words=(*LONG_CHORES, "--group", 60, "--image", "host"),
        begin=kill_sandboxes,
        sides={Side.SANDBOX: frozenset({"crash", "died", "start"})},
    ),
    "joined": Scene(env=CHORES, words=(*LONG_CHORES, "--group", 80), begin=kill_joined),
    "replicas": Scene(env=TALK, words=("--group", 12, "--max-tokens", 12), begin=kill_replicas, pace=(3.0, 12.0)),
}


@pytest.mark.parametrize("name", SCENES)
def test_the_books_balance_whatever_dies(name, tmp_path):
    scene, random, left = SCENES[name], Random(4), CHAOS_S
    done: Counter[str] = Counter()
    quiet = {} if scene.env == TALK else scores_of_a_quiet_run(scene, tmp_path)
    number = 0
    while number == 0 or left > START_S:
        number += 1
        folder = tmp_path / f"round-{number}"
        folder.mkdir()
        place = folder / "run"
        command, others = scene.begin(lambda *more, place=place, **how: Command([*scene.command, *more], place, **how), folder)
        harm = harass(command, others, random, left, scene.pace)
        assert command.process.returncode in {0, 1}, command.said.read_text()[-2000:]  # 1 if a rollout failed
        stored = Run(place)
        line = books_balance(stored, num_restarts=command.num_killed + command.num_repeated, sides=scene.sides)
        sys.stdout.write(f"{name} {number}: {line}; {dict(harm.done)}\n")
        if quiet:
            assert all(row.score in {None, quiet[row.task, row.rollout]} for row in stored.rows)
        else:
            scores_are_what_was_heard(stored)
        nothing_is_left(command)
        done += harm.done
        left -= max(1.0, harm.seconds)
    assert done, "it was over before anything was done"


def scores_of_a_quiet_run(scene: Scene, tmp_path: Path) -> dict[tuple[str, int], float | None]:
    """The same seed draws the same, so a kill can only cost a score, never change one."""
    words = (*scene.command, "--model", MODEL, "--run", tmp_path / "quiet")
    command = [sys.executable, "-m", "sandlot", *map(str, words)]
    subprocess.run(command, cwd=tmp_path, env=environ(), check=True, capture_output=True, timeout=500)
    return {(row.task, row.rollout): row.score for row in Run(tmp_path / "quiet").rows}


def scores_are_what_was_heard(stored: Run) -> None:
    """What the model says is drawn anew when another server takes the turn; the check counts what the user said."""
    most = load_module(TALK).TURNS - 1
    for trace in stored:
        replies = sum(node.message.role is Role.USER for node in trace.nodes) - 1
        assert trace.reward in {None, float(replies >= most)}


STALENESS, STEPS, TASKS, GROUP = 2, 16, 2, 4
RECIPE = f"""
from pathlib import Path
from sandlot.env.module import load_module
from sandlot.train import Clip, PolicyGradient

def recipe():
    algorithm = PolicyGradient(baseline="dr_grpo", loss=Clip(0.2, 0.28, against="behaviour"))
    letters = load_module(Path({str(WORLDS / "letters.py")!r}))
    return letters.recipe(steps={STEPS}, tasks={TASKS}, group={GROUP}, staleness={STALENESS}, algorithm=algorithm)
"""


def test_a_training_that_is_killed_again_and_again_is_whole_and_never_too_stale(tmp_path):
    model = write_tiny(tmp_path / "tiny")
    random, left, number, num_killed = Random(4), CHAOS_S, 0, 0
    while number == 0 or left > START_S:
        number += 1
        began = time.monotonic()
        folder = tmp_path / f"round-{number}"
        folder.mkdir()
        (folder / "recipe.py").write_text(RECIPE)
        place = folder / "run"
        command = Command(("train", folder / "recipe.py", "--seed", number, "--json"), place, most=2, TINY=str(model))
        harm = harass(command, [], random, max(left, 60))  # it starts slowly, and dies twice at most
        assert command.process.returncode == 0
        staleness = staleness_of(place)
        assert min(staleness) >= 0, "learned from weights that were not there yet"
        assert max(staleness) <= STALENESS
        progress = TrainingProgress.read(place)
        assert [step.version for step in progress.steps] == [*range(1, STEPS + 1)]
        assert max(step.staleness for step in progress.steps) <= STALENESS
        assert sum(step.failed for step in progress.steps) == 0
        nothing_is_left(command)
        sys.stdout.write(f"training {number}: staleness of rollouts {dict(sorted(staleness.items()))}; {dict(harm.done)}\n")
        num_killed += command.num_killed
        left -= time.monotonic() - began  # not only the time of harm: a training starts slowly and dies twice
    assert num_killed, "it was over before anything was done"


def staleness_of(place: Path) -> Counter[int]:
    """How many rollouts were so many versions behind the weights that learned from them, by what is stored alone."""
    stored, seen, found = Run(place), Counter[str](), Counter[int]()
    lines = [json.loads(line) for line in (place / CHOICES).read_text().splitlines()]
    assert [line["group"] for line in lines] == [*range(STEPS * TASKS)]
    for line in lines:
        for member in range(GROUP):
            trace = stored.trace(line["task"], seen[line["task"]] * GROUP + member)
            assert isinstance(trace.outcome, Scored)
            versions = [version for node in trace.turns() for _, version in node.tokens.versions]
            found[line["group"] // TASKS - min(versions)] += 1
            assert max(versions) <= line["group"] // TASKS
        seen[line["task"]] += 1
    assert found.total() == len(stored) == len({trace.key for trace in stored}), "lost, doubled, or never learned from"
    return found
