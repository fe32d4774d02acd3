"""Letters to customers about late parcels."""

from random import Random

from sandlot import Agent, Environment, JudgeCheck, Rubric, Task

MONTHS = ("March", "April", "May", "June")
CAUSES = ("strike", "storm", "customs", "breakdown")

env = Environment("late-parcels", system="Write one sentence to the customer: what held the parcel up, and when it comes.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        cause, day, month = rng.choice(CAUSES), rng.randrange(2, 28), rng.choice(MONTHS)
        prompt = (
            f"Parcel {rng.randrange(10**6, 10**7)} was promised for {day} {month}. It is held up by {cause} and two days late."
        )
        key = {"cause": cause, "day": f"{day + 2} {month}"}
        yield Task(f"parcel-{number}", prompt=prompt, key=key, rubric=f"{cause}, {key['day']}")


def question(cause: str, day: str) -> Rubric:
    asked = f'The letter says that the parcel was held up by "{cause}" and comes on "{day}".'
    return Rubric(checks=(JudgeCheck(id="says_what_is_needed", prompt=asked, points=2),))


env.marked.rubrics = {
    f"{cause}, {day} {month}": question(cause, f"{day} {month}") for cause in CAUSES for day in range(4, 30) for month in MONTHS
}


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(f"Your parcel was held up by {task.key['cause']} and comes on {task.key['day']}.")
