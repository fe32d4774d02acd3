"""Loops that need an invariant, and integer puzzles that need values; both hand-made, with a few made from a seed."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from random import Random

from .smt import Loop

LOOPS = (
    Loop(
        "double",
        "easy",
        "x and y start at 0; while x < n: x += 1, y += 2",
        "(and (= x 0) (= y 0) (>= n 0))",
        "(< x n)",
        {"x": "(+ x 1)", "y": "(+ y 2)"},
        "(= y (* 2 n))",
        "(and (= y (* 2 x)) (<= x n))",
        ("n",),
    ),
    Loop(
        "count-down",
        "easy",
        "x starts at n, y at 0; while x > 0: x -= 1, y += 1",
        "(and (= x n) (= y 0) (>= n 0))",
        "(> x 0)",
        {"x": "(- x 1)", "y": "(+ y 1)"},
        "(= y n)",
        "(and (= (+ x y) n) (>= x 0))",
        ("n",),
    ),
    Loop(
        "two-counters",
        "easy",
        "x starts at 0, y at 10; while x < 10: x += 1, y -= 1",
        "(and (= x 0) (= y 10))",
        "(< x 10)",
        {"x": "(+ x 1)", "y": "(- y 1)"},
        "(= y 0)",
        "(and (= (+ x y) 10) (<= x 10))",
    ),
    Loop(
        "even-steps",
        "easy",
        "x starts at 0; while x < 100: x += 2",
        "(= x 0)",
        "(< x 100)",
        {"x": "(+ x 2)"},
        "(= x 100)",
        "(and (= (mod x 2) 0) (<= x 100))",
    ),
    Loop(
        "saturate",
        "easy",
        "x starts at 0; while x < n: x = min(x + 7, n)",
        "(and (= x 0) (>= n 0))",
        "(< x n)",
        {"x": "(ite (> (+ x 7) n) n (+ x 7))"},
        "(= x n)",
        "(<= x n)",
        ("n",),
    ),
    Loop(
        "triangle",
        "medium",
        "i and s start at 0; while i < n: i += 1, s += the new i",
        "(and (= i 0) (= s 0) (>= n 0))",
        "(< i n)",
        {"i": "(+ i 1)", "s": "(+ s i 1)"},
        "(= (* 2 s) (* n (+ n 1)))",
        "(and (= (* 2 s) (* i (+ i 1))) (<= i n))",
        ("n",),
    ),
    Loop(
        "odd-sum",
        "medium",
        "i and s start at 0, o at 1; while i < n: s += o, o += 2, i += 1",
        "(and (= i 0) (= s 0) (= o 1) (>= n 0))",
        "(< i n)",
        {"i": "(+ i 1)", "s": "(+ s o)", "o": "(+ o 2)"},
        "(= s (* n n))",
        "(and (= s (* i i)) (= o (+ (* 2 i) 1)) (<= i n))",
        ("n",),
    ),
    Loop(
        "multiply",
        "medium",
        "p and i start at 0; while i < b: p += a, i += 1",
        "(and (= p 0) (= i 0) (>= b 0))",
        "(< i b)",
        {"p": "(+ p a)", "i": "(+ i 1)"},
        "(= p (* a b))",
        "(and (= p (* a i)) (<= i b))",
        ("a", "b"),
    ),
    Loop(
        "divide",
        "medium",
        "x starts at a, q at 0; while x >= b: x -= b, q += 1; b is positive, a is not negative",
        "(and (= x a) (= q 0) (>= a 0) (> b 0))",
        "(>= x b)",
        {"x": "(- x b)", "q": "(+ q 1)"},
        "(and (= a (+ (* q b) x)) (<= 0 x) (< x b))",
        "(and (= a (+ (* q b) x)) (<= 0 x))",
        ("a", "b"),
    ),
    Loop(
        "square-root",
        "medium",
        "r starts at 0; while (r + 1)^2 <= n: r += 1",
        "(and (= r 0) (>= n 0))",
        "(<= (* (+ r 1) (+ r 1)) n)",
        {"r": "(+ r 1)"},
        "(and (<= (* r r) n) (> (* (+ r 1) (+ r 1)) n))",
        "(and (>= r 0) (<= (* r r) n))",
        ("n",),
    ),
    Loop(
        "cubes",
        "hard",
        "x starts at 0, y at 1, z at 6, i at 0; while i < n: x += y, y += z, z += 6, i += 1",
        "(and (= x 0) (= y 1) (= z 6) (= i 0) (>= n 0))",
        "(< i n)",
        {"x": "(+ x y)", "y": "(+ y z)", "z": "(+ z 6)", "i": "(+ i 1)"},
        "(= x (* n n n))",
        "(and (= x (* i i i)) (= y (+ (* 3 i i) (* 3 i) 1)) (= z (+ (* 6 i) 6)) (<= i n))",
        ("n",),
    ),
    Loop(
        "buffer",
        "hard",
        "c, p and q start at 0; while p < n: if c < 5 then c += 1, p += 1, else c -= 1, q += 1",
        "(and (= c 0) (= p 0) (= q 0) (>= n 0))",
        "(< p n)",
        {"c": "(ite (< c 5) (+ c 1) (- c 1))", "p": "(ite (< c 5) (+ p 1) p)", "q": "(ite (< c 5) q (+ q 1))"},
        "(and (= q (- n c)) (<= 0 c) (<= c 5))",
        "(and (= c (- p q)) (<= 0 c) (<= c 5) (<= p n))",
        ("n",),
    ),
    Loop(
        "clock",
        "hard",
        "t and h start at 0; while t < n: t += 1, h = 0 if h was 11, else h + 1",
        "(and (= t 0) (= h 0) (>= n 0))",
        "(< t n)",
        {"t": "(+ t 1)", "h": "(ite (= h 11) 0 (+ h 1))"},
        "(= h (mod n 12))",
        "(and (<= 0 h) (<= h 11) (= (mod (- t h) 12) 0) (<= t n))",
        ("n",),
    ),
    Loop(
        "meet",
        "hard",
        "x starts at 0, y at 3 n; while x < y: x += 1, y -= 2",
        "(and (= x 0) (= y (* 3 n)) (>= n 0))",
        "(< x y)",
        {"x": "(+ x 1)", "y": "(- y 2)"},
        "(and (= x n) (= y n))",
        "(and (= (+ y (* 2 x)) (* 3 n)) (<= x n))",
        ("n",),
    ),
)


@dataclass(frozen=True)
class Puzzle:
    """Integers to find: every condition must hold."""

    name: str
    family: str
    level: str
    said: str
    names: tuple[str, ...]
    conditions: tuple[str, ...]
    values: tuple[int, ...]


def _letters(word: str) -> str:
    return "(+ " + " ".join(f"(* {10**place} {letter})" for place, letter in enumerate(reversed(word))) + ")"


P = Puzzle
PUZZLES = (
    P(
        "pythagoras-1000",
        "find-values",
        "easy",
        "a right triangle with whole sides and perimeter 1000",
        ("a", "b", "c"),
        ("(= (+ (* a a) (* b b)) (* c c))", "(= (+ a b c) 1000)", "(and (< 0 a) (< a b))"),
        (200, 375, 425),
    ),
    P(
        "taxicab",
        "find-values",
        "medium",
        "1729 as a sum of two cubes in two ways",
        ("x", "y", "u", "v"),
        (
            "(= (+ (* x x x) (* y y y)) 1729)",
            "(= (+ (* u u u) (* v v v)) 1729)",
            "(and (< 0 x) (< x y))",
            "(and (< x u) (< u v))",
        ),
        (1, 12, 9, 10),
    ),
    P(
        "egyptian",
        "find-values",
        "easy",
        "1/a + 1/b + 1/c = 1 with different numbers",
        ("a", "b", "c"),
        ("(= (+ (* b c) (* a c) (* a b)) (* a b c))", "(and (< 0 a) (< a b) (< b c))"),
        (2, 3, 6),
    ),
    P(
        "send-more-money",
        "find-values",
        "medium",
        "SEND + MORE = MONEY: each letter another digit, no number begins with 0",
        tuple("sendmory"),
        (
            f"(= (+ {_letters('send')} {_letters('more')}) {_letters('money')})",
            "(distinct s e n d m o r y)",
            "(and (< 0 s) (< 0 m))",
            *(f"(and (<= 0 {letter}) (<= {letter} 9))" for letter in "sendmory"),
        ),
        (9, 5, 6, 7, 1, 0, 8, 2),
    ),
    P(
        "magic-square",
        "find-values",
        "medium",
        "a 3 x 3 magic square of 1 to 9, rows a b c, d e f, g h k",
        tuple("abcdefghk"),
        (
            "(distinct a b c d e f g h k)",
            *(f"(and (<= 1 {each}) (<= {each} 9))" for each in "abcdefghk"),
            *(f"(= (+ {' '.join(line)}) 15)" for line in ("abc", "def", "ghk", "adg", "beh", "cfk", "aek", "ceg")),
        ),
        (2, 7, 6, 9, 5, 1, 4, 3, 8),
    ),
    P(
        "pell-61",
        "find-values",
        "hard",
        "Pell's equation x^2 - 61 y^2 = 1 with y > 0",
        ("x", "y"),
        ("(= (- (* x x) (* 61 y y)) 1)", "(and (< 0 x) (< 0 y))"),
        (1766319049, 226153980),
    ),
    P(
        "queens",
        "find-values",
        "medium",
        "six queens on a 6 x 6 board, q1 to q6 the row in each column",
        tuple(f"q{n}" for n in range(1, 7)),
        (
            "(distinct q1 q2 q3 q4 q5 q6)",
            *(f"(and (<= 1 q{n}) (<= q{n} 6))" for n in range(1, 7)),
            *(f"(distinct (abs (- q{a} q{b})) {b - a})" for a, b in combinations(range(1, 7), 2)),
        ),
        (2, 4, 6, 1, 3, 5),
    ),
    P(
        "prime-formula",
        "counterexample",
        "medium",
        "n^2 + n + 41 is not always prime: a number n, and two factors above 1 of the value",
        ("n", "f", "g"),
        ("(= (* f g) (+ (* n n) n 41))", "(and (<= 0 n) (< 1 f) (< 1 g))"),
        (40, 41, 41),
    ),
    P(
        "fermat-number",
        "counterexample",
        "medium",
        "2^32 + 1 = 4294967297 is not prime: two factors",
        ("f", "g"),
        ("(= (* f g) 4294967297)", "(and (< 1 f) (< f g))"),
        (641, 6700417),
    ),
    P(
        "mersenne",
        "counterexample",
        "easy",
        "2^11 - 1 is not prime: two factors",
        ("f", "g"),
        ("(= (* f g) 2047)", "(and (< 1 f) (< f g))"),
        (23, 89),
    ),
    P(
        "euler-powers",
        "counterexample",
        "hard",
        "four fifth powers of positive numbers that add up to a fifth power",
        ("a", "b", "c", "d", "e"),
        (
            "(= (+ (* a a a a a) (* b b b b b) (* c c c c c) (* d d d d d)) (* e e e e e))",
            "(and (< 0 a) (< a b) (< b c) (< c d))",
        ),
        (27, 84, 110, 133, 144),
    ),
    P(
        "zero-divisors",
        "counterexample",
        "easy",
        "if 12 divides a b, it need not divide a or b",
        ("a", "b"),
        ("(= (mod (* a b) 12) 0)", "(not (= (mod a 12) 0))", "(not (= (mod b 12) 0))"),
        (3, 4),
    ),
    P(
        "division-rounds",
        "counterexample",
        "medium",
        "rounding down twice by steps can differ: (a div b) * b = a fails although b divides a * a",
        ("a", "b"),
        ("(< 1 b)", "(= (mod (* a a) b) 0)", "(not (= (* (div a b) b) a))", "(< 0 a)"),
        (2, 4),
    ),
)


def made_puzzles(rng: Random) -> Iterator[Puzzle]:
    """Remainders, colourings and selections from a seed."""
    for number, moduli in enumerate(((3, 5, 7), (7, 11, 13), (16, 27, 25, 49)), 1):
        value = rng.randrange(2, 10_000)
        conditions = tuple(f"(= (mod x {each}) {value % each})" for each in moduli)
        yield Puzzle(
            f"remainders-{number}",
            "remainders",
            "medium",
            "a number with these remainders",
            ("x",),
            (*conditions, "(< 0 x)"),
            (value,),
        )
    for number in range(1, 4):
        colors = [rng.randrange(1, 4) for _ in range(8)]
        edges = [(a, b) for a, b in combinations(range(8), 2) if colors[a] != colors[b] and rng.random() < 0.8]
        names = tuple(f"c{place}" for place in range(1, 9))
        conditions = tuple(f"(distinct c{a + 1} c{b + 1})" for a, b in edges) + tuple(
            f"(and (<= 1 {n}) (<= {n} 3))" for n in names
        )
        yield Puzzle(
            f"coloring-{number}",
            "coloring",
            "medium",
            "three colours for eight regions, neighbours different",
            names,
            conditions,
            tuple(colors),
        )
    for number in range(1, 4):
        weights = [rng.randrange(11, 90) for _ in range(9)]
        chosen = next(pick for pick in sorted(product((0, 1), repeat=9), key=lambda _: rng.random()) if sum(pick) == 4)
        goal = sum(weight for weight, here in zip(weights, chosen, strict=True) if here)
        names = tuple(f"p{place}" for place in range(1, 10))
        total = "(+ " + " ".join(f"(* {weight} {name})" for weight, name in zip(weights, names, strict=True)) + ")"
        conditions = (f"(= {total} {goal})", *(f"(or (= {name} 0) (= {name} 1))" for name in names))
        yield Puzzle(
            f"parcels-{number}",
            "parcels",
            "easy",
            f"parcels (1 taken, 0 left) that weigh {goal} together",
            names,
            conditions,
            chosen,
        )
