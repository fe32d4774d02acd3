"""The tools that write into the books. As with the public server, invoices and credit notes are entered as drafts."""

import functools
import json
import re
from collections.abc import Callable
from datetime import date as day_type
from typing import Any

from sandlot.apps.accounting.documents import (
    draft_credit_note,
    draft_invoice,
    find_contact,
    find_row,
    lines_of,
    new_guid,
    pay,
    post_bank_transaction,
    post_journal,
    price,
    store_journal,
    store_lines,
)
from sandlot.apps.accounting.ledger import ACCOUNTING, find_account, organisation, refusal, require_open, require_role, today
from sandlot.apps.accounting.listing import journal_line_text
from sandlot.apps.accounting.money import exact_cents, parse_day, shown
from sandlot.apps.live import LiveApp
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+\Z")
_Function = Callable[..., str]


def _entering(name: str, what: str) -> Callable[[_Function], _Function]:
    """Register a tool whose refusals begin as the server's do: `Error creating invoice: ...`."""

    def mark(function: _Function) -> _Function:
        @functools.wraps(function)
        def called(*arguments: Any, **keywords: Any) -> str:
            try:
                return function(*arguments, **keywords)
            except ToolError as error:
                raise ToolError(f"Error {what}: {error}") from error

        ACCOUNTING.tool(name=name)(called)
        return function

    return mark


def _lines(*lines: str | None) -> str:
    return "\n".join(line for line in lines if line)


def _link(app: LiveApp, path: str) -> str:
    return f"Link to view: https://go.xero.com/app/{organisation(app)['short_code']}/{path}"


def _name(app: LiveApp, contact_id: str) -> str:
    return str(app.value("SELECT name FROM contact WHERE id = ?", contact_id))


# -- contacts -----------------------------------------------------------------------------------------------------------


@_entering("create-contact", "creating contact")
def _create_contact(app: LiveApp, *, name: str, email: str | None = None, phone: str | None = None) -> str:
    require_role(app, "invoice_only")
    _require_name(app, name, None)
    _require_email(email)
    guid = new_guid(app)
    app.insert("contact", id=guid, name=name.strip(), email=email, phone=phone, updated=app.at)
    return _lines(f"Contact created: {name.strip()} (ID: {guid})", _link(app, f"contacts/contact/{guid}"))


def _require_name(app: LiveApp, name: str, own: str | None) -> None:
    if not name.strip() or len(name) > 255:
        raise refusal("Contact name is required and has at most 255 characters")
    other = app.one("SELECT id FROM contact WHERE name = ? COLLATE NOCASE", name.strip())
    if other is not None and other["id"] != own:
        raise refusal(
            f"The contact name {name.strip()[:80]} is already assigned to another contact. The contact name must be unique."
        )


def _require_email(email: str | None) -> None:
    if email and not _ADDRESS.match(email):
        raise refusal("Email address must be valid.")


@_entering("update-contact", "updating contact")
def _update_contact(
    app: LiveApp,
    *,
    contact_id: str,
    name: str,
    first_name: str | None = None,
    last_name: str | None = None,
    email: str | None = None,
    phone: str | None = None,
    address: Json | None = None,
) -> str:
    require_role(app, "invoice_only")
    find_row(app, "contact", contact_id)
    _require_name(app, name, contact_id)
    _require_email(email)
    given = {"name": name.strip(), "first_name": first_name, "last_name": last_name, "email": email, "phone": phone}
    given |= {"address": json.dumps(address, sort_keys=True) if address else None}
    for column, value in given.items():
        if value is not None:
            app.run(f"UPDATE contact SET {column} = ? WHERE id = ?", value, contact_id)
    app.run("UPDATE contact SET updated = ? WHERE id = ?", app.at, contact_id)
    return _lines(f"Contact updated: {name.strip()} (ID: {contact_id})", _link(app, f"contacts/contact/{contact_id}"))


# -- invoices and credit notes ------------------------------------------------------------------------------------------


@_entering("create-invoice", "creating invoice")
def _create_invoice(
    app: LiveApp,
    *,
    contact_id: str,
    line_items: list[Json],
    type: str,
    reference: str | None = None,
    date: str | None = None,
) -> str:
    require_role(app, "invoice_only")
    day = parse_day(date, today(app))
    guid = draft_invoice(app, type, contact_id, price(app, line_items), day=day, reference=reference)
    return _invoice_text(app, "Invoice created successfully:", guid, dated=True)


def _invoice_text(app: LiveApp, head: str, guid: str, *, dated: bool) -> str:
    row = find_row(app, "invoice", guid)
    return _lines(
        head,
        f"ID: {guid}",
        f"Contact: {_name(app, row['contact'])}",
        f"Type: {row['type']}",
        f"Date: {row['date']}" if dated else None,
        f"Total: {shown(row['total'])}",
        f"Status: {row['status']}",
        _link(app, f"invoicing/view/{guid}" if row["type"] == "ACCREC" else f"bills/view/{guid}"),
    )


def _update_draft(app: LiveApp, table: str, row: Json, lines: list[Json] | None, changes: Json) -> None:
    """Change a document: its lines if given, and the columns that are not None."""
    if changes.get("date"):
        require_open(app, parse_day(changes["date"], today(app)))
    if changes.get("due_date"):
        parse_day(changes["due_date"], today(app))
    if changes.get("contact"):
        find_contact(app, changes["contact"])
    if lines is not None:
        priced = price(app, lines)
        store_lines(app, row["id"], priced)
        changes = changes | priced.sums
    for column, value in changes.items():
        if value is not None:
            app.run(f"UPDATE {table} SET {column} = ? WHERE id = ?", value, row["id"])
    app.run(f"UPDATE {table} SET updated = ? WHERE id = ?", app.at, row["id"])


@_entering("update-invoice", "updating invoice")
def _update_invoice(
    app: LiveApp,
    *,
    invoice_id: str,
    line_items: list[Json] | None = None,
    reference: str | None = None,
    due_date: str | None = None,
    date: str | None = None,
    contact_id: str | None = None,
) -> str:
    require_role(app, "invoice_only")
    row = find_row(app, "invoice", invoice_id)
    if row["status"] != "DRAFT":
        raise ToolError(f"Cannot update invoice because it is not a draft. Current status: {row['status']}")
    _update_draft(
        app, "invoice", row, line_items, {"reference": reference, "due_date": due_date, "date": date, "contact": contact_id}
    )
    return _invoice_text(app, "Invoice updated successfully:", invoice_id, dated=False)


@_entering("create-credit-note", "creating credit note")
def _create_credit_note(app: LiveApp, *, contact_id: str, line_items: list[Json], reference: str | None = None) -> str:
    require_role(app, "invoice_only")
    lines = price(app, line_items)
    guid = draft_credit_note(app, "ACCRECCREDIT", contact_id, lines, day=today(app), reference=reference)
    return _credit_note_text(app, "Credit note created successfully:", guid)


@_entering("update-credit-note", "updating credit note")
def _update_credit_note(
    app: LiveApp,
    *,
    credit_note_id: str,
    line_items: list[Json] | None = None,
    reference: str | None = None,
    date: str | None = None,
    contact_id: str | None = None,
) -> str:
    require_role(app, "invoice_only")
    row = find_row(app, "credit_note", credit_note_id)
    if row["status"] != "DRAFT":
        raise ToolError(f"Cannot update credit note because it is not a draft. Current status: {row['status']}")
    _update_draft(app, "credit_note", row, line_items, {"reference": reference, "date": date, "contact": contact_id})
    return _credit_note_text(app, "Credit note updated successfully:", credit_note_id)


def _credit_note_text(app: LiveApp, head: str, guid: str) -> str:
    row = find_row(app, "credit_note", guid)
    named = (f"ID: {guid}", f"Contact: {_name(app, row['contact'])}", f"Total: {shown(row['total'])}", f"Status: {row['status']}")
    return _lines(head, *named, _link(app, f"credit-notes/view/{guid}"))


# -- payments, the bank, journals ---------------------------------------------------------------------------------------


@_entering("create-payment", "creating payment")
def _create_payment(
    app: LiveApp, *, invoice_id: str, account_id: str, amount: float, date: str | None = None, reference: str | None = None
) -> str:
    require_role(app, "standard")
    day = parse_day(date, today(app))
    guid = pay(app, invoice_id, account_id, exact_cents(amount, "Amount"), day, reference)
    number = app.value("SELECT number FROM invoice WHERE id = ?", invoice_id)
    row = find_row(app, "payment", guid)
    named = (
        f"ID: {guid}",
        f"Reference: {reference or 'undefined'}",
        f"Invoice Number: {number}",
        f"Amount: {shown(row['amount'])}",
    )
    return _lines("Invoice created successfully:", *named, f"Status: {row['status']}", _link(app, f"payments/view/{guid}"))


@_entering("create-bank-transaction", "creating bank transaction")
def _create_bank_transaction(
    app: LiveApp,
    *,
    type: str,
    bank_account_id: str,
    contact_id: str,
    line_items: list[Json],
    reference: str | None = None,
    date: str | None = None,
) -> str:
    require_role(app, "standard")
    if find_account(app, id=bank_account_id)["type"] != "BANK":
        raise refusal("The bank account must be an account of type BANK")
    find_contact(app, contact_id)
    day = parse_day(date, today(app))
    require_open(app, day)
    lines = price(app, line_items)
    if lines.subtotal + lines.tax < 0:
        raise refusal("The total of a bank transaction cannot be negative; use the other type instead")
    guid = new_guid(app)
    named = {"id": guid, "type": type, "bank_account": bank_account_id, "contact": contact_id, "date": day.isoformat()}
    app.insert("bank_transaction", **named, status="AUTHORISED", reference=reference, updated=app.at, **lines.sums)
    store_lines(app, guid, lines)
    post_bank_transaction(app, guid)
    return _bank_text(app, "Bank transaction successfully:", guid)


def _bank_text(app: LiveApp, head: str, guid: str) -> str:
    row = find_row(app, "bank_transaction", guid)
    named = (f"ID: {guid}", f"Date: {row['date']}", f"Contact: {_name(app, row['contact'])}", f"Total: {shown(row['total'])}")
    link = f"Link to view: https://go.xero.com/Bank/ViewTransaction.aspx?bankTransactionID={guid}&accountID={row['bank_account']}"
    return _lines(head, *named, f"Status: {row['status']}", link)


@_entering("update-bank-transaction", "updating bank transaction")
def _update_bank_transaction(
    app: LiveApp,
    *,
    bank_transaction_id: str,
    type: str | None = None,
    contact_id: str | None = None,
    line_items: list[Json] | None = None,
    reference: str | None = None,
    date: str | None = None,
) -> str:
    require_role(app, "standard")
    row = find_row(app, "bank_transaction", bank_transaction_id)
    if row["reconciled"]:
        raise refusal("This Bank Transaction cannot be edited as it has been reconciled with a Bank Statement.")
    require_open(app, day_type.fromisoformat(row["date"]))
    _update_draft(
        app, "bank_transaction", row, line_items, {"type": type, "contact": contact_id, "reference": reference, "date": date}
    )
    lines = lines_of(app, bank_transaction_id)
    if lines.subtotal + lines.tax < 0:
        raise refusal("The total of a bank transaction cannot be negative; use the other type instead")
    post_bank_transaction(app, bank_transaction_id)
    return _bank_text(app, "Bank transaction updated successfully:", bank_transaction_id)


@_entering("create-manual-journal", "creating manual journal")
def _create_manual_journal(
    app: LiveApp,
    *,
    narration: str,
    manual_journal_lines: list[Json],
    date: str | None = None,
    line_amount_types: str | None = None,
    status: str | None = None,
    url: str | None = None,
    show_on_cash_basis_reports: bool | None = None,
) -> str:
    require_role(app, "adviser")
    if status not in {None, "DRAFT", "POSTED"}:
        raise refusal("A new manual journal is DRAFT or POSTED")
    if not narration.strip():
        raise refusal("A narration is required")
    day = parse_day(date, today(app))
    require_open(app, day)
    guid, kind = new_guid(app), line_amount_types or "NO_TAX"
    cash = int(show_on_cash_basis_reports is not False)
    named = {"id": guid, "narration": narration, "date": day.isoformat(), "status": status or "DRAFT", "line_amount_types": kind}
    app.insert("manual_journal", **named, url=url, cash_basis=cash, updated=app.at)
    store_journal(app, guid, manual_journal_lines, kind)
    post_journal(app, guid)
    return _journal_text(app, f"Manual journal created: {narration} (ID: {guid})", guid)


def _journal_text(app: LiveApp, head: str, guid: str) -> str:
    row = find_row(app, "manual_journal", guid)
    lines = app.rows("SELECT * FROM journal_line WHERE journal = ? ORDER BY position", guid)
    return _lines(
        head,
        f"Date: {row['date']}",
        f"Status: {row['status']}",
        ",".join(map(journal_line_text, lines)),
        f"Show on Cash Basis Reports: {'true' if row['cash_basis'] else 'false'}",
        f"Link to view: https://go.xero.com/Journal/View.aspx?invoiceID={guid}",
    )


@_entering("update-manual-journal", "updating manual journal")
def _update_manual_journal(
    app: LiveApp,
    *,
    narration: str,
    manual_journal_id: str,
    manual_journal_lines: list[Json],
    date: str | None = None,
    line_amount_types: str | None = None,
    status: str | None = None,
    url: str | None = None,
    show_on_cash_basis_reports: bool | None = None,
) -> str:
    require_role(app, "adviser")
    row = find_row(app, "manual_journal", manual_journal_id)
    if row["status"] != "DRAFT":
        raise ToolError(f"Cannot update manual journal because it is not a draft. Current status: {row['status']}")
    day = parse_day(date, day_type.fromisoformat(row["date"]))
    require_open(app, day)
    kind = line_amount_types or row["line_amount_types"]
    cash = row["cash_basis"] if show_on_cash_basis_reports is None else int(show_on_cash_basis_reports)
    app.run(
        "UPDATE manual_journal SET narration = ?, date = ?, status = ?, line_amount_types = ?, url = ?, cash_basis = ?,"
        " updated = ? WHERE id = ?",
        narration,
        day.isoformat(),
        status or row["status"],
        kind,
        url or row["url"],
        cash,
        app.at,
        manual_journal_id,
    )
    store_journal(app, manual_journal_id, manual_journal_lines, kind)
    post_journal(app, manual_journal_id)
    return _journal_text(app, f"Manual journal updated: {narration} (ID: {manual_journal_id})", manual_journal_id)
