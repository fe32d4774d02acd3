"""Times tables, one question a task."""

from random import Random

from sandlot import Ask, Score, environment


def number(text: str) -> float | None:
    try:
        return float(text.strip().rstrip(".").replace(",", ""))
    except ValueError:
        return None


@environment("tables", tasks=60)
def tables(rng: Random):
    a, b = rng.randrange(12, 18), rng.randrange(12, 18)
    reply = yield Ask(f"What is {a} times {b}? Reply with the number alone.", golden=str(a * b))
    yield Score(number(reply) == a * b, why=f"it is {a * b}")
