"""Roll a service back to the last version that passed its smoke test."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

env = Environment("rollback", system="Deploy the newest version that passes the smoke test, then report the result of that test.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        versions = sorted(f"{rng.randrange(2, 9)}.{minor}.{rng.randrange(10)}" for minor in range(12, 18))
        good = rng.randrange(1, len(versions) - 1)
        data = {"versions": versions, "good": good}
        prompt = f"The service runs {versions[-1]} and is broken. Roll back to the newest version that passes its smoke test."
        yield Task(f"rollback-{number}", prompt=prompt, data=data, key={"version": versions[good]})


@env.setup
def start(world: World, task: Task) -> None:
    world.state = {"deployed": task.data["versions"][-1]}


@env.tool
async def list_versions(world: World) -> list[str]:
    """All versions, oldest first."""
    return world.task.data["versions"]


@env.tool
async def deploy(world: World, version: str) -> str:
    """Deploy a version."""
    if version not in world.task.data["versions"]:
        raise ToolError(f"no version {version!r}")
    world.state["deployed"] = version
    return f"{version} is live."


@env.tool
async def smoke_test(world: World) -> str:
    """Test what is deployed."""
    place = world.task.data["versions"].index(world.state["deployed"])
    return "smoke test: PASSED" if place <= world.task.data["good"] else "smoke test: failed, 503 on /health"


@env.check(points=1)
def service_is_healthy(evidence: Evidence, task: Task) -> bool:
    return "PASSED" in evidence.answer


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("deploy", version=task.key["version"])
    log = await agent.call("smoke_test")
    await agent.say(log)
