"""A guessing game: find the number."""

from random import Random

from sandlot import Agent, Environment, Evidence, Limits, Task, World

env = Environment(
    "guessing",
    limits=Limits(turns=24),
    system="Find my number, from 1 to 900. One guess a message; I say `higher`, `lower` or nothing.",
)


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        secret = rng.randrange(1, 901)
        yield Task(f"game-{number}", prompt="I have thought of a number.", data={"secret": secret}, key={"secret": secret})


@env.setup
def begin(world: World, task: Task) -> None:
    world.state = {"found": False}


@env.user
def reply(world: World, text: str) -> str | None:
    guess, secret = text.strip().rstrip("."), world.task.data["secret"]
    if not guess.isdecimal() or len(guess) > 4:
        return "That is no number from 1 to 900."
    if int(guess) == secret:
        world.state["found"] = True
        return None
    return "higher" if int(guess) < secret else "lower"


@env.check(points=1)
def number_was_found(evidence: Evidence, task: Task) -> bool:
    return evidence.state["found"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    low, high = 1, 900
    while low <= high:
        middle = (low + high) // 2
        if middle == task.key["secret"]:
            await agent.say(str(middle))
            return
        low, high = (middle + 1, high) if await agent.say(str(middle)) == "higher" else (low, middle - 1)
