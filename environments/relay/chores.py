"""The halves of a job: for each a sentence that asks, the right lines, and a command that makes them."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

WORDS = ("ant", "bee", "cat", "cow", "deer", "dog", "duck", "elk", "fox", "frog", "goat", "hare", "hen", "lion", "mole", "owl")
NAMES = ("apple", "bread", "cake", "corn", "date", "fig", "grape", "honey", "jam", "kale", "leek", "lemon", "lime", "mango")


@dataclass(frozen=True, slots=True)
class Half:
    name: str
    asks: tuple[str, ...]
    """What is asked, with `{source}` and `{target}`."""
    done: Callable[[list[str]], list[str]]
    """The lines of the target, from those of the source."""
    line: str
    """A command that makes the one from the other, with `{source}` and `{target}`."""

    def asked(self, rng: Random, source: str, target: str) -> str:
        return rng.choice(self.asks).format(source=source, target=target)

    def command(self, source: str, target: str) -> str:
        return self.line.format(source=source, target=target)


def file_names(rng: Random) -> list[str]:
    """Three different paths: the source, the file between the halves, the result."""
    return [f"/data/{name}" for name in rng.sample(NAMES, 3)]


_FIRST = (
    Half("copy", ("Copy {source} to {target}.", "Make a copy of {source} at {target}."), list, "cp {source} {target}"),
    Half(
        "sort",
        ("Sort {source} into {target}.", "Write the lines of {source} in order to {target}."),
        sorted,
        "sort {source} > {target}",
    ),
    Half(
        "reverse",
        ("Reverse the lines of {source} into {target}.", "Write {source} from last line to first to {target}."),
        lambda lines: lines[::-1],
        "tac {source} > {target}",
    ),
)
_SECOND = (
    Half(
        "first",
        ("Put the first line of {source} into {target}.", "Write line 1 of {source} to {target}."),
        lambda lines: lines[:1],
        "head -n 1 {source} > {target}",
    ),
    Half(
        "last",
        ("Put the last line of {source} into {target}.", "Write the final line of {source} to {target}."),
        lambda lines: lines[-1:],
        "tail -n 1 {source} > {target}",
    ),
    Half(
        "count",
        ("Count the lines of {source} into {target}.", "How many lines has {source}? Write the number to {target}."),
        lambda lines: [str(len(lines))],
        "wc -l < {source} > {target}",
    ),
)
FIRST = {half.name: half for half in _FIRST}
SECOND = {half.name: half for half in _SECOND}
