"""Arithmetic: a whole environment in one function. It asks, hears the answer, and scores it."""

from operator import add, mul, sub
from random import Random

from sandlot import Ask, Score, environment

OPERATIONS = {"+": add, "-": sub, "*": mul}


@environment("arithmetic", tasks=480, distinct=True)
def arithmetic(rng: Random):
    symbol = rng.choice(list(OPERATIONS))
    a, b = rng.randrange(10, 100), rng.randrange(10, 100)
    result = OPERATIONS[symbol](a, b)
    answer = yield Ask(f"What is {a} {symbol} {b}? Reply with the number alone.", golden=str(result))
    yield Score(answer.strip() == str(result), why=f"it is {result}, the answer was {answer.strip()[:40]!r}")
