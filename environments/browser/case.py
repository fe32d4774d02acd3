"""One errand: what is asked, the world it is asked in, what must be true afterwards, and the facts that its solution needs."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from .records import Row
from .seeds import HOSTS, PASSWORDS, PERSON, Start, make_start


@dataclass
class Case:
    """An errand as its family makes it."""

    title: str
    prompt: str
    start: Start
    wants: list[Row]
    """Changes that must have happened; see `wanted.py`."""
    plan: dict[str, Any] = field(default_factory=dict)
    """What the solution needs to know."""
    outcome: Row = field(default_factory=lambda: {"result": "Done"})
    """What must be filed at the desk."""
    suite: Row = field(default_factory=dict)
    """Seed data of the firm's sites, by app; see `office.py`."""


def begin(rng: Random) -> Start:
    return make_start(rng)


def access(*sites: str) -> str:
    """Where the sites are and how to sign in, as a person would write it down."""
    words = [f"http://{HOSTS[site]} (user name {PERSON['login']}, password {PASSWORDS[site]})" for site in sites]
    return "Access: " + "; ".join(words) + "."


def added(app: str, table: str, have: Row | None = None, **find: Any) -> Row:
    """A row that must have been added: `find` says which one, `have` what else must be right about it."""
    return {"app": app, "table": table, "kind": "added", "find": find, "have": have or {}}


def changed(app: str, table: str, number: int | str, **have: Any) -> Row:
    """A row that must have been changed to this."""
    return {"app": app, "table": table, "kind": "changed", "find": {"id": number}, "have": have}


def removed(app: str, table: str, number: int) -> Row:
    """A row that must be gone."""
    return {"app": app, "table": table, "kind": "removed", "find": {"id": number}, "have": {}}


def same(want: int, column: str) -> Row:
    """The value of a column in the row that another want found."""
    return {"same": [want, column]}
