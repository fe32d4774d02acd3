"""Thank-you notes after a donation."""

from random import Random

from sandlot import Agent, Environment, JudgeCheck, Rubric, Task, World

CAUSES = ("the library roof", "the school bus", "the river path", "the village choir")

env = Environment(
    "thanks", system="Write one sentence of thanks that names the cause and the sum after the tenth kept for costs."
)


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        cause, tens = rng.choice(CAUSES), rng.randrange(11, 90)
        prompt = f"A donation of {tens * 10} euros for {cause}."
        key = {"cause": cause, "euros": tens * 9}
        yield Task(
            f"donation-{number}",
            prompt=prompt,
            data={"sample": f"Thank you for your gift to {cause}."},
            key=key,
            rubric=f"{cause}, {tens * 9}",
        )


@env.setup
async def put_sample(world: World, task: Task) -> None:
    await world.write("/desk/sample.txt", task.data["sample"])


def question(cause: str, euros: int) -> Rubric:
    asked = "The reply is a better letter than the sample it is shown with."
    return Rubric(checks=(JudgeCheck(id="better_than_the_sample", prompt=asked, points=2, view=("answer", "/desk/sample.txt")),))


env.marked.rubrics = {f"{cause}, {tens * 9}": question(cause, tens * 9) for cause in CAUSES for tens in range(11, 90)}


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(f"Thank you: {task.key['euros']} euros of your gift go to {task.key['cause']}.")
