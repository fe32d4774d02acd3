"""One job at the desktop: what is asked, the files it starts with, what must be true afterwards, and what its solution needs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from .hands import Hands

HOME = "/home/ada"
DOCUMENTS = f"{HOME}/Documents"
Want = dict[str, Any]


@dataclass
class Job:
    """A job as its family makes it."""

    prompt: str
    files: dict[str, str | bytes]
    wants: list[Want]
    """What must be true afterwards, see `wanted.py`; nothing of it is true at the start."""
    plan: dict[str, Any] = field(default_factory=dict)
    """What the solution needs to know."""
    folders: tuple[str, ...] = ()
    """Folders that are empty at the start."""


@dataclass(frozen=True)
class Family:
    """Jobs of one kind: how one is made from a seed and a level, and how it is played."""

    make: Callable[[Random, int], Job]
    play: Callable[[Hands, dict[str, Any]], Awaitable[None]]


# -- people, places and papers that jobs are made of -------------------------------------------------------------------

PEOPLE = ("Marta Kern", "Jonas Weil", "Priya Nair", "Tomas Hadley", "Lena Brandt", "Oskar Lund", "Ines Duarte", "Ruth Calder")
TOWNS = ("Aldermoor", "Brockfield", "Castleby", "Dunmere", "Eastwick", "Farnholt", "Grantley", "Hexbridge")
GOODS = ("copper wire", "oak boards", "paint", "hinges", "roof tiles", "glass panes", "screws", "insulation")
TOPICS = ("budget", "travel", "safety", "hiring", "stock", "training", "energy", "audit")


def town_of(rng: Random, level: int) -> str:
    """A town that no other level of the family has, so that no two jobs are asked in the same words."""
    return TOWNS[(level * 3 + rng.randrange(2)) % len(TOWNS)]


def background(rng: Random) -> dict[str, str]:
    """Papers that lie around on every desktop and that no job is about."""
    files: dict[str, str] = {}
    for topic in rng.sample(TOPICS, 4):
        person, town = rng.choice(PEOPLE), rng.choice(TOWNS)
        files[f"{DOCUMENTS}/minutes-{topic}.txt"] = (
            f"Minutes: {topic}\nPresent: {person}, Ada Quist\nPlace: {town}\n\nNext meeting in {rng.randrange(2, 9)} weeks.\n"
        )
    files[f"{HOME}/Music/playlist.m3u"] = "".join(f"track{rng.randrange(100, 999)}.ogg\n" for _ in range(5))
    files[f"{DOCUMENTS}/addresses.csv"] = "name,town\n" + "".join(
        f"{person},{rng.choice(TOWNS)}\n" for person in rng.sample(PEOPLE, 5)
    )
    return files


def text_is(path: str, text: str) -> Want:
    """A file with exactly this text; white space at its end does not count."""
    return {"kind": "text", "path": path, "text": text}


def gone(path: str) -> Want:
    """There is nothing at this path any more."""
    return {"kind": "gone", "path": path}


def all_of(*wants: Want) -> Want:
    """One want of several parts, which counts only when every part is met."""
    return {"kind": "all", "wants": list(wants)}
