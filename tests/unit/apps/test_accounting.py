import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.apps import ACCOUNTING, FinalApps, LiveApps, load_accounting, read_xero_csv
from sandlot.apps.accounting.documents import allocate, invoice_is_approved, invoice_is_voided
from sandlot.apps.accounting.money import cents_of, shown, tax_on
from sandlot.apps.accounting.reports import balance_sheet, trial_balance
from sandlot.apps.final import encode_journal
from sandlot.core.errors import ConfigError, ToolError
from worlds.apps import AppWorld, dump

ADA, BOB = "ada@corp.example", "bob@corp.example"
SEED: dict[str, Any] = {
    "contacts": [{"name": "Acme"}, {"name": "Power Ltd"}],
    "invoices": [
        {
            "type": "ACCREC",
            "number": "INV-0007",
            "contact": "Acme",
            "date": "2025-12-10",
            "due_date": "2026-01-03",
            "lines": [{"description": "Widgets", "quantity": 3, "unit_amount": "33.33", "account": "200"}],
            "payments": [{"date": "2025-12-20", "amount": "20.00", "account": "090"}],
        },
        {
            "type": "ACCPAY",
            "contact": "Power Ltd",
            "date": "2026-01-02",
            "reference": "B-1",
            "lines": [{"description": "Power", "unit_amount": "100", "account": "445"}],
        },
    ],
    "credit_notes": [
        {
            "type": "ACCRECCREDIT",
            "contact": "Acme",
            "date": "2025-12-28",
            "lines": [{"description": "x", "unit_amount": 10, "account": "200"}],
        }
    ],
    "bank_transactions": [
        {
            "type": "SPEND",
            "account": "090",
            "contact": "Power Ltd",
            "date": "2026-01-03",
            "lines": [{"description": "Fee", "unit_amount": "4.50", "account": "404"}],
        }
    ],
    "journals": [
        {
            "narration": "Shares",
            "date": "2024-01-02",
            "lines": [{"account": "970", "amount": -1000}, {"account": "710", "amount": 1000}],
        }
    ],
    "organisation": {"name": "Corp", "lock_date": "2025-11-30"},
}
LINE = {"description": "Work", "quantity": 2, "unitAmount": 10.005, "accountCode": "200", "taxType": "OUTPUT2"}


def fill(apps: LiveApps) -> None:
    load_accounting(apps.accounting, SEED)


@pytest.fixture
def world() -> AppWorld:
    return AppWorld([ACCOUNTING], fill, actor=ADA)


def ids(world: AppWorld) -> dict[str, str]:
    app = world.apps.accounting
    return {
        "acme": app.value("SELECT id FROM contact WHERE name = 'Acme'"),
        "invoice": app.value("SELECT id FROM invoice WHERE number = 'INV-0007'"),
        "bill": app.value("SELECT id FROM invoice WHERE number = 'B-1'"),
        "bank": app.value("SELECT id FROM account WHERE code = '090'"),
    }


def assert_balanced(world: AppWorld) -> None:
    """Each source adds up to 0, the trial balance has equal sides, net assets are equity, control accounts match documents."""
    app = world.apps.accounting
    assert app.rows("SELECT source FROM ledger_entry GROUP BY source HAVING sum(amount) <> 0") == []
    day = world.apps.clock.now.date()
    _, debit, credit, total_debit, total_credit = [cell["value"] for cell in trial_balance(app, day)[-1]["rows"][0]["cells"]]
    assert (debit, total_debit) == (credit, total_credit)
    sheet = balance_sheet(app, [day])
    assert sheet[-2]["rows"][0]["cells"][1] == sheet[-1]["rows"][-1]["cells"][1]
    for kind, code, sign in (("ACCREC", "610", 1), ("ACCPAY", "800", -1)):
        due = app.value(
            "SELECT coalesce(sum(total - paid - credited), 0) FROM invoice WHERE type = ? AND status IN ('AUTHORISED', 'PAID')",
            kind,
        )
        notes = app.value(
            "SELECT coalesce(sum(total - allocated), 0) FROM credit_note WHERE type = ? AND status IN ('AUTHORISED', 'PAID')",
            f"{kind}CREDIT",
        )
        assert app.value("SELECT coalesce(sum(amount), 0) FROM ledger_entry WHERE account = ?", code) == sign * (due - notes)


async def test_loaded_books_balance_and_list_as_xero_lists(world: AppWorld):
    assert_balanced(world)
    text = await world.call("list-invoices", page=1, invoiceNumbers=["INV-0007"])
    for line in (
        "Found 1 invoices:",
        "Sub Total: 99.99",
        "Total Tax: 20",
        "Total: 119.99",
        "Amount Due: 99.99",
        "Amount Paid: 20",
    ):
        assert line in text.split("\n")
    assert "Unit Amount: 33.33" in text


async def test_an_invoice_is_a_draft_and_enters_the_ledger_when_it_is_approved(world: AppWorld):
    known = ids(world)
    before = world.apps.accounting.rows("SELECT * FROM ledger_entry")
    text = await world.call("create-invoice", contactId=known["acme"], lineItems=[LINE], type="ACCREC", reference="PO 7")
    assert "Total: 24.01" in text  # 20.01 + 20 % of it, each rounded to a cent
    assert "Status: DRAFT" in text
    assert world.apps.accounting.rows("SELECT * FROM ledger_entry") == before
    guid = text.split("ID: ")[1].split("\n")[0]
    assert "not of valid status" in await world.call("create-payment", invoiceId=guid, accountId=known["bank"], amount=1)
    with world.apps.acting("approval"):
        invoice_is_approved(world.apps.accounting, guid)
    assert_balanced(world)
    assert "not a draft. Current status: AUTHORISED" in await world.call("update-invoice", invoiceId=guid, reference="x")
    with world.apps.acting("voiding"):
        invoice_is_voided(world.apps.accounting, guid)
    assert world.apps.accounting.rows("SELECT * FROM ledger_entry") == before


async def test_a_payment_cannot_exceed_what_is_due_and_settles_the_invoice(world: AppWorld):
    known = ids(world)
    pay = {"invoiceId": known["invoice"], "accountId": known["bank"]}
    assert "exceeds the amount outstanding" in await world.call("create-payment", **pay, amount=100)
    assert "more than 2 decimal places" in await world.call("create-payment", **pay, amount=1.005)
    assert "greater than 0" in await world.call("create-payment", **pay, amount=-5)
    assert "must be a bank account" in await world.call(
        "create-payment",
        invoiceId=known["invoice"],
        accountId=world.apps.accounting.value("SELECT id FROM account WHERE code = '200'"),
        amount=1,
    )
    assert "Amount: 99.99" in await world.call("create-payment", **pay, amount=99.99, date="2026-01-04")
    row = world.apps.accounting.one("SELECT status, fully_paid_on FROM invoice WHERE number = 'INV-0007'")
    assert row == {"status": "PAID", "fully_paid_on": "2026-01-04"}
    assert_balanced(world)


async def test_a_journal_must_balance_and_stay_out_of_closed_periods(world: AppWorld):
    def lines(one: float, two: float, account: str = "805") -> list[dict[str, Any]]:
        return [{"lineAmount": one, "accountCode": "429"}, {"lineAmount": two, "accountCode": account}]

    assert "(5.00) must equal total credits (4.99)" in await world.call(
        "create-manual-journal", narration="n", manualJournalLines=lines(5, -4.99)
    )
    locked = {"narration": "n", "manualJournalLines": lines(5, -5), "status": "POSTED", "date": "2025-11-30"}
    assert "locked up to 2025-11-30" in await world.call("create-manual-journal", **locked)
    for account in ("090", "610", "999"):
        assert "valid" in await world.call(
            "create-manual-journal", narration="n", manualJournalLines=lines(5, -5, account), status="POSTED"
        )
    assert not world.apps.journal
    await world.call(
        "create-manual-journal", narration="Accrual", manualJournalLines=lines(5.25, -5.25), status="POSTED", date="2025-12-31"
    )
    assert_balanced(world)
    assert world.apps.accounting.value("SELECT sum(amount) FROM ledger_entry WHERE account = '805'") == -525


async def test_profit_and_loss_agrees_with_the_balance_sheet(world: AppWorld):
    text = await world.call("list-profit-and-loss", fromDate="2025-01-01", toDate="2025-12-31")
    rows = json.loads(text[text.index("[") :])
    assert rows[-1]["rows"][0]["cells"][1]["value"] == "89.99"  # 99.99 of sales less 10.00 of credit
    text = await world.call("list-report-balance-sheet", date="2025-12-31")
    equity = json.loads(text[text.index("[") :])[-1]["rows"]
    assert [row["cells"][1]["value"] for row in equity if row["cells"][0]["value"] == "Current Year Earnings"] == ["89.99"]
    text = await world.call("list-aged-receivables-by-contact", contactId=ids(world)["acme"])
    assert json.loads(text[text.index("[") :])[1]["rows"][0]["cells"][7]["value"] == "99.99"


async def test_roles_decide_who_may_write(world: AppWorld):
    for email, role in ((ADA, "adviser"), (BOB, "invoice_only")):
        world.apps.accounting.insert("role", email=email, role=role)
    world.apps.actor = BOB
    known = ids(world)
    refused = "You don't have permission"
    assert refused in await world.call("create-payment", invoiceId=known["invoice"], accountId=known["bank"], amount=1)
    assert refused in await world.call("create-manual-journal", narration="n", manualJournalLines=[])
    assert "DRAFT" in await world.call("create-invoice", contactId=known["acme"], lineItems=[LINE], type="ACCREC")
    world.apps.actor = "stranger@x.example"
    assert refused in await world.call("list-invoices", page=1)


@settings(max_examples=12, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["invoice", "bill", "bank", "journal", "pay", "approve", "credit"]), st.integers(1, 10**7)),
        max_size=12,
    )
)
def test_whatever_is_entered_the_books_balance(acts: list[tuple[str, int]]):
    import anyio

    async def play() -> None:
        world = AppWorld([ACCOUNTING], fill, actor=ADA)
        known = ids(world)
        for act, cents in acts:
            line = {**LINE, "quantity": 3, "unitAmount": cents / 300}
            match act:
                case "invoice" | "bill":
                    kind = "ACCREC" if act == "invoice" else "ACCPAY"
                    await world.call("create-invoice", contactId=known["acme"], lineItems=[line], type=kind)
                case "bank":
                    spend = {"type": "SPEND", "bankAccountId": known["bank"], "contactId": known["acme"]}
                    await world.call("create-bank-transaction", **spend, lineItems=[line])
                case "journal":
                    both = [{"lineAmount": sign * cents / 100, "accountCode": code} for sign, code in ((1, "429"), (-1, "805"))]
                    kinds = {"lineAmountTypes": ["EXCLUSIVE", "INCLUSIVE", "NO_TAX"][cents % 3], "status": "POSTED"}
                    await world.call("create-manual-journal", narration="n", manualJournalLines=both, **kinds)
                case "pay":
                    await world.call("create-payment", invoiceId=known["invoice"], accountId=known["bank"], amount=cents / 100)
                case "approve":
                    app = world.apps.accounting
                    for row in app.rows("SELECT id FROM invoice WHERE status = 'DRAFT'"):
                        with world.apps.acting("approval"):
                            invoice_is_approved(app, row["id"])
                case _:
                    app = world.apps.accounting
                    note = app.value("SELECT id FROM credit_note WHERE status = 'AUTHORISED'")
                    try:
                        with world.apps.acting("allocation"):
                            allocate(app, note, known["invoice"], cents % 1200, world.apps.clock.now.date())
                    except ToolError:
                        pass
            assert_balanced(world)

    anyio.run(play)


@given(st.integers(-(10**9), 10**9), st.sampled_from(["0", "5", "20", "17.5"]))
def test_tax_is_the_same_for_credits_and_debits_and_text_keeps_every_cent(cents: int, rate: str):
    assert tax_on(-cents, rate) == -tax_on(cents, rate)
    assert cents_of(shown(cents)) == cents


async def test_huge_and_odd_amounts_are_refused(world: AppWorld):
    known = ids(world)
    for amount in (1e300, 10**15, -(10**15)):
        text = await world.call(
            "create-invoice", contactId=known["acme"], lineItems=[{**LINE, "unitAmount": amount}], type="ACCREC"
        )
        assert "must be smaller than" in text
    many = await world.call("create-invoice", contactId=known["acme"], lineItems=[LINE] * 500, type="ACCREC")
    assert "at most 200 line items" in many
    assert not world.apps.journal


async def test_the_same_acts_leave_the_same_bytes_and_the_journal_replays_them():
    async def play() -> AppWorld:
        world = AppWorld([ACCOUNTING], fill, actor=ADA)
        known = ids(world)
        await world.call("create-invoice", contactId=known["acme"], lineItems=[LINE], type="ACCPAY", reference="B-9")
        await world.call("create-payment", invoiceId=known["bill"], accountId=known["bank"], amount=5.25)
        return world

    one, two = await play(), await play()
    assert one.apps.freeze().states == two.apps.freeze().states
    final = FinalApps(one.base.states, encode_journal(one.apps.journal), one.apps.clock.text).accounting
    assert dump(final.rows) == dump(one.apps.accounting.rows)


def test_the_csv_of_xero_is_read():
    text = (
        "*ContactName,*InvoiceNumber,*InvoiceDate,*DueDate,Description,*Quantity,*UnitAmount,*AccountCode\n"
        "Acme,INV-1,31/01/2026,28/02/2026,One,1,10.00,200\nAcme,INV-1,31/01/2026,28/02/2026,Two,2,5.50,200\n"
    )
    invoices = read_xero_csv(text)
    assert [len(invoice["lines"]) for invoice in invoices] == [2]
    world = AppWorld(
        [ACCOUNTING], lambda apps: load_accounting(apps.accounting, {"contacts": [{"name": "Acme"}], "invoices": invoices})
    )
    assert world.apps.accounting.value("SELECT total FROM invoice") == 2520
    with pytest.raises(ConfigError, match="lacks the columns"):
        read_xero_csv("a\n1\n")
