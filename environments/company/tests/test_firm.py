"""The firm is one story: what people wrote agrees with what is true, whatever the seed."""

import importlib
import os
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
sys.path.insert(0, str(HERE.parent))
firm_module = importlib.import_module("company.firm")
people = importlib.import_module("company.people")
records = importlib.import_module("company.records")
sys.path.remove(str(HERE.parent))

MONEY = re.compile(r"€([\d,]+\.\d\d)")
DATE = re.compile(
    r"\b(\d{1,2} (?:January|February|March|April|May|June|July|August|September|October|November|December) \d{4})\b"
)


@pytest.fixture(scope="module", params=[16, 7])
def firm(request):
    return firm_module.build_firm(request.param)


def texts(firm):
    """Everything that was written: who, when, what."""
    for mail in firm.mails:
        yield mail.sender.removesuffix("@northlight.example"), mail.at, f"{mail.subject}. {mail.body}"
    for post in firm.posts:
        yield post.who, post.at, post.text
    for ticket in firm.tickets.values():
        yield ticket.reporter, ticket.created, f"{ticket.summary}. {ticket.body}"
        for note in ticket.comments:
            yield note.author, note.at, note.text
    for page in firm.pages:
        yield page.author, page.created, page.body


def sentences(firm):
    for _, _, text in texts(firm):
        yield from re.split(r"(?<=[.!?])\s+(?=[A-Z])|\n", text)


def cents(text):
    return {int(amount.replace(",", "").replace(".", "")) for amount in MONEY.findall(text)}


def test_forty_people_work_here_and_report_to_one_chief(firm):
    staff = [person for person in firm.people.values() if person.left is None]
    assert len(staff) == 40
    assert [person.title for person in staff if person.manager is None] == ["Chief Executive Officer"]
    for person in firm.people.values():
        chain, boss = [person.login], person.manager
        while boss:
            assert boss not in chain
            chain.append(boss)
            boss = firm.people[boss].manager


def test_nobody_writes_before_they_are_hired_or_after_they_left(firm):
    wrong = [
        (who, at, text[:80]) for who, at, text in texts(firm) if who in firm.people and not firm.people[who].works_on(at.date())
    ]
    assert not wrong, wrong[:5]


def test_nothing_is_dated_after_today(firm):
    assert max(at.date() for _, at, _ in texts(firm)) <= people.TODAY


def test_an_amount_beside_an_invoice_is_an_amount_of_that_invoice(firm):
    seen = 0
    for sentence in sentences(firm):
        numbers = set(re.findall(r"INV-\d+", sentence))
        if len(numbers) == 1 and cents(sentence):
            invoice = firm.invoices[numbers.pop()]
            seen += 1
            assert cents(sentence) <= {invoice.total_cents, invoice.open_cents, *(each.cents for each in invoice.payments)}, (
                sentence
            )
    assert seen > 300


@pytest.mark.parametrize(
    ("pattern", "table", "amounts"),
    [
        (r"PO-\d+", "orders", lambda order: {order.cents}),
        (r"BILL-\d+", "bills", lambda bill: {bill.total_cents}),
        (r"EXP-\d+", "expenses", lambda expense: {expense.cents}),
        (r"\bD-\d+", "deals", lambda deal: {deal.amount_cents}),
    ],
)
def test_an_amount_beside_a_record_is_its_amount(firm, pattern, table, amounts):
    seen = 0
    for sentence in sentences(firm):
        names = set(re.findall(pattern, sentence))
        if len(names) == 1 and cents(sentence) and not (table == "orders" and "invoice" in sentence):
            seen += 1
            assert cents(sentence) <= amounts(getattr(firm, table)[names.pop()]), sentence
    assert seen > 40


def test_every_number_that_is_mentioned_exists(firm):
    tables = {"INV": firm.invoices, "PO": firm.orders, "BILL": firm.bills, "EXP": firm.expenses, "INC": firm.incidents}
    for _, _, text in texts(firm):
        for prefix, table in tables.items():
            for name in re.findall(rf"\b{prefix}-\d+", text):
                assert name in table, (name, text[:100])
        for name in re.findall(r"\b(?:ENG|SUP|IT)-\d+", text):
            assert name in firm.tickets


def test_due_dates_in_mails_are_those_of_the_invoice(firm):
    for sentence in sentences(firm):
        numbers, days = set(re.findall(r"INV-\d+", sentence)), DATE.findall(sentence)
        if len(numbers) == 1 and days:
            invoice = firm.invoices[numbers.pop()]
            assert set(days) <= {records.short_date(invoice.due), records.short_date(invoice.day)}, sentence


def test_leave_dates_and_delegates_agree_everywhere(firm):
    spans = {(records.short_date(leave.first), records.short_date(leave.last)): [] for leave in firm.leaves}
    for leave in firm.leaves:
        spans[records.short_date(leave.first), records.short_date(leave.last)].append(firm.people[leave.delegate].name)
        assert leave.delegate != leave.person
    for post in firm.posts:
        days = DATE.findall(post.text)
        if post.channel == "people" and len(days) == 2:
            assert any(name in post.text for name in spans[days[0], days[1]]), post.text


def test_the_books_balance(firm):
    assert all(sum(amount for _, amount in entry.lines) == 0 for entry in firm.entries)
    receivable = sum(amount for entry in firm.entries for account, amount in entry.lines if account == "610")
    payable = -sum(amount for entry in firm.entries for account, amount in entry.lines if account == "800")
    assert receivable == sum(invoice.open_cents for invoice in firm.invoices.values())
    assert payable == sum(bill.open_cents for bill in firm.bills.values())


def test_orders_follow_the_approval_limits_of_their_day(firm):
    for order in firm.orders.values():
        assert order.approver != order.requester
        limit = 1_000_000 if order.day >= date(2026, 3, 2) else 2_500_000
        if order.cents > limit:
            assert firm.people[order.approver].title == "Chief Executive Officer"


def test_time_runs_forward(firm):
    for incident in firm.incidents.values():
        assert incident.started < incident.detected < incident.mitigated < incident.resolved
    for ticket in firm.tickets.values():
        moments = [ticket.created, *(note.at for note in ticket.comments)]
        assert moments == sorted(moments), ticket.key
    threads = {}
    for mail in firm.mails:
        threads.setdefault(mail.thread, []).append(mail)
    assert all(thread[0].id == name for name, thread in threads.items())


def test_no_two_texts_are_the_same(firm):
    bodies = [mail.body for mail in firm.mails]
    posts = [post.text for post in firm.posts]
    assert len(set(bodies)) == len(bodies)
    assert len(set(posts)) == len(posts)
    assert len(bodies) + len(posts) > 3000


def test_another_process_builds_the_same_bytes():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from company.firm import build_firm, digest_of;"
        " print(digest_of(build_firm(16)))"
    )
    command = [sys.executable, "-c", code, str(HERE.parent)]
    environ = os.environ | {"PYTHONHASHSEED": "3"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert done.stdout.strip() == firm_module.digest_of(firm_module.build_firm(16))
