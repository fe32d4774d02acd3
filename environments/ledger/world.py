"""Setting a task up: its books as a SQLite file."""

import sqlite3

from sandlot import Task, World

from .books import ACCOUNTS, BOOKS, SCHEMA


async def setup(world: World, task: Task) -> None:
    db = sqlite3.connect(":memory:")
    db.executescript(SCHEMA)
    db.executemany("insert into accounts values (?, ?, ?)", [(code, *words) for code, words in ACCOUNTS.items()])
    for month, rates in task.data["rates"].items():
        status = "open" if month == task.data["month"] else "closed"
        db.execute("insert into months values (?, ?)", [month, status])
        db.executemany("insert into rates values (?, ?, ?)", [(month, currency, micros) for currency, micros in rates.items()])
    for number, entry in enumerate(task.data["entries"], start=1):
        row = [number, entry["date"], entry["party"], entry["reference"], entry["memo"]]
        db.execute("insert into entries values (?, ?, ?, ?, ?, null)", row)
        db.executemany("insert into lines values (?, ?, ?)", [(number, *line) for line in entry["lines"].items()])
    for number, line in enumerate(task.data["bank"], start=1):
        db.execute("insert into bank_lines values (?, ?, ?, ?, ?)", [number, *line.values()])
    db.commit()
    await world.write(BOOKS, db.serialize())
    db.close()
