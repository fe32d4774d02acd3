"""`--image`: an environment without a sandbox, run in one."""

from pathlib import Path

import anyio
import pytest

from sandlot import Scored, load, run
from sandlot.run.regrade import regrade_run
from sandlot.run.replay import replay_trace

SOURCE = '''
from sandlot import Environment, Task
env = Environment("notes", concurrent={concurrent})

@env.tasks
def tasks(rng):
    yield Task("one", prompt="go")

@env.tool
async def add(world, text: str) -> str:
    """Read, change, write back."""
    old = b"".join([await world.read(path) for path in await world.list("/notes")])
    await world.write("/notes/all.txt", old + text.encode())
    return f"{{len(old)}}"

@env.check(points=1)
def kept(evidence):
    return evidence.read_text("/notes/all.txt") == "xy"

@env.solution
async def solve(agent, task):
    await agent.call("add", text="x")
    await agent.call("add", text="y")
    await agent.say("done")
'''


@pytest.fixture
def source(tmp_path) -> Path:
    path = tmp_path / "notes.py"
    path.write_text(SOURCE.format(concurrent=True))
    return path


def test_a_run_in_another_image_is_another_run(source, tmp_path):
    plain, boxed = (run(source, "scripted:golden", image=image, runs=tmp_path / "runs") for image in (None, "host"))
    assert boxed.manifest.config.image == "host"
    assert boxed.path != plain.path
    assert boxed.manifest.fingerprints.environment != plain.manifest.fingerprints.environment
    assert [trace.outcome for trace in boxed] == [trace.outcome for trace in plain]


def test_what_was_run_in_an_image_is_graded_and_replayed_in_it(source, tmp_path):
    boxed = run(source, "scripted:golden", image="host", runs=tmp_path / "runs")
    report = anyio.run(regrade_run, boxed.path, None, None, None)
    again = anyio.run(replay_trace, boxed.path, "one", 0)
    assert (report.same, report.same_environment) == (1, True)
    assert isinstance(again.outcome, Scored)
    assert not [event for event in again.events if event.kind == "replay_diverged"]


def test_an_image_named_for_a_run_brings_no_tools(source):
    env = load(source)
    assert [tool.spec.name for tool in env.in_image("host").tools] == ["add"]
    assert env.image is None
