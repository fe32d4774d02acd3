"""An environment for tests of executors: chores that are done, that fail, that never end, and that kill their process."""

import os
import signal
import time
from pathlib import Path
from random import Random

import anyio

from sandlot import Agent, Environment, Evidence, Limits, Task, World

env = Environment("chores", on_crash="fail", limits=Limits(turns=4, time_s=120.0))
KINDS = ("short", "long", "broken", "endless", "deadly", "doomed")
"""`deadly` kills its process the first time only, `doomed` every time."""


@env.tasks
def tasks(rng: Random):
    for kind in KINDS:
        for number in range(4):
            yield Task(f"{kind}-{number}", prompt=f"Do {kind} {number}.", data={"kind": kind}, key={"words": rng.randrange(1000)})


@env.tool
async def work(world: World, kind: str, words: int) -> str:
    """Do a chore."""
    marks = Path(os.environ.get("MARKS", "/nonexistent"))
    await world.write("/out/done.txt", f"{words} " * 50)
    match kind:
        case "long":
            await anyio.sleep(0.3)
        case "broken":
            raise RuntimeError("this chore is broken")
        case "endless":
            (marks / f"began-{os.getpid()}-{time.monotonic_ns()}").touch()
            try:
                await anyio.sleep_forever()
            finally:
                (marks / f"closed-{os.getpid()}-{time.monotonic_ns()}").touch()
        case "deadly" if not (marks / f"died-{words}").exists():
            (marks / f"died-{words}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        case "doomed":
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            pass
    return "done"


@env.check(points=1)
def is_done(evidence: Evidence, task: Task) -> bool:
    return evidence.read_text("/out/done.txt").startswith(f"{task.key['words']} ")


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("work", kind=task.data["kind"], words=task.key["words"])
    await agent.say("done")
