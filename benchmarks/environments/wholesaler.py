"""A large tool environment: 50 tools and 500 tasks over a database of 2,000 rows, all of it generated.

Ten tables with five tools each. A task asks for a change of one row and for a figure; the whole database is compared at the end,
so a change of anything else loses. The state of every rollout is the whole database: what an audit of such an environment costs
in time and memory is what `make bench NAME=audit` measures.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import Any, Literal

from sandlot import Agent, Environment, Evidence, Limits, Task, ToolError, World

ROWS = 200
TASKS = 500
SHOWN = 20
TABLES = {
    "customer": ("active", "on hold", "closed"),
    "supplier": ("approved", "on trial", "barred"),
    "product": ("for sale", "sold out", "withdrawn"),
    "order": ("new", "picked", "cancelled"),
    "invoice": ("sent", "paid", "disputed"),
    "shipment": ("planned", "under way", "delivered"),
    "warehouse": ("open", "full", "shut"),
    "vehicle": ("free", "rented", "in repair"),
    "employee": ("at work", "on leave", "retired"),
    "complaint": ("received", "answered", "rejected"),
}
TOWNS = ("Aalen", "Brest", "Cadiz", "Delft", "Espoo", "Faro", "Ghent", "Harju")
NAMES = ("Abel", "Bruns", "Cervi", "Duval", "Ekholm", "Ferrer", "Grau", "Holm", "Ivens", "Jansen", "Kolar", "Lund")


@dataclass
class Row:
    """One row of a table."""

    id: str
    name: str
    town: str
    status: str
    cents: int
    since: str
    belongs_to: str
    notes: list[str] = field(default_factory=list)


@dataclass
class Database:
    """All tables: rows by id."""

    tables: dict[str, dict[str, Row]] = field(default_factory=dict)

    def copy(self) -> "Database":
        """The same rows, to be changed."""
        rows = {
            table: {name: replace(row, notes=[*row.notes]) for name, row in kept.items()} for table, kept in self.tables.items()
        }
        return Database(rows)


env = Environment(
    "wholesaler",
    description="Look up and change rows of a wholesaler's database, and report a figure.",
    system="You keep the database of a wholesaler. Change only what you are asked to. End with the figure alone.",
    limits=Limits(turns=12),
    state=Database,
)


@cache
def base() -> Database:
    """The database before anything was changed."""
    rng = Random(7)
    names = list(TABLES)
    return Database({table: {row.id: row for row in _rows(table, names, rng)} for table in names})


def _rows(table: str, names: list[str], rng: Random) -> Iterator[Row]:
    for number in range(ROWS):
        other = rng.choice(names)
        yield Row(
            id=id_of(table, number),
            name=f"{rng.choice(NAMES)} & {rng.choice(NAMES)} {rng.randrange(1000):03}",
            town=rng.choice(TOWNS),
            status=rng.choice(TABLES[table]),
            cents=rng.randrange(1_000, 9_000_000),
            since=f"20{rng.randrange(10, 26)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
            belongs_to=id_of(other, rng.randrange(ROWS)),
            notes=[f"checked by {rng.choice(NAMES)}"] * rng.randrange(3),
        )


def id_of(table: str, number: int) -> str:
    """The id of a row."""
    return f"{table[:3].upper()}-{number:04}"


@env.tasks
def tasks(rng: Random) -> Iterator[Task]:
    names = list(TABLES)
    for number in range(TASKS):
        table = names[number % len(names)]
        row = base().tables[table][id_of(table, rng.randrange(ROWS))]
        owner = row_of(base(), row.belongs_to)
        status = rng.choice([each for each in TABLES[table] if each != row.status])
        yield Task(
            f"task-{number:03}",
            prompt=f"Set the status of the {table} `{row.id}` to `{status}`. Then give the cents of the row it belongs to.",
            key={"table": table, "row": row.id, "status": status, "owner": owner.id, "golden": str(owner.cents)},
        )


def row_of(database: Database, name: str) -> Row:
    """A row of any table, by its id."""
    return next(rows[name] for rows in database.tables.values() if name in rows)


@env.setup
async def fill(world: World, task: Task) -> None:  # noqa: ARG001 - the shape of every setup
    world.state = base().copy()


# -- five tools for every table ----------------------------------------------------------------------------------------


def _found(world: World, table: str, name: str) -> Row:
    rows = world.state.tables[table]
    if name not in rows:
        raise ToolError(f"no {table} `{name[:40]}`; ids look like `{id_of(table, 0)}`")
    return rows[name]


def _line(row: Row) -> str:
    return f"{row.id} {row.name}, {row.town}: {row.status}, {row.cents} cents, since {row.since}, belongs to {row.belongs_to}"


def _listing(table: str) -> Callable[..., Any]:
    async def listing(world: World, town: Literal[TOWNS], status: str) -> str:  # pyright: ignore[reportInvalidTypeForm]
        found = [_line(row) for row in world.state.tables[table].values() if row.town == town and row.status == status]
        return "\n".join(found[:SHOWN]) or "None."

    listing.__doc__ = f"The first {SHOWN} rows of `{table}` in a town and with a status."
    return listing


def _reading(table: str) -> Callable[..., Any]:
    async def reading(world: World, row: str) -> str:
        found = _found(world, table, row)
        return f"{_line(found)}\nNotes: {'; '.join(found.notes) or 'none'}"

    reading.__doc__ = f"One row of `{table}` by its id, with its notes."
    return reading


def _counting(table: str) -> Callable[..., Any]:
    async def counting(world: World, status: Literal[TABLES[table]]) -> str:  # pyright: ignore[reportInvalidTypeForm]
        return str(sum(row.status == status for row in world.state.tables[table].values()))

    counting.__doc__ = f"How many rows of `{table}` have a status."
    return counting


def _setting(table: str) -> Callable[..., Any]:
    async def setting(world: World, row: str, status: Literal[TABLES[table]]) -> str:  # pyright: ignore[reportInvalidTypeForm]
        found = _found(world, table, row)
        found.status = status
        return f"{found.id} is now {found.status}."

    setting.__doc__ = f"Change the status of one row of `{table}`."
    return setting


def _noting(table: str) -> Callable[..., Any]:
    async def noting(world: World, row: str, text: str) -> str:
        found = _found(world, table, row)
        if not 0 < len(text) <= 200:
            raise ToolError(f"a note has 1 to 200 characters; this one has {len(text)}")
        found.notes.append(text)
        return f"{found.id} has {len(found.notes)} notes."

    noting.__doc__ = f"Add a note to one row of `{table}`."
    return noting


MAKERS = {"list": _listing, "read": _reading, "count": _counting, "set_status_of": _setting, "add_note_to": _noting}
for _table in TABLES:
    for _verb, _make in MAKERS.items():
        _tool = _make(_table)
        _tool.__name__ = f"{_verb}_{_table}"
        env.tool(_tool)


# -- what is right -----------------------------------------------------------------------------------------------------


@env.check(points=2)
def only_the_row_was_changed(evidence: Evidence, task: Task) -> bool:
    """The database is as it was, but for the status that the task asks for."""
    table, row = task.key["table"], task.key["row"]
    wanted = dict(base().tables)
    wanted[table] = {**wanted[table], row: replace(wanted[table][row], status=task.key["status"])}
    return evidence.state.tables == wanted


@env.check(points=2)
def figure_is_right(evidence: Evidence, task: Task) -> bool:
    """The last message is the figure, and nothing else."""
    return evidence.answer.strip() == task.key["golden"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    row = row_of(base(), task.key["row"])
    await agent.call(f"read_{task.key['table']}", row=row.id)
    owner = next(table for table in TABLES if row.belongs_to.startswith(table[:3].upper()))
    await agent.call(f"set_status_of_{task.key['table']}", row=row.id, status=task.key["status"])
    await agent.call(f"read_{owner}", row=row.belongs_to)
    await agent.say(task.key["golden"])
