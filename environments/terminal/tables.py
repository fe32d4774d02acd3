"""Two CSV files that must be joined, as untidy as exports are."""

import csv
import io
from random import Random
from typing import Any

from .job import PEOPLE, Job, token

PROMPT = """/data/orders.csv and /data/customers.csv are exports of a shop. Write /out/paid.json: one JSON object, country -> euro
cents (a whole number) of all orders with status `paid` by customers of that country; countries without any are left out.

- An order may be listed more than once: the row with the latest `updated` counts, with whatever status it has.
- Amounts are written as people wrote them: `1234.50`, `1,234.50` or `1.234,50`; there are always two decimals.
- Orders of customers who are not in customers.csv go to the country `unknown`.

Also write /out/disputed.txt: the ids of all orders whose rows do not all have the same amount, sorted, one a line."""
SOLUTION = r"""mkdir -p /out; cat > /tmp/join.py <<'END'
import csv, json, re, collections
country = {row["id"]: row["country"] for row in csv.DictReader(open("/data/customers.csv", newline=""))}
last, amounts = {}, collections.defaultdict(set)
for row in csv.DictReader(open("/data/orders.csv", newline="")):
    row["cents"] = int(re.sub(r"\D", "", row["amount"]))
    amounts[row["order"]].add(row["cents"])
    if row["order"] not in last or row["updated"] > last[row["order"]]["updated"]:
        last[row["order"]] = row
totals = collections.Counter()
for row in last.values():
    if row["status"] == "paid":
        totals[country.get(row["customer"], "unknown")] += row["cents"]
json.dump(totals, open("/out/paid.json", "w"))
with open("/out/disputed.txt", "w") as out:
    for order in sorted(order for order, seen in amounts.items() if len(seen) > 1):
        print(order, file=out)
END
python3 /tmp/join.py && cat /out/*"""


def paid_by_country(rng: Random) -> Job:
    customers = {f"C{rng.randrange(1000, 9999)}": rng.choice(["DE", "FR", "NL", "PT", "SE"]) for _ in range(14)}
    strangers = [f"X{rng.randrange(1000, 9999)}" for _ in range(2)]
    orders = sorted({f"O-{token(rng, 5)}" for _ in range(60)})
    rows: list[dict[str, Any]] = []
    for order in orders:
        customer, cents = rng.choice([*customers, *strangers]), rng.randrange(500, 900_000)
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            cents = cents if rng.random() < 0.6 else rng.randrange(500, 900_000)
            day = f"2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}T{rng.randrange(24):02}:{rng.randrange(10**6):06}"
            status = rng.choice(["paid", "paid", "open", "cancelled"])
            rows.append({"order": order, "customer": customer, "cents": cents, "updated": day, "status": status})
    rng.shuffle(rows)
    last = {row["order"]: row for row in sorted(rows, key=lambda row: row["updated"])}
    totals: dict[str, int] = {}
    for row in last.values():
        if row["status"] == "paid":
            where = customers.get(row["customer"], "unknown")
            totals[where] = totals.get(where, 0) + row["cents"]
    disputed = [order for order in orders if len({row["cents"] for row in rows if row["order"] == order}) > 1]
    listed = [
        [row["order"], row["customer"], written(rng, row["cents"]), note(rng), row["status"], row["updated"]] for row in rows
    ]
    return Job(
        prompt=PROMPT,
        files={
            "/data/orders.csv": table(["order", "customer", "amount", "note", "status", "updated"], listed),
            "/data/customers.csv": table(
                ["id", "name", "country"], [[c, rng.choice(PEOPLE), where] for c, where in customers.items()]
            ),
        },
        wants=[
            {"kind": "json", "path": "/out/paid.json", "value": totals},
            {"kind": "text", "path": "/out/disputed.txt", "value": "\n".join(disputed)},
        ],
        kept=("/data/orders.csv", "/data/customers.csv"),
        solution=[SOLUTION],
    )


def written(rng: Random, cents: int) -> str:
    english = f"{cents / 100:,.2f}"
    german = english.translate(str.maketrans(",.", ".,"))
    return rng.choice([english, german, english.replace(",", "")])


def note(rng: Random) -> str:
    return rng.choice(["", "gift", 'say "thanks"', "ring, then wait", "leave at\nthe back door"])


def table(columns: list[str], rows: list[list[str]]) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows([columns, *rows])
    return out.getvalue()
