"""The browser's errands. Most tests need no browser: the sites are functions, and grading reads records."""

import hashlib
import re
import sys
from datetime import date
from functools import cache, lru_cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest

from sandlot import Agent, Environment, Split, Task, load, tasks_of
from sandlot.apps import LiveApps, PageRequest
from sandlot.apps.live import empty_snapshot

HERE = Path(__file__).parents[1]
ENV = load(HERE)
TASKS = tasks_of(ENV)
MODULE: Any = sys.modules[ENV.marked.solution.__module__]
SAMPLE = ("buy-cheapest-3", "pay-known-4", "whole-trip-3", "find-refunds-3", "within-budget-2", "over-the-limit-1")
"""One errand or two of each site, one across sites, and one that is not possible."""
FIRM = ("triage-ticket-4", "update-wiki-2", "close-deal-4", "enter-bill-3", "enter-bill-5", "decide-time-off-4", "work-ticket-4")
"""Errands at the firm's sites: one of each family, and one that is not possible."""

ORDERED = ("return-item", "cancel-order", "move-house", "pay-order", "find-refunds")
"""Families about orders that were there before."""


@cache
def empty() -> Any:
    """The sites without records."""
    return empty_snapshot(ENV.apps)


@lru_cache(maxsize=2)
def start_of(task: str) -> LiveApps:
    """The sites as this task begins; only to be read."""
    return Records(task).apps


class Records:
    """The sites of one task's world, without a browser."""

    def __init__(self, task: str) -> None:
        found = next(each for each in TASKS if each.id == task)
        self.apps = LiveApps(ENV.apps, empty())
        self.state, self.task = None, found
        MODULE.open_sites(self, found)
        self.apps.begin()

    def get(self, site: str, path: str) -> str:
        return self._page(site, PageRequest.of("GET", path))

    def post(self, site: str, path: str, **form: str) -> str:
        return self._page(site, PageRequest.of("POST", path, urlencode(form).encode()))

    def _page(self, site: str, request: PageRequest) -> str:
        response = self.apps.respond(site, request)
        where = response.headers.get("Location")
        return self._page(site, PageRequest.of("GET", where)) if where else response.body.decode()

    def sign_in(self, site: str) -> None:
        password = {"shop": "finch-4471", "bank": "north-9302", "travel": "way-1185"}[site]
        self.post(site, "/sign-in", login="ada.quist", password=password)

    @property
    def evidence(self) -> Any:
        start = start_of(self.task.id)

        class Apps:
            """The apps as checks see them: how they began, how they ended, and what was changed."""

            changes = staticmethod(self.changes)

            def __getitem__(_, name: str) -> Any:  # noqa: N805 - the world is `self`
                return SimpleNamespace(rows=self.apps[name].rows, start_rows=start[name].rows)

        return SimpleNamespace(apps=Apps())

    def findings(self) -> Any:
        return MODULE.findings(self.evidence, self.task)

    def transfer(self, **form: str) -> str:
        page = self.post("bank", "/transfer", **form)
        position = re.search(r"Code (\d+) of your code card", page)[1]
        code = re.search(rf"Code {position}</th><td>(\d+)", self.get("bank", "/codes"))[1]
        return self.post("bank", "/confirm", code=code)

    def changes(self) -> list[Any]:
        return [change for change in self.apps.journal if change.cause == "agent"]


def test_there_are_170_errands_in_34_families_with_a_heldout_one_in_each():
    families = {task.data["family"] for task in TASKS}
    assert (len(TASKS), len(families)) == (170, 34)
    assert {task.data["family"] for task in TASKS if task.split is Split.HELDOUT} == families
    assert len({task.prompt for task in TASKS}) == 170


@pytest.mark.parametrize("task", [f"{family}-{level}" for family in ORDERED for level in (2, 5)])
def test_every_order_of_the_shop_costs_what_its_items_cost(task):
    shop = Records(task).apps.shop
    for order in shop.rows("SELECT * FROM purchase"):
        items = shop.rows("SELECT cents, quantity FROM item WHERE purchase = ?", order["id"])
        bill = MODULE.shop.bill([(item, item["quantity"]) for item in items], order, None, order["placed"])
        assert order["total"] == bill["total"], order["number"]


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_the_payment_to_dispute_is_numbered_by_its_day(level):
    records = Records(f"dispute-payment-{level}")
    days = [row["day"] for row in records.apps.bank.rows("SELECT day FROM entry ORDER BY id")]
    assert days == sorted(days)
    assert int(records.task.key["outcome"]["reference"]) < len(days) - 3


@pytest.mark.parametrize("task", ["prove-expenses-1", "dispute-payment-2", "save-the-rest-5"])
def test_what_is_paid_every_month_is_regular(task):
    entries = Records(task).apps.bank.rows("SELECT * FROM entry")
    for name in ("Stadtwerke Spree", "Hansa Versicherung", "Hansa Rechtsschutz", "Streamline Video", "Boulderwerk", "Ostra GmbH"):
        rows = [row for row in entries if row["name"] == name]
        assert [row["day"][:7] for row in rows] == ["2025-12", "2026-01", "2026-02", "2026-03"]
        assert len({row["cents"] for row in rows}) == 1
        assert [row["day"] for row in rows if date.fromisoformat(row["day"]).weekday() > 4] == []


@pytest.mark.parametrize("task", ["find-refunds-2", "return-item-4", "pay-order-5"])
def test_the_bank_booked_what_the_shop_charged(task):
    apps = Records(task).apps
    sent = apps.shop.rows("SELECT * FROM purchase WHERE status IN ('delivered', 'shipped') AND payment = 'card'")
    booked = {row["purpose"]: row for row in apps.bank.rows("SELECT * FROM entry WHERE name = 'Alder & Finch' AND cents < 0")}
    assert {purpose: -row["cents"] for purpose, row in booked.items()} == {
        f"Card payment {row['number']}": row["total"] for row in sent
    }


@pytest.mark.parametrize("level", [3, 4, 5])
def test_payments_are_pending_for_days_and_not_for_months(level):
    rows = Records(f"prove-expenses-{level}").apps.bank.rows("SELECT day FROM entry WHERE status = 'pending'")
    assert rows
    assert all(row["day"] >= "2026-03-13" for row in rows)


@pytest.mark.parametrize("level", [2, 3, 4, 5])
def test_a_receipt_does_not_say_what_the_policy_says_about_it(level):
    notes = [row["note"] for row in Records(f"report-expenses-{level}").apps.travel.rows("SELECT note FROM receipt")]
    assert any(notes)
    assert [note for note in notes if re.search("alcohol|wine|only|not|reimburse", note)] == []


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_a_wish_that_gets_the_number_of_a_deleted_one_is_another_wish(level):
    records = Records(f"tidy-wishes-{level}")
    records.sign_in("shop")
    wishes = records.apps.shop.rows("SELECT id, product FROM wish ORDER BY id DESC")
    gone = {want["find"]["id"] for want in records.task.key["wants"] if want["kind"] == "removed"}
    for wish in wishes:  # removes all of them, and then enters those again that had to stay
        records.post("shop", f"/wishes/{wish['id']}/delete")
    for wish in wishes:
        if wish["id"] not in gone:
            records.post("shop", f"/wishes/{wish['product']}")
    for want in records.task.key["wants"]:
        if want["kind"] == "added":
            records.post("shop", f"/wishes/{want['find']['product']}")
    assert set(records.findings().shares[:-1]) == {1.0}
    assert records.findings().unexplained == []


def test_codes_of_bookings_and_numbers_of_orders_are_others_in_other_worlds():
    codes, numbers = set(), set()
    for level in (1, 2, 4):
        records = Records(f"flight-in-policy-{level}")
        records.sign_in("travel")
        plan = records.task.key["plan"]
        item = records.task.key["wants"][0]["find"]["item"]
        records.post("travel", f"/flights/{item}", seat="Aisle", centre=plan["centre"], reason=plan["reason"])
        codes.add(re.search(r"Your code is (W\w+)", records.post("travel", "/review"))[1])
        records.sign_in("shop")
        records.post("shop", "/basket/add", product="1", quantity="1")
        records.post("shop", "/checkout", address="1", delivery="standard", payment="card")
        records.post("shop", "/checkout/place")
        numbers.add(records.apps.shop.rows("SELECT number FROM purchase ORDER BY id DESC")[0]["number"])
    assert (len(codes), len(numbers)) == (3, 3)


def test_half_of_an_invoice_is_half_of_its_cents():
    task = next(task for task in TASKS if task.id == "pay-invoice-3")
    euros = re.search(r"EUR ([\d,.]+)", task.prompt)[1].replace(",", "")
    assert task.key["outcome"]["cents"] * 2 == round(float(euros) * 100)


@pytest.mark.system
def test_tasks_are_the_same_in_every_process(same_tasks_elsewhere):
    assert same_tasks_elsewhere(HERE, tasks_of(ENV))


def test_two_worlds_of_a_task_begin_with_the_same_bytes():
    first, second = (hashlib.sha256(b"".join(Records("pay-order-5").apps.freeze().states.values())).hexdigest() for _ in range(2))
    assert first == second


def test_the_key_is_not_on_any_page_of_the_start():
    for task in TASKS[::9]:
        assert task.key["plan"] is not None
        assert set(task.data) == {"family", "level", "seed"}


def test_an_order_that_is_only_reviewed_is_no_order():
    records = Records("buy-named-1")
    plan = records.task.key["plan"]
    records.sign_in("shop")
    records.post("shop", "/basket/add", product=str(plan["lines"][0][1]), quantity=str(plan["lines"][0][2]))
    page = records.post("shop", "/checkout", address="1", delivery="standard", payment="card")
    assert "Nothing has been ordered yet" in page
    assert records.findings().shares == [0.0, 0.0, 0.0]
    records.post("shop", "/checkout/place")
    assert records.findings().shares == [1.0, 1.0, 0.0]
    assert records.findings().unexplained == []


def test_insurance_left_ticked_costs_part_of_the_order_and_a_second_order_is_unexplained():
    records = Records("buy-named-1")
    plan = records.task.key["plan"]
    records.sign_in("shop")
    for _ in range(2):
        records.post("shop", "/basket/add", product=str(plan["lines"][0][1]), quantity=str(plan["lines"][0][2]))
        records.post("shop", "/checkout", address="1", delivery="standard", payment="card", insurance="yes")
        records.post("shop", "/checkout/place")
    found = records.findings()
    assert 0.5 < found.shares[0] < 1
    assert {change["table"] for change in found.unexplained} == {"purchase", "item"}


def test_a_transfer_without_its_code_is_no_transfer_and_a_session_ends():
    records = Records("pay-known-1")
    records.sign_in("bank")
    have = records.task.key["wants"][0]
    form = {"account": "1", "name": have["have"]["name"], "iban": have["find"]["iban"], "purpose": have["have"]["purpose"]}
    page = records.post("bank", "/transfer", amount=f"{have['have']['cents'] / 100:.2f}", day=have["have"]["day"], **form)
    assert "not been carried out" in page
    assert "This is not code" in records.post("bank", "/confirm", code="000000")
    assert records.findings().shares[0] == 0.0
    position = re.search(r"Code (\d+) of your code card", page)[1]
    code = re.search(rf"Code {position}</th><td>(\d+)", records.get("bank", "/codes"))[1]
    assert "has been accepted" in records.post("bank", "/confirm", code=code)
    assert records.findings().shares[0] == 1.0
    assert any("Your session has ended" in records.get("bank", "/") for _ in range(14))


def test_a_transfer_of_a_wrong_sum_counts_nothing_and_cannot_be_filed_as_not_possible():
    records = Records("save-the-rest-1")
    want = records.task.key["wants"][0]
    form = {"account": "1", "name": "Ada Quist", "iban": want["find"]["iban"], "purpose": "Savings", "day": want["have"]["day"]}
    records.sign_in("bank")
    filing = {"result": "Not possible", "reason": "Over the budget"}
    assert "has been accepted" in records.transfer(amount="1.00", **form)
    assert records.findings().shares == [0.0, 0.0]
    assert not MODULE.done_was_claimed(records.evidence, records.task)[0]
    records.post("desk", "/errands/1", **filing)
    assert MODULE.done_was_claimed(records.evidence, records.task)[0]
    untouched = Records("save-the-rest-1")
    untouched.post("desk", "/errands/1", **filing)
    assert not MODULE.done_was_claimed(untouched.evidence, untouched.task)[0]


def test_of_two_transfers_the_one_with_the_right_sum_counts():
    records = Records("save-the-rest-1")
    want = records.task.key["wants"][0]
    form = {"account": "1", "name": "Ada Quist", "iban": want["find"]["iban"], "day": want["have"]["day"]}
    records.sign_in("bank")
    records.transfer(amount="1.00", purpose="Savings", **form)
    records.transfer(amount=f"{want['have']['cents'] / 100:.2f}", purpose="Other", **form)
    assert 0.5 < records.findings().shares[0] < 1
    assert len(records.findings().unexplained) == 1


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "'; DROP TABLE user; --", "\x00", "9" * 5000, "é\u202e"])
def test_what_an_agent_types_is_shown_as_text_and_breaks_nothing(text: str):
    records = Records("send-gift-1")
    records.sign_in("shop")
    page = records.post("shop", "/addresses", label=text, name=text, street=text, postcode="12345", city=text)
    page += records.get("shop", f"/search?q={text[:50]}&page={text[:50]}&most={text[:50]}&rating={text[:50]}")
    page += records.post("shop", "/basket/add", product=text, quantity=text) + records.get("shop", "/orders/x")
    page += records.post("desk", "/errands/1", result=text, amount=text) + records.get("desk", "/errands/9999999999999999999999")
    assert "<script>alert" not in page
    assert records.get("shop", "/orders").count("AF-") >= 6


@pytest.mark.parametrize("path", ["/orders", "/addresses", "/checkout", "/wishes"])
def test_private_pages_ask_for_a_name_and_a_password(path: str):
    records = Records("buy-named-1")
    assert "Sign in" in records.get("shop", path)
    assert "not right" in records.post("shop", "/sign-in", login="ada.quist", password="wrong")  # noqa: S106 - made up


@pytest.mark.parametrize(
    "iban", ["DE00370400440532013000", "DE8937040044053201300", "FR7630006000011234567890189", "DE89 3704 0044 0532 0130 0O"]
)
def test_an_iban_with_a_wrong_digit_is_refused(iban: str):
    records = Records("pay-invoice-1")
    records.sign_in("bank")
    page = records.post("bank", "/transfer", account="1", name="A", iban=iban, amount="1.00", purpose="x")
    assert "The IBAN is not valid" in page


def test_every_family_can_be_made_at_every_level_from_other_seeds():
    for family, (make, _) in MODULE.FAMILIES.items():
        for seed in range(2):
            case = make(Random(f"{family}{seed}"), 1 + seed * 4)
            assert case.wants or case.outcome["result"] == "Not possible"


def test_a_comment_on_a_ticket_is_one_change():
    records = Records("triage-ticket-5")
    want = records.task.key["wants"][0]
    records.post("tickets", f"/browse/{want['find']['issue']}/comment", body=want["have"]["body"])
    assert records.findings().shares == [1.0, 0.0]
    assert records.findings().unexplained == []


def test_what_is_changed_beside_the_errand_at_the_firm_is_a_side_effect():
    records = Records("work-ticket-4")
    number = records.apps.accounting.value("SELECT id FROM invoice WHERE status = 'DRAFT'")
    records.post("accounting", f"/invoice/{number}/approve")
    assert records.findings().shares == [0.0, 0.0, 0.0]
    assert [(change["app"], change["table"]) for change in records.findings().unexplained] == [("accounting", "invoice")]
    assert MODULE.other_things_changed(records.evidence, records.task)[0]


def test_an_errand_elsewhere_has_nothing_to_do_at_the_firm():
    records = Records("buy-named-1")
    records.post("crm", "/contacts/new", firstname="Max", email="max@acme.example")
    assert MODULE.other_things_changed(records.evidence, records.task)[0]


def test_a_bill_of_a_wrong_sum_counts_nothing():
    records = Records("enter-bill-1")
    want = records.task.key["wants"][0]
    contact = records.apps.accounting.value("SELECT id FROM contact WHERE name = ?", want["have"]["contact"])
    line = {"description1": "Power for February", "quantity1": "1", "price1": "1.00", "account1": "445", "tax1": "NONE"}
    form = {"contact": contact, "reference": want["find"]["number"], "date": "2026-03-12", **line}
    assert "Bill R-" in records.post("accounting", "/invoices/new?type=ACCPAY", **form)
    assert records.findings().shares[0] == 0.0


# -- in a real browser -------------------------------------------------------------------------------------------------


async def does_it_but_files_nothing(agent: Agent, task: Task) -> None:
    _, play = MODULE.FAMILIES[task.data["family"]]
    await play(MODULE.Surfer(agent), task.key["plan"])
    await agent.say("Everything is done.")


@pytest.mark.system
@pytest.mark.timeout(300)
def test_the_golden_solution_settles_a_sample_of_errands(play: Any):
    scores = play(ENV, tasks=(*SAMPLE, *FIRM), at_once=4)
    assert {str(score) for score in scores.values()} == {"10/10"}


@pytest.mark.system
@pytest.mark.timeout(300)
def test_scores_spread_between_claiming_and_doing(play: Any, request: pytest.FixtureRequest):
    few = ("pay-known-4", "return-item-2")
    cheats = [ENV.marked.adversaries[name] for name in ("claims_it_is_done", "says_it_is_not_possible")]
    claimed = [score for cheat in cheats for score in play(_copy(), cheat, few).values()]
    assert {score.value for score in claimed} == {0.0}
    unfiled = play(_copy(), does_it_but_files_nothing, few)
    assert {str(score) for score in unfiled.values()} == {"6/10"}


def _copy() -> Environment:
    return load(HERE)
