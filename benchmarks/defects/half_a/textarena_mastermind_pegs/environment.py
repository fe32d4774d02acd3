"""Mastermind alone against a secret code, with the project's own feedback."""

from random import Random

from wiring import pegs

from sandlot import Agent, Environment, Evidence, Limits, Task, ToolError, World

LENGTH, NUMBERS = 3, 4
env = Environment(
    "mastermind",
    system=f"Find the secret code of {LENGTH} digits from 1 to {NUMBERS} with the tool `guess`. A black peg is a right digit in its place, a white one a right digit elsewhere.",
    limits=Limits(turns=70),
)


@env.tasks
def tasks(rng: Random):
    for number in range(6):
        secret = [rng.randint(1, NUMBERS) for _ in range(LENGTH)]
        yield Task(f"code-{number}", prompt="Find the code.", key={"secret": secret})


@env.setup
def fill(world: World, task: Task) -> None:
    world.state = {"solved": False, "guesses": 0}


@env.tool
async def guess(world: World, task: Task, digits: str) -> str:
    """Guess the code, as digits without spaces: 123."""
    if len(digits) != LENGTH or not digits.isdigit():
        raise ToolError(f"give {LENGTH} digits")
    black, white = pegs(task.key["secret"], [int(digit) for digit in digits])
    world.state["guesses"] += 1
    world.state["solved"] |= black == LENGTH
    return f"{black} black, {white} white"


@env.check(points=1)
def found(evidence: Evidence, task: Task) -> float:
    return float(evidence.state["solved"])


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("guess", digits="".join(str(digit) for digit in task.key["secret"]))
    await agent.say("done")
