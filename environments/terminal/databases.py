"""A database in a file: questions to it, and a change of its tables that must lose nothing."""

import json
from random import Random

from .job import PEOPLE, WORDS, Job, token
from .wanted import runs

MAKE = """python3 - <<'END'
import sqlite3
db = sqlite3.connect("{path}")
db.executescript(open("{path}.sql").read())
db.close()
END
rm {path}.sql"""
QUERY = """/srv/db/hire.db is the SQLite database of a tool hire (`sqlite3` or Python's sqlite3 opens it; the schema is in
it). Write /out/report.json, one object:

- `overdue`: ids of all rentals that are not returned and were due before {day}, sorted;
- `debt`: customer name -> cents owed: for each returned rental the price per day times the days from start to return (a day
  that was begun counts: at least 1), less what was paid; only customers who owe something;
- `idle`: names of tools that were never rented in {year}, by start date, sorted;
- `best`: the name of the customer with the most rentals of different tools; of several, the one first in byte order.

Do not change the database."""
MIGRATE = """/srv/db/staff.db (SQLite) has a table `people` in which phone numbers stand in one column, separated by commas.
Change the database in place:

- a new table `phones` with the columns `person` (references people(id)), `number` and `position` (from 1, in the order they
  stood), with the primary key (person, position); no two rows may have the same `number`: enforce that with a unique index
  named `one_number`;
- numbers are stored without blanks, dashes and brackets, with `+{code}` in place of a leading 0;
- if several people have the same number, it stays with the person with the lowest id; the others lose it, and positions
  have no gaps;
- the column `phone` of `people` is gone, every other column and row is as it was, `PRAGMA user_version` is {version}."""
DUMP = """python3 - <<'END'
import json, sqlite3
db = sqlite3.connect("file:/srv/db/staff.db?mode=ro", uri=True)
{ask}
END"""


def hire_report(rng: Random) -> Job:
    customers = rng.sample(PEOPLE, 6)
    tools = {name: rng.randrange(200, 3000) for name in rng.sample(WORDS, 8)}
    year = rng.choice([2024, 2025])
    day = f"{year}-{rng.randrange(5, 9):02}-15"
    rentals: list[tuple[int, int, int, str, str, str | None, int]] = []
    for number in range(1, 61):
        tool = rng.randrange(len(tools) - 1) if rng.random() < 0.9 else rng.randrange(len(tools))
        start_year = year if tool != 2 else year - 1
        month, first = rng.randrange(1, 12), rng.randrange(1, 20)
        start, due = f"{start_year}-{month:02}-{first:02}", f"{start_year}-{month:02}-{first + rng.randrange(1, 8):02}"
        back = None if rng.random() < 0.3 else f"{start_year}-{month:02}-{first + rng.randrange(0, 9):02}"
        days = max(1, int(back[-2:]) - first) if back else 0
        owed = days * list(tools.values())[tool]
        paid = owed if rng.random() < 0.6 else rng.randrange(0, owed + 1)
        rentals.append((number, rng.randrange(6), tool, start, due, back, paid))
    names, prices = list(tools), list(tools.values())
    debt: dict[str, int] = {}
    seen: dict[str, set[int]] = {}
    for _, who, tool, start, _due, back, paid in rentals:
        seen.setdefault(customers[who], set()).add(tool)
        if back:
            owed = max(1, int(back[-2:]) - int(start[-2:])) * prices[tool] - paid
            debt[customers[who]] = debt.get(customers[who], 0) + owed
    most = max(len(each) for each in seen.values())
    value = {
        "overdue": [r[0] for r in rentals if r[5] is None and r[4] < day],
        "debt": {name: cents for name, cents in debt.items() if cents > 0},
        "idle": sorted(
            name for place, name in enumerate(names) if not any(r[2] == place and r[3][:4] == str(year) for r in rentals)
        ),
        "best": min(name for name, each in seen.items() if len(each) == most),
    }
    shuffled = rentals[:]
    rng.shuffle(shuffled)
    sql = [
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT);",
        "CREATE TABLE tools (id INTEGER PRIMARY KEY, name TEXT, cents_per_day INTEGER);",
    ]
    sql += ["CREATE TABLE rentals (id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customers, tool INTEGER REFERENCES tools,"]
    sql += ["  start TEXT, due TEXT, returned TEXT, paid_cents INTEGER);", "BEGIN;"]
    sql += [f"INSERT INTO customers VALUES ({place}, '{name}');" for place, name in enumerate(customers)]
    sql += [f"INSERT INTO tools VALUES ({place}, '{name}', {price});" for place, (name, price) in enumerate(tools.items())]
    for number, who, tool, start, due, back, paid in shuffled:
        ended = f"'{back}'" if back else "NULL"
        sql.append(f"INSERT INTO rentals VALUES ({number}, {who}, {tool}, '{start}', '{due}', {ended}, {paid});")
    solution = f"""mkdir -p /out; cat > /tmp/report.py <<'END'
import json, sqlite3
db = sqlite3.connect("file:/srv/db/hire.db?mode=ro", uri=True)
ask = lambda sql: db.execute(sql).fetchall()
owed = ask('''SELECT c.name, SUM(MAX(1, julianday(returned) - julianday(start)) * cents_per_day - paid_cents) FROM rentals r
JOIN customers c ON c.id = r.customer JOIN tools t ON t.id = r.tool WHERE returned IS NOT NULL GROUP BY c.id''')
report = {{
    "overdue": [row[0] for row in ask("SELECT id FROM rentals WHERE returned IS NULL AND due < '{day}' ORDER BY id")],
    "debt": {{name: round(cents) for name, cents in owed if cents > 0}},
    "idle": [row[0] for row in ask('''SELECT name FROM tools WHERE id NOT IN
        (SELECT tool FROM rentals WHERE start LIKE '{year}%') ORDER BY name''')],
    "best": ask('''SELECT c.name FROM rentals r JOIN customers c ON c.id = r.customer
        GROUP BY c.id ORDER BY COUNT(DISTINCT tool) DESC, c.name''')[0][0],
}}
json.dump(report, open("/out/report.json", "w"))
END
python3 /tmp/report.py && cat /out/report.json"""
    return Job(
        prompt=QUERY.format(day=day, year=year),
        files={"/srv/db/hire.db.sql": "\n".join([*sql, "COMMIT;"])},
        script=MAKE.format(path="/srv/db/hire.db"),
        wants=[{"kind": "json", "path": "/out/report.json", "value": value}],
        same=("/srv/db/hire.db",),
        solution=[solution],
    )


def split_phones(rng: Random) -> Job:
    code, version = rng.choice(["43", "49", "41"]), rng.randrange(2, 9)
    pool = [f"0{rng.randrange(100, 999)}{rng.randrange(10**5, 10**6)}" for _ in range(14)]
    people: list[tuple[int, str, str, str]] = []
    for number in range(1, 13):
        own = rng.sample(pool, rng.choice([0, 1, 1, 2, 3]))
        people.append((number * 3, rng.choice(PEOPLE), token(rng, 5), ", ".join(dressed(rng, each) for each in own)))
    taken: set[str] = set()
    phones: list[list[object]] = []
    for number, _, _, text in people:
        position = 0
        for each in filter(None, text.split(",")):
            plain = "".join(char for char in each if char.isdigit())
            whole = f"+{code}{plain[1:]}"
            if whole not in taken:
                taken.add(whole)
                position += 1
                phones.append([number, whole, position])
    sql = ["CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL, phone TEXT, room TEXT);", "BEGIN;"]
    sql += [f"INSERT INTO people VALUES ({number}, '{name}', '{phone}', '{room}');" for number, name, room, phone in people]
    rest = [[number, name, room] for number, name, room, _ in people]
    asks = {
        "phones": (
            "print(json.dumps(db.execute('SELECT person, number, position FROM phones ORDER BY person, position').fetchall()))",
            phones,
        ),
        "people": (
            """rows = db.execute("SELECT * FROM people ORDER BY id").fetchall()
names = [row[1] for row in db.execute("PRAGMA table_info(people)")]
db.execute("SELECT number FROM phones")
print(json.dumps([names, rows]))""",
            [["id", "name", "room"], rest],
        ),
        "rules": (
            """keys = [row[1] for row in db.execute("PRAGMA table_info(phones)") if row[5]]
unique = [row[2] for row in db.execute("PRAGMA index_list(phones)") if row[1] == "one_number"]
columns = [row[2] for row in db.execute("PRAGMA index_info(one_number)")]
aims = [row[2] for row in db.execute("PRAGMA foreign_key_list(phones)")]
print(json.dumps([sorted(keys), unique, columns, aims, db.execute("PRAGMA user_version").fetchone()]))""",
            [["person", "position"], [1], ["number"], ["people"], [version]],
        ),
    }
    solution = f"""cat > /tmp/split.py <<'END'
import sqlite3
db = sqlite3.connect("/srv/db/staff.db")
db.executescript('''CREATE TABLE phones (person INTEGER REFERENCES people(id), number TEXT, position INTEGER,
PRIMARY KEY (person, position));
CREATE UNIQUE INDEX one_number ON phones (number);''')
for person, text in db.execute("SELECT id, phone FROM people ORDER BY id").fetchall():
    position = 0
    for each in (text or "").split(","):
        plain = "".join(char for char in each if char.isdigit())
        if plain and not db.execute("SELECT 1 FROM phones WHERE number = ?", ("+{code}" + plain[1:],)).fetchone():
            position += 1
            db.execute("INSERT INTO phones VALUES (?, ?, ?)", (person, "+{code}" + plain[1:], position))
db.executescript('''CREATE TABLE new_people (id INTEGER PRIMARY KEY, name TEXT NOT NULL, room TEXT);
INSERT INTO new_people SELECT id, name, room FROM people; DROP TABLE people; ALTER TABLE new_people RENAME TO people;
PRAGMA user_version = {version};''')
db.commit()
db.close()
END
python3 /tmp/split.py && ls -l /srv/db"""
    return Job(
        prompt=MIGRATE.format(code=code, version=version),
        files={"/srv/db/staff.db.sql": "\n".join([*sql, "COMMIT;"])},
        script=MAKE.format(path="/srv/db/staff.db"),
        wants=runs(
            ["/srv/db/staff.db"], {}, [(name, DUMP.format(ask=ask), json.dumps(value)) for name, (ask, value) in asks.items()]
        ),
        solution=[solution],
    )


def dressed(rng: Random, number: str) -> str:
    return rng.choice(
        [number, f"{number[:4]} {number[4:]}", f"({number[:4]}) {number[4:]}", f"{number[:4]}-{number[4:7]}-{number[7:]}"]
    )
