"""Small integer formulas in SMT-LIB form: read by our own grammar, evaluated exactly here, or given to Z3.

What the agent writes is never passed on as text. It is read into a tree with a short list of operations, and Z3 gets what we
print from the tree: no command of the agent can reach the solver.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sandlot import World

MAX_CHARS = 4_000
MAX_DEPTH = 60
MAX_BITS = 4_000
Z3_S = 20
ARITHMETIC = {"+": (1, 99), "-": (1, 99), "*": (1, 99), "div": (2, 2), "mod": (2, 2), "abs": (1, 1)}
LOGIC = {"and": (1, 99), "or": (1, 99), "not": (1, 1), "=>": (2, 2)}
COMPARISON = {"=": (2, 2), "<": (2, 2), "<=": (2, 2), ">": (2, 2), ">=": (2, 2), "distinct": (2, 99)}
TOKEN = re.compile(r"\s*(?:([()])|([^\s()]+))")

Tree = "str | int | list"


class NotSmtError(ValueError):
    """Why a text is no formula of the grammar."""


def read_formula(text: str, names: Sequence[str], *, boolean: bool = True):
    """The tree of one formula over these names; `NotSmtError` says what is wrong."""
    if len(text) > MAX_CHARS or not text.isascii():
        raise NotSmtError(f"it has {len(text):,} characters, at most {MAX_CHARS:,} of ASCII are read")
    tokens = [found[0] or found[1] for found in TOKEN.findall(text)]
    tree, place = _read(tokens, 0, 0)
    if place != len(tokens):
        raise NotSmtError("there is text after the formula")
    if _sort(tree, frozenset(names)) != ("Bool" if boolean else "Int"):
        raise NotSmtError("it is a number, not a condition" if boolean else "it is a condition, not a number")
    return tree


def _read(tokens: list[str], place: int, depth: int):
    if place >= len(tokens) or depth > MAX_DEPTH:
        raise NotSmtError("a bracket is missing" if depth <= MAX_DEPTH else "it is nested too deeply")
    if tokens[place] == ")":
        raise NotSmtError("there is a bracket too many")
    if tokens[place] != "(":
        word = tokens[place]
        return (int(word) if len(word) < 200 else _too_long()) if re.fullmatch(r"\d+", word) else word, place + 1
    items, place = [], place + 1
    while place < len(tokens) and tokens[place] != ")":
        item, place = _read(tokens, place, depth + 1)
        items.append(item)
    if place >= len(tokens):
        raise NotSmtError("a bracket is missing")
    return items, place + 1


def _too_long() -> int:
    raise NotSmtError("a number is too long")


def _sort(tree, names: frozenset[str]) -> str:
    """`Int` or `Bool`, after every operation was checked."""
    if isinstance(tree, int):
        return "Int"
    if isinstance(tree, str):
        if tree in {"true", "false"}:
            return "Bool"
        if tree not in names:
            raise NotSmtError(f"`{tree[:30]}` is not a variable; there are: {', '.join(sorted(names))}")
        return "Int"
    if not tree or not isinstance(tree[0], str):
        raise NotSmtError("a bracket begins without an operation")
    sorts = [_sort(part, names) for part in tree[1:]]
    if tree[0] == "ite" and len(sorts) == 3 and sorts[0] == "Bool" and sorts[1] == sorts[2]:
        return sorts[1]
    for table, inside, result in ((ARITHMETIC, "Int", "Int"), (COMPARISON, "Int", "Bool"), (LOGIC, "Bool", "Bool")):
        if tree[0] in table and table[tree[0]][0] <= len(sorts) <= table[tree[0]][1] and set(sorts) == {inside}:
            return result
    raise NotSmtError(f"`{tree[0][:30]}` is not understood here")


def printed(tree) -> str:
    """A tree as SMT-LIB."""
    return str(tree) if not isinstance(tree, list) else f"({' '.join(printed(part) for part in tree)})"


def value_of(tree, values: Mapping[str, int]):
    """The exact value of a formula; `NotSmtError` if it divides by zero or grows too large."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return {"true": True, "false": False}[tree] if tree in {"true", "false"} else values[tree]
    if tree[0] == "ite":
        return value_of(tree[2 if value_of(tree[1], values) else 3], values)
    parts = [value_of(part, values) for part in tree[1:]]
    if any(abs(part).bit_length() > MAX_BITS for part in parts):
        raise NotSmtError("a number grows too large")
    return OPERATIONS[tree[0]](parts)


def _product(parts: Sequence[int]) -> int:
    product = 1
    for part in parts:
        product *= part
    return product


def _quotient(parts: Sequence[int]) -> int:
    """Division of SMT-LIB: the remainder is never negative."""
    if parts[1] == 0:
        raise NotSmtError("it divides by zero")
    return parts[0] // parts[1] if parts[1] > 0 else -(parts[0] // -parts[1])


OPERATIONS = {
    "+": sum,
    "-": lambda parts: -parts[0] if len(parts) == 1 else parts[0] - sum(parts[1:]),
    "*": _product,
    "div": _quotient,
    "mod": lambda parts: parts[0] - parts[1] * _quotient(parts),
    "abs": lambda parts: abs(parts[0]),
    "and": all,
    "or": any,
    "not": lambda parts: not parts[0],
    "=>": lambda parts: not parts[0] or parts[1],
    "distinct": lambda parts: len(set(parts)) == len(parts),
    "=": lambda parts: parts[0] == parts[1],
    "<": lambda parts: parts[0] < parts[1],
    "<=": lambda parts: parts[0] <= parts[1],
    ">": lambda parts: parts[0] > parts[1],
    ">=": lambda parts: parts[0] >= parts[1],
}
"""What each operation of the grammar computes."""


def read_values(text: str, names: Sequence[str]) -> dict[str, int]:
    """`x = 3` on lines of their own (or after commas): each name once. `NotSmtError` if one is missing or comes twice."""
    found: dict[str, int] = {}
    for piece in re.split(r"[\n,;]", text[:MAX_CHARS]):
        if not piece.strip():
            continue
        match = re.fullmatch(r"\s*([A-Za-z]\w*)\s*=\s*(-?\d{1,60})\s*", piece)
        if match is None or match[1] not in names or match[1] in found:
            raise NotSmtError(
                f"{piece.strip()[:40]!r} is not one of: {', '.join(f'{name} = NUMBER' for name in names)}, each once"
            )
        found[match[1]] = int(match[2])
    missing = [name for name in names if name not in found]
    if missing:
        raise NotSmtError(f"no value for {', '.join(missing)}")
    return found


@dataclass(frozen=True)
class Loop:
    """A loop over integers: `while guard: variables = body`."""

    name: str
    level: str
    said: str
    start: str
    guard: str
    body: dict[str, str]
    end: str
    invariant: str
    """The golden solution's invariant."""
    fixed: tuple[str, ...] = ()
    """Variables that the loop does not change."""

    @property
    def names(self) -> tuple[str, ...]:
        """All variables."""
        return (*self.body, *self.fixed)

    def questions(self, invariant) -> dict[str, str]:
        """Three scripts for Z3; each must have no solution."""
        inv = printed(invariant)
        after = printed(
            _replaced(invariant, {name: read_formula(text, self.names, boolean=False) for name, text in self.body.items()})
        )
        facts = {
            "it holds at the start": (self.start, f"(not {inv})"),
            "one turn keeps it": (inv, self.guard, f"(not {after})"),
            "at the end it gives the result": (inv, f"(not {self.guard})", f"(not {self.end})"),
        }
        declared = "".join(f"(declare-const {name} Int)\n" for name in self.names)
        return {
            what: declared + "".join(f"(assert {each})\n" for each in parts) + "(check-sat)\n" for what, parts in facts.items()
        }


def _replaced(tree, by: Mapping[str, object]):
    if isinstance(tree, list):
        return [tree[0], *(_replaced(part, by) for part in tree[1:])]
    return by.get(tree, tree) if isinstance(tree, str) else tree


async def has_no_solution(world: World, script: str) -> bool | None:
    """What Z3 says: True for `unsat`, False for `sat`, None if it does not know in time. `RuntimeError` if it did not run."""
    done = await world.exec(f"exec z3 -smt2 -T:{Z3_S} -in", stdin=script, check=False, output_bytes=10_000)
    answer = done.stdout.strip()
    if answer not in {"unsat", "sat", "unknown", "timeout"}:
        raise RuntimeError(f"z3 did not run ({done.code}): {done.stdout[:200]} {done.stderr[:200]}")
    return {"unsat": True, "sat": False}.get(answer)
