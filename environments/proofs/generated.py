"""Theorems made from a seed: each family is another kind of work, and each of its statements has its own shape or numbers."""

import re
from collections.abc import Callable, Iterator
from random import Random

from .theorems import Theorem

Polynomial = dict[tuple[int, ...], int]
"""Exponents of the variables -> coefficient."""


def made_theorems(rng: Random) -> Iterator[Theorem]:
    """All generated theorems."""
    for family, (count, make) in FAMILIES.items():
        seen: set[str] = set()
        while len(seen) < count:
            statement, proof, needs, defs = make(rng, len(seen))
            if statement + defs not in seen:
                seen.add(statement + defs)
                level = "easy" if len(seen) <= count // 2 else "medium"
                text = f"Theorem main_goal : {statement}.\nProof.\n{proof}\nQed."
                yield Theorem(f"{family}-{len(seen)}", family, level, statement, text, needs, defs)


Made = tuple[str, str, str, str]
"""Statement, proof, libraries, definitions."""


# -- polynomials -----------------------------------------------------------------------------------------------------------------


def times(one: Polynomial, other: Polynomial) -> Polynomial:
    made: Polynomial = {}
    for a, c in one.items():
        for b, d in other.items():
            power = tuple(x + y for x, y in zip(a, b, strict=True))
            made[power] = made.get(power, 0) + c * d
    return {power: value for power, value in made.items() if value}


def shown(poly: Polynomial, names: str) -> str:
    """A polynomial as Coq reads it in the integers."""
    terms = []
    for power, value in sorted(poly.items(), reverse=True):
        factors = [name for name, count in zip(names, power, strict=True) for _ in range(count)]
        number = [f"({value})" if value < 0 else str(value)] if value != 1 or not factors else []
        terms.append(" * ".join([*number, *factors]))
    return " + ".join(terms) or "0"


def ring_identity(rng: Random, number: int) -> Made:
    names = "xy" if number % 2 else "xyz"
    factors = [line(rng, len(names)) for _ in range(2 + number % 3)]
    product: Polynomial = {(0,) * len(names): 1}
    for factor in factors:
        product = times(product, factor)
    left = " * ".join(f"({shown(factor, names)})" for factor in factors)
    return f"forall {' '.join(names)} : Z, ({left} = {shown(product, names)})%Z", "  intros. ring.", "ZArith Lia", ""


def line(rng: Random, count: int) -> Polynomial:
    units = [tuple(int(place == which) for place in range(count)) for which in range(count)]
    return {unit: rng.choice([-3, -2, -1, 1, 2, 3, 4]) for unit in (*rng.sample(units, 2), (0,) * count)}


def linear_consequence(rng: Random, _: int) -> Made:
    """A positive combination of two bounds, weakened a little."""
    a, b, c, d = (rng.randrange(1, 9) for _ in range(4))
    e, f = rng.randrange(-20, 20), rng.randrange(-20, 20)
    p, q = rng.randrange(1, 4), rng.randrange(1, 4)
    total = p * e + q * f + rng.randrange(3)
    rest = q * d - p * b
    goal = f"{p * a + q * c} * x" + (f" {'-' if rest < 0 else '+'} {abs(rest)} * y" if rest else "") + f" <= {total}"
    statement = f"forall x y : Z, ({a} * x - {b} * y <= {e} -> {c} * x + {d} * y <= {f} -> {goal})%Z"
    return re.sub(r"\b1 \* ", "", statement), "  intros. lia.", "ZArith Lia", ""


def closed_sum(rng: Random, number: int) -> Made:
    """A sum by recursion, and its closed form times a constant."""
    a, b = rng.randrange(1, 8), rng.randrange(0, 9)
    step, scale, closed = [
        (f"{a} * n + {b}", 2, f"n * ({a} * n + {a + 2 * b})"),
        (f"{a} * (n * n)", 6, f"{a} * (n * (n + 1) * (2 * n + 1))"),
        (f"{a} * (n * n * n)", 4, f"{a} * (n * n * ((n + 1) * (n + 1)))"),
        (f"{a} * (n * (n + 1))", 3, f"{a} * (n * (n + 1) * (n + 2))"),
    ][number % 4]
    inner = step.replace("n", "(S m)")
    defs = f"Fixpoint total (n : nat) : nat := match n with O => 0 | S m => ({inner}) + total m end."
    statement = f"forall n : nat, {scale} * total n = {closed}"
    proof = "  induction n; [reflexivity|]. cbn [total]. rewrite Nat.mul_add_distr_l, IHn. ring."
    return statement, proof, "Lia Arith", defs


def divisibility(rng: Random, number: int) -> Made:
    """A polynomial that a number divides at every integer, proved by cases on the remainder."""
    modulus, poly, text = [
        (2, [0, 1, 1], "n * (n + 1)"),
        (3, [0, -1, 0, 1], "n * n * n - n"),
        (6, [0, -1, 0, 1], "n * n * n - n"),
        (6, [0, 2, 3, 1], "n * (n + 1) * (n + 2)"),
        (5, [0, -1, 0, 0, 0, 1], "n * n * n * n * n - n"),
        (3, [0, 5, 0, 1], "n * n * n + 5 * n"),
        (7, [0, -1, 0, 0, 0, 0, 0, 1], "n * n * n * n * n * n * n - n"),
    ][number % 7]
    scale = rng.choice([each for each in (1, 5, 7, 11, 13) if each % modulus])
    cases = "\n".join(f"  - exists ({scale} * ({quotient(poly, modulus, rest)}))%Z. subst n r. ring." for rest in range(modulus))
    options = " \\/ ".join(f"r = {rest}" for rest in range(modulus))
    pattern = "|".join(["e"] * modulus)
    proof = f"""  intros n.
  assert (h : exists q r, (n = {modulus} * q + r /\\ 0 <= r < {modulus})%Z).
  {{ exists (n / {modulus})%Z, (n mod {modulus})%Z. split; [apply Z.div_mod; lia|apply Z.mod_pos_bound; lia]. }}
  destruct h as [q [r [en lt]]].
  assert (k : ({options})%Z) by lia.
  destruct k as {nested(pattern)}.
{cases}"""
    return f"forall n : Z, exists k : Z, ({scale} * ({text}) = {modulus} * k)%Z", proof, "ZArith Lia", ""


def nested(pattern: str) -> str:
    """`[e|[e|e]]` for cases of a disjunction to the right."""
    names = pattern.split("|")
    made = names[-1]
    for name in reversed(names[:-1]):
        made = f"[{name}|{made}]"
    return made


def quotient(poly: list[int], modulus: int, rest: int) -> str:
    """`poly(modulus * q + rest) / modulus` as a polynomial in q."""
    made: Polynomial = {}
    base: Polynomial = {(1,): modulus} | ({(0,): rest} if rest else {})
    power: Polynomial = {(0,): 1}
    for value in poly:
        for exponent, factor in power.items():
            made[exponent] = made.get(exponent, 0) + value * factor
        power = times(power, base)
    return shown({exponent: value // modulus for exponent, value in made.items() if value}, "q")


def boolean_law(rng: Random, _: int) -> Made:
    left = boolean(rng, 3)
    return f"forall a b c : bool, {shown_bool(left)} = {shown_bool(pushed(left, negate=False))}", BY_CASES, "Bool", ""


BY_CASES = "  intros [] [] []; reflexivity."


def boolean(rng: Random, depth: int) -> tuple:
    if depth == 0:
        return ("not", (rng.choice("abc"),)) if rng.random() < 0.3 else (rng.choice("abc"),)
    kind = rng.choice(["andb", "orb", "xorb", "not-and", "not-or"])
    inner = (kind.replace("not-and", "andb").replace("not-or", "orb"), boolean(rng, depth - 1), boolean(rng, depth - 1))
    return ("not", inner) if kind.startswith("not") else inner


def pushed(tree: tuple, *, negate: bool) -> tuple:
    """The same function with every negation at a variable (De Morgan)."""
    if tree[0] == "not":
        return pushed(tree[1], negate=not negate)
    if len(tree) == 1:
        return ("not", tree) if negate else tree
    if tree[0] == "xorb":
        return ("xorb", pushed(tree[1], negate=negate), pushed(tree[2], negate=False))
    other = {"andb": "orb", "orb": "andb"}[tree[0]] if negate else tree[0]
    return (other, pushed(tree[1], negate=negate), pushed(tree[2], negate=negate))


def shown_bool(tree: tuple) -> str:
    if len(tree) == 1:
        return tree[0]
    return f"(negb {shown_bool(tree[1])})" if tree[0] == "not" else f"({tree[0]} {shown_bool(tree[1])} {shown_bool(tree[2])})"


def bezout(rng: Random, _: int) -> Made:
    a, b = rng.randrange(20, 400), rng.randrange(20, 400)
    divisor, x, y = euclid(a, b)
    goal = divisor * rng.randrange(1, 5)
    scale = goal // divisor
    proof = f"  exists ({x * scale})%Z, ({y * scale})%Z. reflexivity."
    return f"exists x y : Z, ({a} * x + {b} * y = {goal})%Z", proof, "ZArith Lia", ""


def euclid(a: int, b: int) -> tuple[int, int, int]:
    if b == 0:
        return a, 1, 0
    divisor, x, y = euclid(b, a % b)
    return divisor, y, x - a // b * y


def square_bound(rng: Random, _: int) -> Made:
    """A quadratic form that is never negative, because it is a sum of squares."""
    a, b, c = rng.randrange(1, 7), rng.choice([-5, -3, -2, 2, 3, 4, 6]), rng.randrange(0, 9)
    form = f"{a * a} * (x * x) + ({2 * a * b}) * (x * y) + {b * b + c} * (y * y)"
    proof = f"  intros. pose proof (Z.square_nonneg ({a} * x + {b} * y)). pose proof (Z.square_nonneg y). lia."
    return f"forall x y : Z, (0 <= {form})%Z", proof.replace("+ -", "- "), "ZArith Lia", ""


FAMILIES: dict[str, tuple[int, Callable[[Random, int], Made]]] = {
    "ring-identity": (8, ring_identity),
    "linear-consequence": (8, linear_consequence),
    "closed-sum": (8, closed_sum),
    "divisibility": (7, divisibility),
    "boolean-law": (6, boolean_law),
    "bezout": (5, bezout),
    "square-bound": (5, square_bound),
}
"""Name of each family, how many statements it has, and what makes one."""
