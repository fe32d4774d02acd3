"""Forty months of books from one seed: five kinds of job, each with its own trouble."""

from random import Random
from typing import Any

from sandlot import Task

from .books import ACCOUNTS
from .month import Entry, Month, make_month
from .trouble import Spoiled, digits_swapped, not_posted, old_rate, open_lines, paid_twice, vat_forgotten, wrong_account

JOBS = {
    "duplicate": "A supplier tells us that one payment of {month} was posted twice. Find it and reverse the later posting.",
    "correct": "One entry of {month} is wrong, the auditor says: a wrong account, swapped digits or a wrong rate. Correct it.",
    "reconcile": "The bank statement of {month} does not agree with the books: two things on it were never posted. Post them.",
    "vat": "Prepare the VAT figures of {month}. On one purchase the VAT was not split off; correct that first.",
    "close": "Close {month}. Three things are wrong in the books; find them, put them right, and close the month.",
}
TROUBLES = [paid_twice, wrong_account, digits_swapped, old_rate, vat_forgotten, not_posted]


def tasks(rng: Random):
    for job, words in JOBS.items():
        for number in range(1, 9):
            yield make_task(Random(rng.getrandbits(64)), f"{job}-{number}", job, words)


def make_task(rng: Random, name: str, job: str, words: str) -> Task:
    month = make_month(rng, f"2026-{rng.randint(2, 12):02}")
    books = Spoiled(month, list(month.entries))
    for trouble in troubles_of(job, rng):
        trouble(books)
    books.entries.sort(key=lambda entry: entry.date)
    numbers = {entry: number for number, entry in enumerate(books.entries, start=1)}
    open_now = open_lines(books)
    bank = [
        {
            "date": line.date,
            "text": line.text,
            "cents": line.cents,
            "entry": None if line in open_now else numbers[line.entry],
        }
        for line in month.bank
    ]
    return Task(
        name,
        prompt=f"{words.format(month=month.name)} Match the open bank lines and write the report.",
        data={"month": month.name, "rates": month.rates, "entries": [plain(entry) for entry in books.entries], "bank": bank},
        key=key_of(month, job)
        | {
            "open_lines": [number for number, line in enumerate(month.bank, start=1) if line in open_now],
            "reversed": sorted(numbers[each.reverse] for each in books.corrections if each.reverse),
            "posted": [plain(each.post) for each in books.corrections if each.post],
        },
        tags=(job,),
    )


def troubles_of(job: str, rng: Random):
    return {
        "duplicate": [paid_twice],
        "correct": [rng.choice([wrong_account, digits_swapped, old_rate])],
        "reconcile": [not_posted, not_posted],
        "vat": [vat_forgotten],
        "close": rng.sample(TROUBLES, 3),
    }[job]


def key_of(month: Month, job: str) -> dict[str, Any]:
    """What the books, the VAT and the bank come to when everything is right."""
    balance = {account: sum(entry.lines.get(account, 0) for entry in month.entries) for account in ACCOUNTS}
    vat = {
        "output_standard": -balance["2200"],
        "output_reduced": -balance["2210"],
        "input_standard": balance["1400"],
        "input_reduced": balance["1410"],
    }
    vat["payable"] = vat["output_standard"] + vat["output_reduced"] - vat["input_standard"] - vat["input_reduced"]
    statement = sum(line.cents for line in month.bank)
    bank = {"statement": statement, "books": balance["1000"], "outstanding": balance["1000"] - statement}
    status = "closed" if job == "close" else "open"
    return {"month": month.name, "status": status, "balances": balance, "vat": vat, "bank": bank}


def plain(entry: Entry) -> dict[str, Any]:
    return {"date": entry.date, "party": entry.party, "reference": entry.reference, "memo": entry.memo, "lines": entry.lines}
