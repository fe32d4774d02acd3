"""Questions with one exact answer, for the library of answers: numbers, formulas, sets, intervals, quantities."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from random import Random


@dataclass(frozen=True)
class Computed:
    """A question and its answer; `kind` names the check that compares them."""

    name: str
    family: str
    level: str
    question: str
    kind: str
    answer: str


def made_questions(rng: Random) -> Iterator[Computed]:
    """Three questions of each family."""
    for family, make in FAMILIES.items():
        for number in range(1, 4):
            question, kind, answer = make(rng)
            yield Computed(f"{family}-{number}", family, "easy" if number < 3 else "medium", question, kind, answer)


Made = tuple[str, str, str]


def signed(number: int, unit: str = "") -> str:
    """One more term of a sum, as it is written: ` + 9`, ` - 30x`, nothing for 0."""
    return f" {'-' if number < 0 else '+'} {abs(number)}{unit}" if number else ""


def integral(rng: Random) -> Made:
    a, b, low, high = rng.randrange(2, 9), rng.randrange(2, 9), rng.randrange(0, 3), rng.randrange(4, 7)
    value = Fraction(a, 3) * (high**3 - low**3) + Fraction(b, 2) * (high**2 - low**2)
    return f"What is the integral of {a}x^2 + {b}x from x = {low} to x = {high}? Give the exact value.", "math", str(value)


def derivative(rng: Random) -> Made:
    a, b, c = rng.randrange(2, 9), rng.randrange(2, 9), rng.randrange(2, 6)
    power = f"^{c - 1}" if c > 2 else ""
    return f"Differentiate ({a}x + {b})^{c} with respect to x.", "math", f"{a * c}({a}x + {b}){power}"


def determinant(rng: Random) -> Made:
    rows = [[rng.randrange(-6, 7) for _ in range(3)] for _ in range(3)]
    (a, b, c), (d, e, f), (g, h, i) = rows
    value = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    return f"What is the determinant of the matrix with the rows {rows[0]}, {rows[1]}, {rows[2]}?", "math", str(value)


def inverse(rng: Random) -> Made:
    modulus = rng.choice([101, 103, 107, 109, 113, 127])
    a = rng.randrange(12, modulus - 1)
    return f"What is the inverse of {a} modulo {modulus}, from 1 to {modulus - 1}?", "math", str(pow(a, -1, modulus))


def roots(rng: Random) -> Made:
    r, s, a = rng.randrange(-9, 10), rng.randrange(10, 20), rng.randrange(2, 5)
    text = f"{a}x^2{signed(-a * (r + s), 'x')}{signed(a * r * s)} = 0"
    return f"Give the set of all real solutions of {text}.", "math", f"{{{r}, {s}}}"


def inequality(rng: Random) -> Made:
    a, b, c = rng.randrange(2, 7), rng.randrange(-9, 10), rng.randrange(3, 20)
    low, high = Fraction(-c - b, a), Fraction(c - b, a)
    return f"For which real x is |{a}x{signed(b)}| < {c}? Give an interval.", "math", f"({low}, {high})"


def energy(rng: Random) -> Made:
    mass, speed = rng.randrange(16, 40) * 50, rng.randrange(5, 30)
    joules = Fraction(mass * speed * speed, 2)
    return (
        f"A car of {mass} kg moves at {speed} m/s. What is its kinetic energy? Give a number and a unit.",
        "quantity",
        f"{joules.numerator} J" if joules.denominator == 1 else f"{float(joules)} J",
    )


def dilution(rng: Random) -> Made:
    volume, strong, weak = rng.randrange(2, 10) * 100, rng.choice([2, 4, 5, 10]), Fraction(1, rng.choice([2, 4, 5]))
    need = volume * weak / strong
    question = f"How much of a stock solution of {strong} mol/L is needed for {volume} mL of a solution of {float(weak)} mol/L?"
    return f"{question} Give a number and a unit.", "quantity", f"{float(need):g} mL"


FAMILIES: dict[str, Callable[[Random], Made]] = {
    "integral": integral,
    "derivative": derivative,
    "determinant": determinant,
    "modular-inverse": inverse,
    "roots": roots,
    "inequality": inequality,
    "kinetic-energy": energy,
    "dilution": dilution,
}
