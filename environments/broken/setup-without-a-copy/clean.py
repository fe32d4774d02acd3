"""A toolshed: take back what neighbours have borrowed."""

import copy
from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

TOOLS = ("ladder", "saw", "rake", "drill", "spade", "barrow", "pump")
NEIGHBOURS = ("Alvarez", "Brandt", "Conti", "Dumas")

LOANS: dict[str, dict[str, list[str]]] = {}

env = Environment("toolshed", system="Take back what the neighbour returns. Say `done` when finished.")


@env.tasks
def tasks(rng: Random):
    visits = rng.sample([(who, tool) for who in NEIGHBOURS for tool in TOOLS], 8)
    for number, (who, tool) in enumerate(visits):
        loans = {name: rng.sample(TOOLS, 3) for name in NEIGHBOURS}
        loans[who] = [tool, *rng.sample([other for other in TOOLS if other != tool], 2)]
        prompt = f"{who} is back with a {tool}."
        key = {"who": who, "tool": tool, "left": [name for name in loans[who] if name != tool]}
        name = f"return-{number}"
        LOANS[name] = loans
        yield Task(name, prompt=prompt, key=key)


@env.setup
def open_shed(world: World, task: Task) -> None:
    world.state = {"loans": copy.deepcopy(LOANS[task.id]), "returned": []}


@env.tool
async def borrowed(world: World, name: str) -> list[str]:
    """What a neighbour has borrowed."""
    if name not in world.state["loans"]:
        raise ToolError(f"no neighbour {name!r}")
    return world.state["loans"][name]


@env.tool
async def take_back(world: World, name: str, tool: str) -> str:
    """Strike a tool off a neighbour's list."""
    if tool in world.state["loans"].get(name, []):
        world.state["loans"][name].remove(tool)
    world.state["returned"].append([name, tool])
    return f"{name} has brought the {tool} back."


@env.check(points=1)
def tool_is_back(evidence: Evidence, task: Task) -> bool:
    right = evidence.state["returned"] == [[task.key["who"], task.key["tool"]]]
    return right and evidence.state["loans"][task.key["who"]] == task.key["left"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("take_back", name=task.key["who"], tool=task.key["tool"])
    await agent.say("done")
