"""Seats that share a sandbox: a user, a home and processes of their own, and no seat can void the game."""

import os

import anyio
import pytest

from drive.native_sandboxes import backend_of
from sandlot import Agent, Environment, Limits, Scored, Task
from sandlot.core.errors import ConfigError
from sandlot.core.trace import RECORDING
from sandlot.harness.tool_loop import ToolLoop
from sandlot.model.policy.scripted import scripted_policies
from sandlot.rollout import run_rollout
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.parts import Grading, RolloutParts, _require_apart

KIND = "root" if os.geteuid() == 0 else "ordinary user"  # tests/system/test_ordinary_user.py runs this file as one


def workshop(solve, **options) -> Environment:
    """Ada writes 42 into her home in her first turn, and reads it in her second. Bob does what he likes between."""
    env = Environment("workshop", image="host", seats=["ada", "bob"], limits=Limits(turns=4, tool_s=20.0), **options)
    env.tasks(lambda rng: [Task("one", prompt="Work.")])

    @env.check(points=1, seat="ada")
    def answered(evidence):
        return evidence.read_text("/home/ada/answer").strip() == "42"

    @env.check(points=1, seat="bob")
    def there(evidence):
        return True

    env.solution(solve)
    return env


async def played(env):
    async with backend_of(KIND) as backend:
        policies = scripted_policies("golden", env.marked.solution)
        parts = RolloutParts(grading=Grading(env=env, backend=backend), policies=policies, harness=ToolLoop())
        with anyio.fail_after(100):
            return await run_rollout(parts, Task("one", prompt="Work."), run="r", rollout=0, blobs=MemoryBlobs())


def results_of(trace, seat):
    nodes = [trace.nodes[at] for at in trace.seats[seat].nodes]
    return [result.text for node in nodes for result in node.message.results]


def scores_of(trace):
    return {seat: own.score.value for seat, own in trace.seats.items()}


def acts(bob: str):
    async def solve(agent: Agent, task: Task) -> None:
        if agent.seat == "ada":
            await agent.call("bash", command="echo 42 > answer; (sleep 60; echo ADASECRET) >/dev/null 2>&1 & echo done")
            await agent.call("bash", command="cat answer; echo $HOME; id -un; echo still here")
        else:
            await agent.call("bash", command=bob)
        await agent.say("done")

    return solve


SPIES = """(
cat /home/ada/answer; ls /home/ada; echo 7 > /home/ada/answer; rm -rf /home/ada/*
grep -al 'AD[A]SECRET' /proc/[0-9]*/cmdline
for n in $(seq 1 80); do [ -d /proc/$n ] || { kill -9 $n 2>/dev/null && echo killed $n; }; done; kill -9 1
) 2>&1"""


async def test_a_seat_neither_reads_nor_ends_what_another_does():
    trace = await played(workshop(acts(SPIES)))
    assert isinstance(trace.outcome, Scored), trace.outcome
    bob, ada = results_of(trace, "bob")[0], results_of(trace, "ada")[1]
    assert "42" not in bob.split("\n")
    assert bob.count("Permission denied") == 4
    assert "cmdline" not in bob
    assert "killed" not in bob
    assert ada == "42\n/home/ada\nada\nstill here\n"
    assert scores_of(trace) == {"ada": 1.0, "bob": 1.0}


@pytest.mark.parametrize(
    "deed",
    [
        "rm -rf ~ 2>/dev/null; rmdir ~; kill -9 -1",
        "for n in $(seq 1 700); do sleep 60 & done 2>/dev/null >/dev/null; echo full",
        "chmod 000 ~; mv ~ /home/ada 2>/dev/null; ln -s /home/ada/answer ~/x",
    ],
    ids=["breaks its own", "fills its processes", "locks itself out"],
)
async def test_a_seat_that_breaks_its_own_things_does_not_void_the_game(deed):
    trace = await played(workshop(acts(deed)))
    assert isinstance(trace.outcome, Scored), trace.outcome
    assert results_of(trace, "ada")[1] == "42\n/home/ada\nada\nstill here\n"
    assert scores_of(trace)["ada"] == 1.0


async def test_a_declared_folder_is_shared_and_homes_are_not():
    bob = "cat /work/note; echo more >> /work/note; mkdir -p /work/sub; cat /home/ada/answer 2>&1"

    async def solve(agent: Agent, task: Task) -> None:
        if agent.seat == "ada":
            await agent.call("bash", command="echo 42 > answer; echo hello > /work/note")
            await agent.call("bash", command="cat /work/note; echo x > /work/sub/own && rm -r /work/sub && echo ours")
        else:
            await agent.call("bash", command=bob)
        await agent.say("done")

    trace = await played(workshop(solve, shared="/work"))
    assert results_of(trace, "bob")[0].startswith("hello\ncat: /home/ada/answer: Permission denied")
    assert results_of(trace, "ada")[1] == "hello\nmore\nours\n"


async def test_a_terminal_is_its_seats_own():
    async def solve(agent: Agent, task: Task) -> None:
        await agent.call("bash", command="echo 42 > answer")
        await agent.call("terminal", text=f"echo SEAT-$((40+2))-{agent.seat}; id -un; pwd\n")
        await agent.say("done")

    trace = await played(workshop(solve, tools=["bash", "terminal"]))
    for seat, other in (("ada", "bob"), ("bob", "ada")):
        screen = results_of(trace, seat)[1]
        assert f"SEAT-42-{seat}" in screen
        assert f"SEAT-42-{other}" not in screen
        assert f"/home/{seat}" in screen
    assert {event.detail["session"] for event in trace.events if event.kind == RECORDING} == {"ada-main", "bob-main"}


async def test_what_setup_writes_into_a_home_is_that_seats_and_tools_of_the_author_run_as_the_seat():
    async def solve(agent: Agent, task: Task) -> None:
        await agent.call("bash", command="cat plan; echo 42 > answer; echo changed > plan && cat plan")
        await agent.call("who")
        await agent.say("done")

    env = workshop(solve)

    @env.setup
    async def plans(world, task):
        for seat in ("ada", "bob"):
            await world.write(f"/home/{seat}/plan", f"plan of {seat}\n")
        assert (await world.exec("id -u")).stdout == "0\n"

    @env.tool
    async def who(world) -> str:
        """Who runs it."""
        return (await world.exec("id -un")).stdout + (await world.exec("id -un", user="root")).stdout

    trace = await played(env)
    for seat in ("ada", "bob"):
        assert results_of(trace, seat) == [f"plan of {seat}\nchanged\n", f"{seat}\nroot\n"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"shared": "work"}, "absolute path"),
        ({"shared": "/home"}, "absolute path"),
        ({"shared": "/work", "seats": []}, "is for seats"),
        ({"seats": ["root", "bob"]}, "named `root`"),
    ],
)
def test_what_cannot_be_shared_is_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        Environment("workshop", **{"image": "host", "seats": ["ada", "bob"], **options})


async def test_seats_are_refused_before_the_first_rollout_where_they_cannot_be_kept_apart():
    class Shared:
        async def probe(self):
            return {"seats": "no: the processes of one user are seen by the others"}

    with pytest.raises(ConfigError, match=r"cannot keep them apart: the processes of one user"):
        await _require_apart(workshop(acts("true")), Shared())
    await _require_apart(Environment("alone", image="host"), Shared())
