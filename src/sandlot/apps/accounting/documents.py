"""Documents of the books: invoices, bills, credit notes, bank transactions, payments, manual journals, and how each posts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from sandlot.apps.accounting.ledger import (
    ACCOUNTING,
    NOT_FOUND,
    Entry,
    find_account,
    organisation,
    post,
    refusal,
    require_open,
    system_account,
    today,
    unpost,
)
from sandlot.apps.accounting.money import cents_of, decimal_of, exact_cents, printed, tax_on
from sandlot.apps.live import LiveApp
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_TERM = timedelta(days=30)
_MAX_LINES = 200
_MAX_TEXT = 4000
POSTED = {"AUTHORISED", "PAID"}
"""The states in which an invoice or a credit note is in the ledger."""


def new_guid(app: LiveApp) -> str:
    """A new id in Xero's form, the same in every rollout with the same acts."""
    text = app.new_id(length=32)
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"


@dataclass(frozen=True, slots=True)
class Lines:
    """The priced lines of a document."""

    rows: tuple[Json, ...]

    @property
    def subtotal(self) -> int:
        """Cents without tax."""
        return sum(row["amount"] for row in self.rows)

    @property
    def tax(self) -> int:
        """Cents of tax."""
        return sum(row["tax"] for row in self.rows)

    @property
    def sums(self) -> Json:
        """The columns of a document that follow from its lines."""
        return {"subtotal": self.subtotal, "tax": self.tax, "total": self.subtotal + self.tax}

    def entries(self, app: LiveApp, sign: int, against: str) -> list[Entry]:
        """What the lines post: `sign` 1 debits the lines' accounts and credits `against`."""
        entries = [Entry(row["account"], sign * row["amount"]) for row in self.rows]
        entries.append(Entry(system_account(app, "GST"), sign * self.tax))
        return [*entries, Entry(against, -sign * (self.subtotal + self.tax))]


def price(app: LiveApp, items: Sequence[Json]) -> Lines:
    """The lines of a call, checked and priced; `ToolError` for an account, tax type or amount that cannot be."""
    if not items:
        raise refusal("One or more line items must be specified")
    if len(items) > _MAX_LINES:
        raise refusal(f"A document has at most {_MAX_LINES} line items; this one has {len(items)}")
    rows: list[Json] = []
    for position, item in enumerate(items):
        account = find_account(app, code=item["accountCode"])
        if account["system"] or account["type"] == "BANK":
            raise refusal(f"Account code '{account['code']}' is not a valid code for this document.")
        rate = app.value("SELECT rate FROM tax_rate WHERE type = ? AND status = 'ACTIVE'", item["taxType"])
        if rate is None:
            raise refusal(
                f"The TaxType code '{str(item['taxType'])[:40]}' does not exist or cannot be used for this type of transaction."
            )
        quantity, unit = decimal_of(item["quantity"], "Quantity"), decimal_of(item["unitAmount"], "UnitAmount")
        amount = cents_of(quantity * unit)
        named = {"description": _text(item["description"], "Description"), "item_code": item.get("itemCode")}
        named |= {
            "quantity": _plain(quantity),
            "unit_amount": _plain(unit),
            "account": account["code"],
            "tax_type": item["taxType"],
        }
        rows.append(named | {"position": position, "amount": amount, "tax": tax_on(amount, rate)})
    return Lines(tuple(rows))


def _plain(number: Decimal) -> str:
    return format(number.normalize(), "f")


def _text(text: str, what: str) -> str:
    if len(text) > _MAX_TEXT:
        raise refusal(f"{what} cannot be longer than {_MAX_TEXT} characters")
    return text


def lines_of(app: LiveApp, document: str) -> Lines:
    """The stored lines of a document."""
    return Lines(tuple(app.rows("SELECT * FROM line WHERE document = ? ORDER BY position", document)))


def store_lines(app: LiveApp, document: str, lines: Lines) -> None:
    """Replace the lines of a document."""
    app.run("DELETE FROM line WHERE document = ?", document)
    for row in lines.rows:
        app.insert("line", document=document, **{name: value for name, value in row.items() if name != "document"})


def find_contact(app: LiveApp, contact_id: str) -> Json:
    """A contact by its id; `ToolError` if there is none."""
    row = app.one("SELECT * FROM contact WHERE id = ?", contact_id)
    if row is None or row["status"] != "ACTIVE":
        raise refusal("The contact could not be found, or is archived; give the ID of a contact from list-contacts")
    return row


def find_row(app: LiveApp, table: str, id: str) -> Json:
    """A document by its id; `ToolError` if there is none."""
    row = app.one(f"SELECT * FROM {table} WHERE id = ?", id)
    if row is None:
        raise ToolError(NOT_FOUND)
    return row


# -- invoices and bills -------------------------------------------------------------------------------------------------


def draft_invoice(app: LiveApp, kind: str, contact_id: str, lines: Lines, *, day: date, reference: str | None) -> str:
    """Write a draft and return its id. A draft is not in the ledger."""
    contact = find_contact(app, contact_id)
    require_open(app, day)
    number = reference if kind == "ACCPAY" and reference else ""
    if kind == "ACCREC":
        counted = organisation(app)["next_invoice"]
        app.run("UPDATE organisation SET next_invoice = ?", counted + 1)
        number = f"INV-{counted:04}"
    guid = new_guid(app)
    app.insert(
        "invoice",
        id=guid,
        number=number,
        type=kind,
        contact=contact["id"],
        date=day.isoformat(),
        due_date=(today(app) + _TERM).isoformat(),
        status="DRAFT",
        reference=_text(reference, "Reference") if reference and kind == "ACCREC" else None,
        updated=app.at,
        **lines.sums,
    )
    store_lines(app, guid, lines)
    app.run(f"UPDATE contact SET {'is_customer' if kind == 'ACCREC' else 'is_supplier'} = 1 WHERE id = ?", contact["id"])
    return guid


def post_invoice(app: LiveApp, guid: str) -> None:
    """Put an invoice or a bill into the ledger, as it now is."""
    row = find_row(app, "invoice", guid)
    sales = row["type"] == "ACCREC"
    against = system_account(app, "DEBTORS" if sales else "CREDITORS")
    entries = lines_of(app, guid).entries(app, -1 if sales else 1, against)
    post(app, row["type"], guid, date.fromisoformat(row["date"]), entries, row["contact"])


@ACCOUNTING.event
def invoice_is_approved(app: LiveApp, invoice_id: str) -> None:
    """A draft is approved, and so enters the ledger. For events, pages and setups: no tool does it."""
    row = find_row(app, "invoice", invoice_id)
    if row["status"] not in {"DRAFT", "SUBMITTED"}:
        raise refusal(f"Invoice {row['number']} is {row['status']}; only a draft can be approved")
    require_open(app, date.fromisoformat(row["date"]))
    app.run("UPDATE invoice SET status = 'AUTHORISED', updated = ? WHERE id = ?", app.at, invoice_id)
    post_invoice(app, invoice_id)
    settle(app, invoice_id, row["date"])


@ACCOUNTING.event
def invoice_is_voided(app: LiveApp, invoice_id: str) -> None:
    """An invoice without payments is voided, and leaves the ledger; a draft is deleted. For events, pages and setups."""
    row = find_row(app, "invoice", invoice_id)
    if row["paid"] or row["credited"]:
        raise refusal(f"Invoice {row['number']} has payments or credits; remove them before it is voided")
    status = "DELETED" if row["status"] in {"DRAFT", "SUBMITTED"} else "VOIDED"
    app.run("UPDATE invoice SET status = ?, updated = ? WHERE id = ?", status, app.at, invoice_id)
    unpost(app, invoice_id)


def settle(app: LiveApp, guid: str, day: str) -> None:
    """Work out what is still due on an invoice after a payment or a credit."""
    row = find_row(app, "invoice", guid)
    paid = app.value("SELECT coalesce(sum(amount), 0) FROM payment WHERE invoice = ? AND status = 'AUTHORISED'", guid)
    credited = app.value("SELECT coalesce(sum(amount), 0) FROM allocation WHERE invoice = ?", guid)
    whole = paid + credited == row["total"] and row["status"] in POSTED
    status = "PAID" if whole else "AUTHORISED" if row["status"] == "PAID" else row["status"]
    on = day if whole else None
    app.run(
        "UPDATE invoice SET paid = ?, credited = ?, status = ?, fully_paid_on = ?, updated = ? WHERE id = ?",
        paid,
        credited,
        status,
        on,
        app.at,
        guid,
    )


# -- payments and credits -----------------------------------------------------------------------------------------------


def pay(app: LiveApp, invoice_id: str, account_id: str, amount: int, day: date, reference: str | None) -> str:
    """Record a payment of an invoice or a bill and return its id; `ToolError` if it is not due, or more than is due."""
    invoice = app.one("SELECT * FROM invoice WHERE id = ?", invoice_id)
    if invoice is None:
        raise refusal("Invoice could not be found")
    if invoice["status"] not in POSTED:
        raise refusal("Invoice not of valid status for creating payment")
    account = find_account(app, id=account_id)
    if account["type"] != "BANK":
        raise refusal("The account must be a bank account, or an account that payments are enabled for")
    due = invoice["total"] - invoice["paid"] - invoice["credited"]
    if amount <= 0:
        raise refusal("Payment amount must be greater than zero")
    if amount > due:
        raise refusal(f"Payment amount exceeds the amount outstanding on this document; outstanding is {printed(due)}")
    require_open(app, day)
    guid = new_guid(app)
    values = {"amount": amount, "date": day.isoformat(), "reference": _text(reference, "Reference") if reference else None}
    app.insert("payment", id=guid, invoice=invoice_id, account=account["id"], status="AUTHORISED", updated=app.at, **values)
    sales = invoice["type"] == "ACCREC"
    against, sign = system_account(app, "DEBTORS" if sales else "CREDITORS"), 1 if sales else -1
    post(app, "PAYMENT", guid, day, [Entry(account["code"], sign * amount), Entry(against, -sign * amount)], invoice["contact"])
    settle(app, invoice_id, day.isoformat())
    return guid


def draft_credit_note(app: LiveApp, kind: str, contact_id: str, lines: Lines, *, day: date, reference: str | None) -> str:
    """Write a draft credit note and return its id."""
    contact = find_contact(app, contact_id)
    require_open(app, day)
    counted = organisation(app)["next_credit_note"]
    app.run("UPDATE organisation SET next_credit_note = ?", counted + 1)
    guid = new_guid(app)
    named = {"id": guid, "number": f"CN-{counted:04}", "type": kind, "contact": contact["id"], "date": day.isoformat()}
    text = _text(reference, "Reference") if reference else None
    app.insert("credit_note", **named, status="DRAFT", reference=text, updated=app.at, **lines.sums)
    store_lines(app, guid, lines)
    return guid


@ACCOUNTING.event
def credit_note_is_approved(app: LiveApp, credit_note_id: str) -> None:
    """A draft credit note is approved, and so enters the ledger. For events, pages and setups: no tool does it."""
    row = find_row(app, "credit_note", credit_note_id)
    if row["status"] != "DRAFT":
        raise refusal(f"Credit note {row['number']} is {row['status']}; only a draft can be approved")
    app.run("UPDATE credit_note SET status = 'AUTHORISED', updated = ? WHERE id = ?", app.at, credit_note_id)
    sales = row["type"] == "ACCRECCREDIT"
    entries = lines_of(app, credit_note_id).entries(
        app, 1 if sales else -1, system_account(app, "DEBTORS" if sales else "CREDITORS")
    )
    post(app, row["type"], credit_note_id, date.fromisoformat(row["date"]), entries, row["contact"])


def allocate(app: LiveApp, credit_note_id: str, invoice_id: str, amount: int, day: date) -> None:
    """Set a credit note off against an invoice of the same contact. Nothing is posted: both are in the same control account."""
    note, invoice = find_row(app, "credit_note", credit_note_id), find_row(app, "invoice", invoice_id)
    due = invoice["total"] - invoice["paid"] - invoice["credited"]
    if note["contact"] != invoice["contact"] or note["status"] not in POSTED or invoice["status"] not in POSTED:
        raise refusal("A credit note is allocated to an approved invoice of the same contact, after its own approval")
    if not 0 < amount <= min(due, note["total"] - note["allocated"]):
        raise refusal("The allocation exceeds what is left on the credit note or due on the invoice")
    app.insert(
        "allocation", id=new_guid(app), credit_note=credit_note_id, invoice=invoice_id, amount=amount, date=day.isoformat()
    )
    used = note["allocated"] + amount
    status = "PAID" if used == note["total"] else note["status"]
    app.run("UPDATE credit_note SET allocated = ?, status = ?, updated = ? WHERE id = ?", used, status, app.at, credit_note_id)
    settle(app, invoice_id, day.isoformat())


# -- bank transactions and journals -------------------------------------------------------------------------------------


def post_bank_transaction(app: LiveApp, guid: str) -> None:
    """Put a bank transaction into the ledger, as it now is."""
    row = find_row(app, "bank_transaction", guid)
    code = find_account(app, id=row["bank_account"])["code"]
    entries = lines_of(app, guid).entries(app, 1 if row["type"] == "SPEND" else -1, code)
    post(app, row["type"], guid, date.fromisoformat(row["date"]), entries, row["contact"])


def store_journal(app: LiveApp, guid: str, given: Sequence[Json], kind: str) -> None:
    """Check and store the lines of a manual journal; `ToolError` if debits and credits differ."""
    if len(given) < 2 or len(given) > _MAX_LINES:
        raise refusal(f"A manual journal needs at least two lines, and at most {_MAX_LINES}")
    rows: list[Json] = []
    for position, line in enumerate(given):
        account = find_account(app, code=line["accountCode"])
        if account["system"] in {"DEBTORS", "CREDITORS"} or account["type"] == "BANK":
            raise refusal(f"Account code '{account['code']}' is not valid here; journals cannot post to bank or control accounts")
        amount = exact_cents(line["lineAmount"], "LineAmount")
        kind_of_tax = line.get("taxType") or account["tax_type"]
        rate = app.value("SELECT rate FROM tax_rate WHERE type = ?", kind_of_tax)
        if rate is None:
            raise refusal(
                f"The TaxType code '{str(kind_of_tax)[:40]}' does not exist or cannot be used for this type of transaction."
            )
        tax = 0 if kind == "NO_TAX" else tax_on(amount, rate) if kind == "EXCLUSIVE" else amount - _net(amount, rate)
        text = _text(line.get("description") or "", "Description") or None
        net = amount - tax if kind == "INCLUSIVE" else amount
        rows.append(
            {
                "position": position,
                "amount": net,
                "account": account["code"],
                "description": text,
                "tax_type": kind_of_tax,
                "tax": tax,
            }
        )
    debits = sum(row["amount"] + row["tax"] for row in rows if row["amount"] > 0)
    credited = -sum(row["amount"] + row["tax"] for row in rows if row["amount"] < 0)
    if debits != credited:
        raise refusal(f"The total debits ({printed(debits)}) must equal total credits ({printed(credited)})")
    app.run("DELETE FROM journal_line WHERE journal = ?", guid)
    for row in rows:
        app.insert("journal_line", journal=guid, **row)


def _net(cents: int, rate: str) -> int:
    net = cents_of(Decimal(abs(cents)) / (100 + Decimal(rate)))
    return net if cents >= 0 else -net


def post_journal(app: LiveApp, guid: str) -> None:
    """Put a manual journal into the ledger if it is posted, and take it out if it is not."""
    row = find_row(app, "manual_journal", guid)
    if row["status"] != "POSTED":
        unpost(app, guid)
        return
    lines = app.rows("SELECT * FROM journal_line WHERE journal = ? ORDER BY position", guid)
    entries = [Entry(line["account"], line["amount"]) for line in lines]
    taxes = sum(line["tax"] for line in lines)
    post(app, "MANJOURNAL", guid, date.fromisoformat(row["date"]), [*entries, Entry(system_account(app, "GST"), taxes)])
