"""Replies to guests of a hotel."""

from random import Random

from sandlot import Agent, Environment, Task
from sandlot.rubric import JudgeCheck, Rubric

WISHES = ("towels", "pillows", "a kettle", "an iron", "a cot", "bathrobes")

env = Environment("guests", system="Answer the guest in one sentence: say that it comes, and to which room.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        wish, room, floors = rng.choice(WISHES), rng.randrange(101, 199), rng.randrange(2, 9)
        prompt = f"Guest: may I have {wish}? I am {floors} floors above room {room}. (Room numbers go up by 100 a floor.)"
        key = {"wish": wish, "room": room + 100 * floors}
        yield Task(f"guest-{number}", prompt=prompt, key=key, rubric=f"room {key['room']}")


def question(room: int) -> Rubric:
    return Rubric(checks=(JudgeCheck(id="reply_is_right", prompt=f'The reply names the room "{room}".', points=2),))


env.parts.rubrics = {f"room {room}": question(room) for room in range(301, 1100)}


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(f"Thank you for asking: {task.key['wish']} will come to room {task.key['room']}.")
