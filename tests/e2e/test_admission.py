"""Whole runs that find out how many rollouts may be in flight: against a real endpoint that refuses, and a judge that does."""

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import pytest

from builders.tiny_models import write_tiny
from drive.command_line import NOTES, environ
from fakes.endpoint import Answer, FakeEndpoint, Request, calls, says
from sandlot import Run
from sandlot.core.ports.model import Sampling
from sandlot.observe.event_log import EventReader
from sandlot.observe.events import AdmissionChanged, ModelRetried, RunEvent
from sandlot.run.config import RunConfig, Selection
from sandlot.run.run import run_config
from sandlot.train.algorithms.algorithms import Imitate
from sandlot.train.recipe import Evaluation, Recipe
from sandlot.train.train import train_async
from sandlot.wiring.config import ModelConfig

MOST = 16
MACHINE = {"throughput", "memory", "loop", "cpu"}
"""Reasons of the machine: what else runs on it must not decide a test."""


def note_writer(request: Request) -> Answer:
    roles = [message["role"] for message in request.body["messages"]]
    if "tool" in roles:
        return says("done")
    prompt = next(message["content"] for message in request.body["messages"] if message["role"] == "user")
    return calls(("write_note", json.dumps({"text": prompt.split("`")[1]})))


def config(endpoint: FakeEndpoint, rollouts: int, **fields) -> RunConfig:
    model = ModelConfig(spec=f"openai:m@{endpoint.url}", patience_s=120.0, connections=256)
    return RunConfig(env=str(NOTES), model=model, select=Selection(rollouts=rollouts), adapt=True, **fields)


def limits_of(events: list[RunEvent]) -> list[int]:
    return [event.limit for event in events if isinstance(event, AdmissionChanged)]


def require_each_once(run: Run, rollouts: int) -> None:
    assert run.verdict == "complete"
    assert len(run) == rollouts
    assert max(Counter((row.task, row.rollout) for row in run.rows).values()) == 1
    assert {row.score for row in run.rows} == {1.0}


@pytest.mark.system
@pytest.mark.timeout(300)
async def test_against_a_model_that_refuses_beyond_a_number_the_limit_settles_near_it(tmp_path):
    events: list[RunEvent] = []
    async with FakeEndpoint(then=note_writer, latency_s=0.1, refuse_above=MOST) as endpoint:
        run = await run_config(config(endpoint, 1200, at_once=256), runs=tmp_path, sink=events.append)
    require_each_once(run, 1200)
    limits = limits_of(events)
    assert max(limits) <= 4 * MOST, "it was not let to the ceiling"
    assert max(limits[len(limits) // 2 :]) <= 2 * MOST, "it came down, and stayed there; how far up depends on the machine"
    reasons = {event.reason for event in events if isinstance(event, AdmissionChanged)}
    assert "model" in reasons
    record = run.sittings[-1].admission
    assert record is not None
    assert (record.lowest, record.highest) == (min(limits), max(limits))
    assert sum(isinstance(event, ModelRetried) for event in events) == endpoint.num_refused
    assert endpoint.num_refused < 600, "half a refusal for each rollout"


@pytest.mark.timeout(300)
async def test_a_model_that_is_never_short_is_never_waited_for(tmp_path):
    events: list[RunEvent] = []
    async with FakeEndpoint(then=note_writer, latency_s=0.4) as endpoint:
        run = await run_config(config(endpoint, 100, at_once=24), runs=tmp_path, sink=events.append)
        assert endpoint.most_at_once <= 24
    require_each_once(run, 100)
    changes = [event for event in events if isinstance(event, AdmissionChanged)]
    reasons = {event.reason for event in changes}
    assert reasons <= {"pace", "limit"} | MACHINE
    assert changes[-1].limit > changes[0].limit or reasons & MACHINE


# -- the judge ---------------------------------------------------------------------------------------------------------


def write_judged(folder: Path, tasks: int) -> Path:
    """An environment whose every rollout needs one call to the judge: answers differ, so none is in the cache."""
    (folder / "rubrics").mkdir(parents=True)
    (folder / "tasks").mkdir()
    (folder / "environment.toml").write_text('name = "judged"\n')
    rows = (json.dumps({"id": f"t{number}", "prompt": "Say it.", "key": {"word": f"word{number}"}}) for number in range(tasks))
    (folder / "tasks" / "train.jsonl").write_text("".join(f"{row}\n" for row in rows))
    (folder / "solution.py").write_text("async def solve(agent, task):\n    await agent.say(task.key['word'])\n")
    polite = {"kind": "judge", "id": "polite", "prompt": "It is polite.", "points": 1}
    (folder / "rubrics" / "default.json").write_text(json.dumps({"format": 1, "checks": [polite]}))
    return folder


def honest(request: Request) -> Answer:
    wrong = "The number 3 is greater than the number 7." in request.body["messages"][-1]["content"]
    return says(json.dumps({"reason": "because", "verdict": "no" if wrong else "yes"}))


@pytest.mark.timeout(300)
async def test_a_judge_that_refuses_holds_back_starts_and_every_rollout_is_graded_once(tmp_path):
    events: list[RunEvent] = []
    async with FakeEndpoint(then=honest, latency_s=0.1, refuse_above=6) as endpoint:
        config = RunConfig(
            env=str(write_judged(tmp_path / "judged", 150)),
            model=ModelConfig(spec="scripted:golden"),
            judge=ModelConfig(spec=f"openai:judge@{endpoint.url}", patience_s=60.0),
            at_once=128,
            adapt=True,
        )
        run = await run_config(config, runs=tmp_path / "runs", sink=events.append)
    require_each_once(run, 150)
    assert endpoint.num_refused > 0
    changes = [event for event in events if isinstance(event, AdmissionChanged)]
    assert "judge" in {event.reason for event in changes}
    assert changes[-1].limit < 128


# -- memory ------------------------------------------------------------------------------------------------------------

HUNGRY = """
from sandlot import Environment, Limits, Task

env = Environment("hungry", image="host", limits=Limits(turns=4))

@env.tasks
def tasks(rng):
    for number in range(24):
        yield Task(f"t{number}", prompt="Fill it.")

@env.solution
async def solve(agent, task):
    await agent.call("bash", command="head -c 100663296 /dev/zero > /tmp/full && sleep 0.5 && mkdir -p /out && echo ok > /out/ok")
    await agent.call("bash", command="sleep 0.5")
    await agent.say("done")

@env.check(points=1)
def filled(evidence, task):
    return evidence.read_text("/out/ok") == "ok\\n"
"""
PROGRAM = """
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import anyio

from sandlot.env.load import load
from sandlot.model.policy.scripted import scripted_policies
from sandlot.observe.host import read_host
from sandlot.run.admission_watch import AdmissionWatch
from sandlot.run.collector import open_collector
from sandlot.run.config import RunConfig
from sandlot.run.prepare import prepare_run
from sandlot.run.slots import Room, Slots
from sandlot.wiring.config import ModelConfig


def read_memory():
    return replace(read_host(), runnable=None)  # what else this machine does must not decide the test


async def main(source, place):
    env = load(source)
    prepared = await prepare_run(env, RunConfig(env=source, model=ModelConfig(spec="scripted:golden"), attempts=1))
    room = Room(16, adapt=True)
    watch = AdmissionWatch(room, room.admission, host=read_memory)
    policies = nullcontext(scripted_policies("golden", env.marked.solution))
    slots = Slots(16, room=room)
    async with open_collector(prepared, Path(place), policies=policies, sink=watch.receive, slots=slots) as collector:
        with watch.joined("r", collector.sink, sandboxed=True, here=True):
            async with anyio.create_task_group() as group:
                group.start_soon(watch.watch)
                await collector.collect(prepared.plan)
                group.cancel_scope.cancel()


anyio.run(main, sys.argv[1], sys.argv[2])
"""
MEMORY = Path("/sys/fs/cgroup/memory")
FILLED_MIB, LIMIT_MIB = 96, 900


@contextmanager
def memory_group(mib: int):
    """A control group of its own, with a limit of memory."""
    folder = MEMORY / f"sandlot-test-admission-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(mib << 20))
    except OSError as error:
        pytest.skip(f"no group with a limit of memory can be made here: {error}")
    try:
        yield folder
    finally:
        for inner in (*folder.glob("*/"), folder):
            with suppress(OSError):  # one that was killed may leave its group to the next
                inner.rmdir()


@pytest.mark.timeout(300)
async def test_sandboxes_that_would_not_all_fit_in_memory_start_as_there_is_room(tmp_path):
    for name, text in {"hungry.py": HUNGRY, "program.py": PROGRAM}.items():
        (tmp_path / name).write_text(text)
    with memory_group(LIMIT_MIB) as group:
        words = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "hungry.py"), str(tmp_path / "run")]
        line = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *words]
        await anyio.run_process(line, cwd=tmp_path, stdin=subprocess.DEVNULL, env=environ())
    run = Run(tmp_path / "run")
    assert len(run) == 24
    assert {row.score for row in run.rows} == {1.0}
    changes = [event for event in EventReader(run.path) if isinstance(event, AdmissionChanged)]
    assert "memory" in {event.reason for event in changes}
    assert max(event.in_flight for event in changes) * FILLED_MIB < LIMIT_MIB


@pytest.mark.timeout(300)
async def test_a_training_lets_in_what_its_teacher_can_take(tmp_path):
    """Rollouts of a training, its evaluations included, are in one room that adapts."""
    events: list[RunEvent] = []
    evaluation = Evaluation(every=2, tasks=2, group=2)
    folder = write_tiny(tmp_path / "tiny")
    async with FakeEndpoint(then=note_writer, latency_s=0.1, refuse_above=MOST) as endpoint:
        recipe = Recipe(
            name="notes",
            env=NOTES,
            model=f"hf:{folder}",
            teacher=f"openai:m@{endpoint.url}",
            algorithm=Imitate(),
            steps=2,
            tasks=6,
            group=20,
            resample=1,
            sampling=Sampling(max_tokens=8),
            evaluation=evaluation,
            at_once=256,
            adapt=True,
            threads=1,
        )
        progress = await train_async(recipe, tmp_path / "run", events.append)
    assert [step.version for step in progress.steps] == [1, 2]
    run = Run(tmp_path / "run")
    assert len(run) == len({trace.key for trace in run}) == 2 * 6 * 20
    limits = limits_of(events)
    assert max(limits) <= 4 * MOST, "it was not let to the ceiling"
    record = run.sittings[-1].admission
    assert record is not None
    assert (record.lowest, record.highest) == (min(limits), max(limits))
