"""Times tables, one question a task."""

from random import Random

from sandlot import Ask, Score, environment


@environment("tables", tasks=60)
def tables(rng: Random):
    a, b = rng.randrange(120, 1800), rng.randrange(120, 1800)
    reply = yield Ask(f"What is {a} times {b}? Reply with the number alone.", golden=str(a * b))
    yield Score(reply.strip().replace(",", "").removesuffix(".0") == str(a * b), why=f"it is {a * b}")
