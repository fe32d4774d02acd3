"""A job: what lies in /inbox, what is asked, what the checks need to know, and how a person would do it with Python."""

from calendar import monthrange
from dataclasses import dataclass, field
from datetime import date
from random import Random
from typing import Any

from sandlot import Task

PEOPLE = (
    *(
        "Amara Obi",
        "Bence Kovacs",
        "Carla Mendes",
        "Dmitri Sokolov",
        "Elif Aydin",
        "Farah Nasser",
        "Goran Petrovic",
        "Hanna Lund",
    ),
    *("Ines Rocha", "Jonas Weber", "Keiko Tanaka", "Liam Byrne", "Marta Nowak", "Nadia Haddad", "Oskar Berg", "Priya Raman"),
)
MEN = ("Bence", "Dmitri", "Goran", "Jonas", "Liam", "Oskar")
TOWNS = ("Antwerp", "Bergen", "Cork", "Dresden", "Espoo", "Faro", "Ghent", "Halle", "Innsbruck", "Jena", "Kassel", "Leiden")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

HOLIDAYS = ((1, 1), (5, 1), (12, 25), (12, 26))


def title_of(name: str) -> str:
    return "Mr" if name.split(maxsplit=1)[0] in MEN else "Ms"


def working_day(rng: Random, year: int, month: int) -> date:
    """A day on which banks and offices are open."""
    days = [date(year, month, number + 1) for number in range(monthrange(year, month)[1])]
    return rng.choice([day for day in days if day.weekday() < 5 and (day.month, day.day) not in HOLIDAYS])


@dataclass(frozen=True, slots=True)
class Job:
    prompt: str
    files: dict[str, bytes]
    """Written by setup, below /inbox; they stay as they are."""
    golden: str
    """A Python program for the sandbox; it works from the files in /inbox."""
    key: dict[str, Any] = field(default_factory=dict)
    level: str = "medium"

    def task(self, name: str, family: str, split: str) -> Task:
        return Task(
            name,
            prompt=self.prompt.strip(),
            data={"files": self.files},
            key=self.key | {"golden": self.golden, "inbox": sorted(self.files)},
            rubric=family,
            split=split,
            tags=(family, self.level),
        )


def check(
    name: str, ref: str, points: float, /, *, needs: tuple[str, ...] = (), tag: str = "work", gate: bool = False, **args: Any
) -> dict[str, Any]:
    """One check of a rubric. `ref` without a colon is a ready check of Sandlot."""
    found: dict[str, Any] = {
        "kind": "python",
        "id": name,
        "ref": ref if ":" in ref else f"sandlot:{ref}",
        "args": args,
        "points": points,
    }
    found |= {"tags": [tag]}
    return found | ({"requires": list(needs)} if needs else {}) | ({"gate": True} if gate else {})
