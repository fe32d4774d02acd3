"""A job: what lies in /inbox, what is asked, what the checks need to know, and how a person would do it with Python."""

from dataclasses import dataclass, field
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
TOWNS = ("Antwerp", "Bergen", "Cork", "Dresden", "Espoo", "Faro", "Ghent", "Halle", "Innsbruck", "Jena", "Kassel", "Leiden")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


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
