"""The chores: for each skill a file of a few lines, a sentence that asks, the right lines, and a command that makes them.

Skills are of graded difficulty for who types the result: copying three words is easy, adding up numbers is not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

WORDS = (
    *("ant", "bee", "cat", "cow", "crab", "deer", "dog", "duck", "eel", "elk", "fox", "frog", "goat", "hare", "hawk", "hen"),
    *(
        "ibis",
        "jay",
        "kiwi",
        "lamb",
        "lark",
        "lion",
        "lynx",
        "mole",
        "moth",
        "mule",
        "newt",
        "orca",
        "owl",
        "pig",
        "pony",
        "puma",
    ),
    *("rat", "seal", "sloth", "swan", "tick", "toad", "vole", "wasp", "wolf", "wren", "yak", "zebra"),
)
NAMES = (
    *(
        "apple",
        "bread",
        "cake",
        "corn",
        "date",
        "fig",
        "grape",
        "honey",
        "jam",
        "kale",
        "leek",
        "lemon",
        "lime",
        "mango",
        "melon",
    ),
    *("nut", "oat", "olive", "onion", "peach", "pear", "plum", "rice", "salt", "soup", "tea"),
)


@dataclass(frozen=True, slots=True)
class Chore:
    ask: str
    """What is asked, with `{source}` and `{target}`."""
    source: str
    target: str
    lines: list[str]
    """What the source holds."""
    result: list[str]
    """What the target shall hold."""
    command: str
    """Makes the one from the other, with `{source}` and `{target}`."""

    @property
    def asked(self) -> str:
        return self.filled(self.ask)

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    def by_command(self) -> list[str]:
        return [self.filled(self.command)]

    def by_reading(self) -> list[str]:
        write = "echo" if len(self.result) == 1 else r"printf '%s\n'"
        return [f"cat {self.source}", f"{write} {' '.join(self.result)} > {self.target}"]

    def filled(self, text: str) -> str:
        return text.replace("{source}", self.source).replace("{target}", self.target)


def chore(rng: Random, asks: tuple[str, ...], lines: list[str], result: list[str], command: str) -> Chore:
    source, target = rng.sample(NAMES, 2)
    return Chore(rng.choice(asks), f"/data/{source}", f"/data/{target}", lines, result, command)


def words(rng: Random, fewest: int, most: int) -> list[str]:
    return rng.sample(WORDS, rng.randint(fewest, most))


def numbers(rng: Random, count: int, largest: int) -> list[int]:
    return rng.sample(range(1, largest), count)


def copy(rng: Random) -> Chore:
    lines = words(rng, 2, 4)
    return chore(
        rng, ("Copy {source} to {target}.", "Make a copy of {source} at {target}."), lines, lines, "cp {source} {target}"
    )


def first(rng: Random) -> Chore:
    lines = words(rng, 3, 6)
    asks = ("Put the first line of {source} into {target}.", "Write line 1 of {source} to {target}.")
    return chore(rng, asks, lines, lines[:1], "head -n 1 {source} > {target}")


def last(rng: Random) -> Chore:
    lines = words(rng, 3, 6)
    asks = ("Put the last line of {source} into {target}.", "Write the final line of {source} to {target}.")
    return chore(rng, asks, lines, lines[-1:], "tail -n 1 {source} > {target}")


def pick(rng: Random) -> Chore:
    lines = words(rng, 4, 6)
    place = rng.randint(2, len(lines) - 1)
    asks = (f"Put line {place} of {{source}} into {{target}}.", f"Write only line {place} of {{source}} to {{target}}.")
    return chore(rng, asks, lines, [lines[place - 1]], f"sed -n {place}p {{source}} > {{target}}")


def count(rng: Random) -> Chore:
    lines = words(rng, 2, 9)
    asks = ("Count the lines of {source} into {target}.", "How many lines has {source}? Write the number to {target}.")
    return chore(rng, asks, lines, [str(len(lines))], "wc -l < {source} > {target}")


def tally(rng: Random) -> Chore:
    wanted, *others = words(rng, 3, 3)
    times = rng.randint(1, 5)
    lines = [wanted] * times + rng.choices(others, k=rng.randint(1, 4))
    rng.shuffle(lines)
    asks = (
        f"How often is {wanted} in {{source}}? Write the number to {{target}}.",
        f"Count {wanted} in {{source}} into {{target}}.",
    )
    return chore(rng, asks, lines, [str(times)], f"grep -c {wanted} {{source}} > {{target}}")


def largest(rng: Random) -> Chore:
    found = numbers(rng, rng.randint(3, 5), 100)
    asks = ("Write the largest number of {source} to {target}.", "Put the highest number of {source} into {target}.")
    return chore(rng, asks, [str(n) for n in found], [str(max(found))], "sort -n {source} | tail -n 1 > {target}")


def smallest(rng: Random) -> Chore:
    found = numbers(rng, rng.randint(3, 5), 100)
    asks = ("Write the smallest number of {source} to {target}.", "Put the lowest number of {source} into {target}.")
    return chore(rng, asks, [str(n) for n in found], [str(min(found))], "sort -n {source} | head -n 1 > {target}")


def total(rng: Random) -> Chore:
    found = numbers(rng, rng.randint(2, 3), 30)
    asks = ("Add the numbers of {source} into {target}.", "Write the sum of {source} to {target}.")
    command = "awk '{s+=$1} END {print s}' {source} > {target}"
    return chore(rng, asks, [str(n) for n in found], [str(sum(found))], command)


def sort(rng: Random) -> Chore:
    lines = words(rng, 3, 4)
    asks = ("Sort {source} into {target}.", "Write the lines of {source} in order to {target}.")
    return chore(rng, asks, lines, sorted(lines), "sort {source} > {target}")


def reverse(rng: Random) -> Chore:
    lines = words(rng, 3, 4)
    asks = ("Reverse the lines of {source} into {target}.", "Write {source} from last line to first to {target}.")
    return chore(rng, asks, lines, lines[::-1], "tac {source} > {target}")


def swap(rng: Random) -> Chore:
    lines = words(rng, 3, 4)
    old, new = rng.choice(lines), rng.choice([word for word in WORDS if word not in lines])
    result = [new if line == old else line for line in lines]
    asks = (f"Write {{source}} with {new} for {old} to {{target}}.", f"Replace {old} by {new} in {{source}}, into {{target}}.")
    return chore(rng, asks, lines, result, f"sed s/{old}/{new}/ {{source}} > {{target}}")


SKILLS: dict[str, Callable[[Random], Chore]] = {
    "copy": copy,
    "first": first,
    "last": last,
    "pick": pick,
    "count": count,
    "tally": tally,
    "largest": largest,
    "smallest": smallest,
    "total": total,
    "sort": sort,
    "reverse": reverse,
    "swap": swap,
}
