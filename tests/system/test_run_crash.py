"""Promise 7 through the whole road: `sandlot run` killed at random moments, repeated until it is complete, and compared.

A reader looks at the run before each kill; whatever it saw must still be there, as it was, when the run is complete.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from drive.command_line import NOTES, Nursery, Outcome
from sandlot import Run
from sandlot.core.trace import Trace

pytestmark = [pytest.mark.system, pytest.mark.core]

LEAST = 100
GROUP = 60
"""Rollouts of each of the eight tasks."""
MOST_BYTES = 60_000
"""What a command may write before it is killed, at most: some fifty rollouts."""


@pytest.fixture
def nursery():
    with Nursery() as nursery:
        yield nursery


def seen_in(place: Path) -> dict[tuple[str, int], Trace]:
    """What a reader sees at this moment, which is what has been acknowledged."""
    if not (place / "manifest.json").exists():
        return {}
    traces = list(Run(place))
    seen = {trace.key: trace for trace in traces}
    assert len(seen) == len(traces), "doubled"
    return seen


def blobs_are_readable(run: Run) -> None:
    reader = run.reader
    for trace in run:
        assert trace.evidence is not None
        for file in trace.evidence.files.values():
            assert len(reader.blobs.read(file.blob)) == file.size


def grown(place: Path) -> int:
    """A number that changes whenever something is written."""
    return sum(path.stat().st_size for path in place.glob("log/*"))


def killed_somewhere(nursery, place: Path, words: tuple, random: Random) -> Outcome:
    """Start the command and kill it: half of the times while it starts, half while it writes, however fast it does."""
    enough = grown(place) + random.randrange(1, MOST_BYTES)
    pid = nursery.start(*words, cwd=place.parent)
    with suppress(ProcessLookupError):  # it may be done before it is killed
        if random.random() < 0.5:
            while grown(place) < enough:
                os.kill(pid, 0)
                time.sleep(0.002)  # the moment is what is being tested
        else:
            time.sleep(random.uniform(0.0, 0.3))
        os.kill(pid, signal.SIGKILL)
    return nursery.wait()


@pytest.mark.timeout(600)
def test_a_run_killed_again_and_again_is_completed_by_repeating_the_command(nursery, tmp_path):
    random = Random(7)
    kills = runs = 0
    while kills < LEAST:
        place = tmp_path / f"run{runs}"
        words = ("run", NOTES, "--model", "scripted:mixed:0.6", "--group", GROUP, "--at-once", 4, "--run", place, "--json")
        before: dict[tuple[str, int], Trace] = {}
        code = -signal.SIGKILL
        while code != 0:
            is_last = kills >= LEAST
            ended = nursery.run(*words, cwd=tmp_path) if is_last else killed_somewhere(nursery, place, words, random)
            code = ended.code
            assert code in {0, -signal.SIGKILL}
            seen = seen_in(place)
            assert before.keys() <= seen.keys(), "lost"
            assert all(seen[key] == trace for key, trace in before.items()), "changed"
            before = seen
            kills += code != 0
        require_whole(place)
        regraded = nursery.run("regrade", place, "--json", cwd=tmp_path)
        assert (regraded.code, regraded.json["same"]) == (0, 8 * GROUP), regraded
        runs += 1
    print(f"{kills} kills, {runs} runs of {8 * GROUP} rollouts")  # noqa: T201 - shown with `-s`


def require_whole(place: Path) -> None:
    """Every rollout exactly once, and every blob as it was."""
    run = Run(place)
    assert run.verdict == "complete"
    assert sorted(trace.key for trace in run) == sorted((f"note-{n}", rollout) for n in range(8) for rollout in range(GROUP))
    blobs_are_readable(run)


# -- asked to stop -----------------------------------------------------------------------------------------------------

SLOW = """
import anyio
from pathlib import Path
from sandlot import Environment, Task

HERE = Path(__file__).parent
env = Environment("slow")

@env.tasks
def tasks(rng):
    yield from (Task(f"t-{n}", prompt="go") for n in range(12))

@env.tool
async def wait(world) -> str:
    '''Wait.'''
    (HERE / f"opened-{world.task.id}").touch()
    try:
        await anyio.sleep(0.05 if int(world.task.id[2:]) < 4 else 60)
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):  # long enough for a second press to come meanwhile, however busy the machine
            await anyio.sleep(1)
        raise
    finally:
        (HERE / f"closed-{world.task.id}").touch()
    return "ok"

@env.check()
def ok(evidence):
    return True

@env.solution
async def solve(agent, task):
    await agent.call("wait")
    await agent.say("done")
"""


def wait_for(condition) -> None:
    """Poll another process: there is no event to wait for."""
    limit = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < limit, "it did not come about"
        time.sleep(0.02)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("signals", [(signal.SIGINT,), (signal.SIGINT, signal.SIGINT), (signal.SIGTERM,)])
def test_a_run_that_is_asked_to_stop_closes_its_worlds_and_says_how_to_continue(nursery, tmp_path, signals):
    (tmp_path / "slow.py").write_text(SLOW)
    words = ("run", "slow.py", "--model", "scripted:golden", "--at-once", 6, "--run", "here")
    pid = nursery.start(*words, cwd=tmp_path)
    wait_for(lambda: len(seen_in(tmp_path / "here")) == 4 and len(list(tmp_path.glob("opened-*"))) >= 10)
    for number in signals:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        time.sleep(0.05)  # two presses, as a person presses them
    ended = nursery.wait()
    assert ended.code == 3, ended
    assert f"interrupted by {signals[0].name}; repeat the command to continue" in ended.out
    assert "Traceback" not in ended.err
    opened = {path.name.removeprefix("opened-") for path in tmp_path.glob("opened-*")}
    assert {path.name.removeprefix("closed-") for path in tmp_path.glob("closed-*")} == opened
    assert len(seen_in(tmp_path / "here")) == 4
    run = Run(tmp_path / "here")
    assert run.sittings[-1].num_cancelled == 6
    assert run.verdict == "incomplete"
