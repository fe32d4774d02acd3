"""What is asked about the books and the report. The rubrics name these functions and give them their arguments."""

import json
from typing import Any

from sandlot import Evidence, Task

from .books import BOOKS, REPORT, balances, lines_of, opened


def report_is_written(evidence: Evidence, task: Task) -> bool:
    return isinstance(report(evidence), dict)


def report_equals(evidence: Evidence, task: Task, field: str, value: Any) -> tuple[bool, str]:
    """The field of the report, like `vat.payable`, is exactly this value."""
    found: Any = report(evidence)
    for name in field.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return type(found) is type(value) and found == value, f"{field} is {str(found)[:60]}, should be {value}"


def report_rambles(evidence: Evidence, task: Task, chars: int) -> bool:
    return len(str(report(evidence).get("summary"))) > chars


def account_is(evidence: Evidence, task: Task, account: str, cents: int) -> tuple[bool, str]:
    """The account's balance in the books themselves."""
    with opened(evidence.read(BOOKS)) as db:
        found = balances(db)[account]
    return found == cents, f"{account} stands at {found}, should be {cents}"


def corrections_made(evidence: Evidence, task: Task, reverse: list[int], post: list[dict[str, Any]]) -> tuple[float, str]:
    """The share of what was wrong that is put right: the wrong entries reversed, the true ones posted."""
    undone, new = changes(evidence, task)
    good = [f"reversed {number}" for number in reverse if number in undone]
    good += [f"posted {entry['memo']}" for entry in post if take(new, entry)]
    return len(good) / (len(reverse) + len(post)), "; ".join(good) or "nothing was corrected"


def others_touched(evidence: Evidence, task: Task, reverse: list[int], post: list[dict[str, Any]]) -> tuple[bool, str]:
    """Something right was reversed, or something was posted that should not stand."""
    undone, new = changes(evidence, task)
    wrongly = [number for number in undone if number not in reverse and number <= len(task.data["entries"])]
    for entry in post:
        take(new, entry)
    return bool(wrongly or new), f"reversed {wrongly}, posted {new}"


def bank_matched(evidence: Evidence, task: Task, lines: list[int]) -> tuple[float, str]:
    """The share of these lines that belong to a live entry of exactly their amount, which no other line has."""
    with opened(evidence.read(BOOKS)) as db:
        matches = (
            "select b.id from bank_lines b join live on live.id = b.entry join lines l on l.entry = b.entry and account = '1000' "
        )
        right = {line for (line,) in db.execute(f"{matches} group by b.entry having count(*) = 1 and sum(l.cents) = b.cents")}
    good = [line for line in lines if line in right]
    return len(good) / len(lines), f"lines {good} of {lines}"


def month_is(evidence: Evidence, task: Task, month: str, status: str) -> tuple[bool, str]:
    with opened(evidence.read(BOOKS)) as db:
        (found,) = db.execute("select status from months where month = ?", [month]).fetchone()
    return found == status, f"{month} is {found}"


def report(evidence: Evidence) -> Any:
    return json.loads(evidence.read_text(REPORT))


def changes(evidence: Evidence, task: Task) -> tuple[list[int], list[dict[str, Any]]]:
    """What was done to the books: the entries reversed, and the new entries that stand."""
    with opened(evidence.read(BOOKS)) as db:
        undone = [number for (number,) in db.execute("select reverses from entries where reverses is not null")]
        rows = db.execute("select id, date from live where id > ?", [len(task.data["entries"])]).fetchall()
        return undone, [{"date": date, "lines": lines_of(db, number)} for number, date in rows]


def take(entries: list[dict[str, Any]], wanted: dict[str, Any]) -> bool:
    """True if one of the entries has the wanted lines and month; it is taken out, so that it counts once."""
    for entry in entries:
        if entry["lines"] == wanted["lines"] and entry["date"][:7] == wanted["date"][:7]:
            entries.remove(entry)
            return True
    return False
