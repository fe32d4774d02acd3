"""Make a passphrase that follows the house rules."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task

WORDS = ("anchor", "basil", "cobalt", "dune", "elm", "falcon", "grove", "hazel", "iris", "juniper")

env = Environment("passphrases", system="Reply with the passphrase alone.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        words, digits = rng.sample(WORDS, 3), rng.randrange(1000, 9999)
        prompt = f"Join these words backwards (last word first) with `+`, then `+{digits}`: {' '.join(words)}."
        yield Task(f"phrase-{number}", prompt=prompt, key={"phrase": "+".join([*reversed(words), str(digits)])})


@env.check(points=1)
def phrase_follows_the_rules(evidence: Evidence, task: Task) -> bool:
    phrase = evidence.answer.strip().rstrip(".").casefold()
    return phrase == task.key["phrase"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(task.key["phrase"])
