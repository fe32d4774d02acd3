"""Replies to guests of a hotel."""

from random import Random

from sandlot import Agent, Environment, JudgeCheck, Rubric, Task

WISHES = ("towels", "pillows", "a kettle", "an iron", "a cot", "bathrobes")

env = Environment("guests", system="Answer the guest in one sentence: say that it comes, and to which room.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        wish, room, floors = rng.choice(WISHES), rng.randrange(101, 110), rng.randrange(2, 9)
        prompt = f"Guest: may I have {wish}? I am {floors} floors above room {room}. (Room numbers go up by 100 a floor.)"
        key = {"wish": wish, "room": room + 100 * floors}
        yield Task(f"guest-{number}", prompt=prompt, key=key, rubric=f"{wish}, {key['room']}")


def question(wish: str, room: int) -> Rubric:
    asked = f'The reply says that "{wish}" will come to room "{room}".'
    return Rubric(checks=(JudgeCheck(id="reply_is_right", prompt=asked, points=2),))


ROOMS = [door + 100 * floors for door in range(101, 110) for floors in range(2, 9)]
env.marked.rubrics = {f"{wish}, {room}": question(wish, room) for wish in WISHES for room in ROOMS}


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(f"Thank you for asking: {task.key['wish']} will come to room {task.key['room']}.")
