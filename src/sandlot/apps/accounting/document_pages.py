"""The pages of documents: invoices and bills, credit notes, bank transactions, manual journals.

What the public server only does in its own pages, such as approving a draft, has a button here, with the rules of the event of
that name. The one who presses it needs the role that entering payments needs.
"""

from collections.abc import Callable
from typing import Any

from sandlot.apps.accounting.documents import (
    allocate,
    credit_note_is_approved,
    find_row,
    invoice_is_approved,
    invoice_is_voided,
    lines_of,
)
from sandlot.apps.accounting.ledger import ACCOUNTING, require_role, today
from sandlot.apps.accounting.money import cents_of
from sandlot.apps.accounting.page_forms import (
    BOOK_TOOLS,
    PAGE_SIZE,
    account_choices,
    amount_of,
    book_page,
    document_form,
    document_lines,
    guid_of,
)
from sandlot.apps.live import LiveApp
from sandlot.apps.page_tools import listed
from sandlot.apps.pages import PageRequest, PageResponse
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_NAMES = {"ACCREC": "Invoice", "ACCPAY": "Bill"}
_JOURNAL_ROWS = 10
"""Lines that the form of a journal offers."""


# -- invoices and bills -------------------------------------------------------------------------------------------------


@ACCOUNTING.page("GET", "/invoices")
def _invoices(app: LiveApp, request: PageRequest) -> PageResponse:
    kind = "ACCPAY" if request.query.get("type") == "ACCPAY" else "ACCREC"
    status, query = request.query.get("status", ""), request.query.get("q", "").strip()
    rows = app.rows(
        "SELECT i.*, c.name AS contact_name FROM invoice i JOIN contact c ON c.id = i.contact WHERE i.type = ?1 AND"
        " i.status <> 'DELETED' AND (?2 = '' OR i.status = ?2) AND (?3 = '' OR instr(lower(i.number), lower(?3))"
        " OR instr(lower(c.name), lower(?3)) OR instr(lower(coalesce(i.reference, '')), lower(?3)))"
        " ORDER BY i.date DESC, i.rowid DESC",
        kind, status, query,
    )  # fmt: skip
    return book_page(
        app, "invoices.html", kind=kind, name=_NAMES[kind], status=status, query=query, found=listed(rows, request, PAGE_SIZE)
    )


def _invoice_row(app: LiveApp, guid: str) -> Json:
    require_role(app, "read_only")
    row = find_row(app, "invoice", guid)
    return row | {
        "contact_name": find_row(app, "contact", row["contact"])["name"],
        "due": row["total"] - row["paid"] - row["credited"],
    }


@ACCOUNTING.page("GET", "/invoice/{guid}")
def _invoice(app: LiveApp, _request: PageRequest, guid: str) -> PageResponse:
    row = _invoice_row(app, guid)
    payments = app.rows(
        "SELECT p.*, a.name AS account_name FROM payment p JOIN account a ON a.id = p.account WHERE p.invoice = ?"
        " ORDER BY p.date",
        guid,
    )
    credited = app.rows(
        "SELECT a.*, n.number FROM allocation a JOIN credit_note n ON n.id = a.credit_note WHERE a.invoice = ? ORDER BY a.date",
        guid,
    )
    lines, banks = lines_of(app, guid).rows, account_choices(app, bank=True)
    name = _NAMES[row["type"]]
    return book_page(app, "invoice.html", row=row, name=name, lines=lines, payments=payments, credits=credited, banks=banks)


@ACCOUNTING.page("GET", "/invoices/new")
def _new_invoice(app: LiveApp, request: PageRequest) -> PageResponse:
    kind = "ACCPAY" if request.query.get("type") == "ACCPAY" else "ACCREC"
    title = "New bill" if kind == "ACCPAY" else "New invoice"
    return document_form(app, f"/invoices/new?type={kind}", title, contact=request.query.get("contact", ""))


@ACCOUNTING.page("POST", "/invoices/new")
def _create_invoice(app: LiveApp, request: PageRequest) -> PageResponse:
    form, kind = request.form, "ACCPAY" if request.query.get("type") == "ACCPAY" else "ACCREC"
    made = BOOK_TOOLS.do(
        app,
        "create-invoice",
        contactId=form.get("contact", ""),
        lineItems=document_lines(request),
        type=kind,
        reference=form.get("reference") or None,
        date=form.get("date") or None,
    )
    return PageResponse.redirect(f"/invoice/{guid_of(made)}")


@ACCOUNTING.page("GET", "/invoice/{guid}/edit")
def _edit_invoice(app: LiveApp, _request: PageRequest, guid: str) -> PageResponse:
    row = _invoice_row(app, guid)
    fields = {
        "contact": row["contact"],
        "reference": row["reference"] or "",
        "date": row["date"],
        "due_date": row["due_date"] or "",
    }
    title = f"Edit {_NAMES[row['type']].lower()} {row['number']}"
    return document_form(app, f"/invoice/{guid}/edit", title, lines=lines_of(app, guid).rows, **fields)


@ACCOUNTING.page("POST", "/invoice/{guid}/edit")
def _update_invoice(app: LiveApp, request: PageRequest, guid: str) -> PageResponse:
    form = request.form
    given = {"reference": form.get("reference"), "dueDate": form.get("due_date"), "date": form.get("date")}
    given = {name: value for name, value in given.items() if value}
    BOOK_TOOLS.do(
        app, "update-invoice", invoiceId=guid, contactId=form.get("contact", ""), lineItems=document_lines(request), **given
    )
    return PageResponse.redirect(f"/invoice/{guid}")


@ACCOUNTING.page("POST", "/invoice/{guid}/approve")
def _approve(app: LiveApp, _request: PageRequest, guid: str) -> PageResponse:
    _decide(app, invoice_is_approved, invoice_id=guid)
    return PageResponse.redirect(f"/invoice/{guid}")


@ACCOUNTING.page("POST", "/invoice/{guid}/void")
def _void(app: LiveApp, _request: PageRequest, guid: str) -> PageResponse:
    _decide(app, invoice_is_voided, invoice_id=guid)
    return PageResponse.redirect(f"/invoice/{guid}")


def _decide(app: LiveApp, act: Callable[..., None], **arguments: Any) -> None:
    """What has no tool: for those who may enter payments."""
    require_role(app, "standard")
    try:
        act(app, **arguments)
    except ToolError as error:
        raise ToolError(str(error).removeprefix("400 A validation exception occurred: ")) from error


@ACCOUNTING.page("POST", "/invoice/{guid}/pay")
def _pay(app: LiveApp, request: PageRequest, guid: str) -> PageResponse:
    form = request.form
    BOOK_TOOLS.do(
        app,
        "create-payment",
        invoiceId=guid,
        accountId=form.get("bank", ""),
        amount=amount_of(form.get("amount", ""), "The amount"),
        date=form.get("date") or None,
        reference=form.get("reference") or None,
    )
    return PageResponse.redirect(f"/invoice/{guid}")


# -- credit notes -------------------------------------------------------------------------------------------------------


@ACCOUNTING.page("GET", "/credit-notes")
def _credit_notes(app: LiveApp, request: PageRequest) -> PageResponse:
    rows = app.rows(
        "SELECT n.*, c.name AS contact_name FROM credit_note n JOIN contact c ON c.id = n.contact"
        " ORDER BY n.date DESC, n.rowid DESC"
    )
    return book_page(app, "credit_notes.html", found=listed(rows, request, PAGE_SIZE))


@ACCOUNTING.page("GET", "/credit-notes/new")
def _new_credit_note(app: LiveApp, request: PageRequest) -> PageResponse:
    return document_form(app, "/credit-notes/new", "New credit note", contact=request.query.get("contact", ""), date=None)


@ACCOUNTING.page("POST", "/credit-notes/new")
def _create_credit_note(app: LiveApp, request: PageRequest) -> PageResponse:
    form, lines = request.form, document_lines(request)
    reference = form.get("reference") or None
    made = BOOK_TOOLS.do(app, "create-credit-note", contactId=form.get("contact", ""), lineItems=lines, reference=reference)
    return PageResponse.redirect(f"/credit-note/{guid_of(made)}")


@ACCOUNTING.page("GET", "/credit-note/{guid}")
def _credit_note(app: LiveApp, _request: PageRequest, guid: str) -> PageResponse:
    require_role(app, "read_only")
    row = find_row(app, "credit_note", guid)
    kind = "ACCREC" if row["type"] == "ACCRECCREDIT" else "ACCPAY"
    open_to = app.rows(
        "SELECT * FROM invoice WHERE contact = ? AND type = ? AND status = 'AUTHORISED' ORDER BY date", row["contact"], kind
    )
    contact, lines = find_row(app, "contact", row["contact"])["name"], lines_of(app, guid).rows
    return book_page(app, "credit_note.html", row=row, contact=contact, lines=lines, open_to=open_to)


@ACCOUNTING.page("POST", "/credit-note/{guid}/approve")
def _approve_credit_note(app: LiveApp, _request: PageRequest, guid: str) -> PageResponse:
    _decide(app, credit_note_is_approved, credit_note_id=guid)
    return PageResponse.redirect(f"/credit-note/{guid}")


@ACCOUNTING.page("POST", "/credit-note/{guid}/allocate")
def _allocate(app: LiveApp, request: PageRequest, guid: str) -> PageResponse:
    amount = cents_of(str(amount_of(request.form.get("amount", ""), "The amount")))
    _decide(app, allocate, credit_note_id=guid, invoice_id=request.form.get("invoice", ""), amount=amount, day=today(app))
    return PageResponse.redirect(f"/credit-note/{guid}")


# -- the bank, journals, reports ----------------------------------------------------------------------------------------


@ACCOUNTING.page("GET", "/bank")
def _bank(app: LiveApp, request: PageRequest) -> PageResponse:
    account = request.query.get("account", "")
    rows = app.rows(
        "SELECT t.*, c.name AS contact_name, a.name AS account_name FROM bank_transaction t JOIN contact c ON c.id = t.contact"
        " JOIN account a ON a.id = t.bank_account WHERE ?1 = '' OR t.bank_account = ?1 ORDER BY t.date DESC, t.rowid DESC",
        account,
    )
    return book_page(
        app, "bank.html", account=account, banks=account_choices(app, bank=True), found=listed(rows, request, PAGE_SIZE)
    )


_BANK_KINDS = [("SPEND", "Spend money"), ("RECEIVE", "Receive money")]


@ACCOUNTING.page("GET", "/bank/new")
def _new_bank(app: LiveApp, _request: PageRequest) -> PageResponse:
    return document_form(app, "/bank/new", "New bank transaction", bank="", kinds=_BANK_KINDS)


@ACCOUNTING.page("POST", "/bank/new")
def _create_bank(app: LiveApp, request: PageRequest) -> PageResponse:
    form = request.form
    BOOK_TOOLS.do(
        app,
        "create-bank-transaction",
        type=form.get("kind", ""),
        bankAccountId=form.get("bank", ""),
        contactId=form.get("contact", ""),
        lineItems=document_lines(request),
        reference=form.get("reference") or None,
        date=form.get("date") or None,
    )
    return PageResponse.redirect("/bank")


@ACCOUNTING.page("GET", "/journals")
def _journals(app: LiveApp, request: PageRequest) -> PageResponse:
    rows = app.rows("SELECT * FROM manual_journal ORDER BY date DESC, rowid DESC")
    return book_page(app, "journals.html", found=listed(rows, request, PAGE_SIZE))


@ACCOUNTING.page("GET", "/journals/new")
def _new_journal(app: LiveApp, _request: PageRequest) -> PageResponse:
    rows = app.rows(
        "SELECT * FROM account WHERE status = 'ACTIVE' AND type <> 'BANK'"
        " AND coalesce(system, '') NOT IN ('DEBTORS', 'CREDITORS') ORDER BY code"
    )
    accounts = [(row["code"], f"{row['code']} {row['name']}") for row in rows]
    return book_page(app, "journal_edit.html", accounts=accounts, rows=range(1, _JOURNAL_ROWS + 1))


@ACCOUNTING.page("POST", "/journals/new")
def _create_journal(app: LiveApp, request: PageRequest) -> PageResponse:
    form = request.form
    found: list[Json] = []
    for place in range(1, 201):
        debit, credit = (form.get(f"{side}{place}", "").strip() for side in ("debit", "credit"))
        if not debit and not credit:
            continue
        if debit and credit:
            raise ToolError(f"Line {place} has a debit and a credit; give one of them.")
        amount = amount_of(debit, f"The debit of line {place}") if debit else -amount_of(credit, f"The credit of line {place}")
        text = form.get(f"description{place}", "")
        found.append({"lineAmount": amount, "accountCode": form.get(f"account{place}", ""), "description": text})
    made = BOOK_TOOLS.do(
        app,
        "create-manual-journal",
        narration=form.get("narration", ""),
        manualJournalLines=found,
        date=form.get("date") or None,
        status="DRAFT" if form.get("act") == "draft" else "POSTED",
    )
    return PageResponse.redirect(f"/journal/{guid_of(made)}")


@ACCOUNTING.page("GET", "/journal/{guid}")
def _journal(app: LiveApp, _request: PageRequest, guid: str) -> PageResponse:
    require_role(app, "read_only")
    row = find_row(app, "manual_journal", guid)
    lines = app.rows(
        "SELECT l.*, a.name AS account_name FROM journal_line l JOIN account a ON a.code = l.account WHERE journal = ?"
        " ORDER BY position",
        guid,
    )
    return book_page(app, "journal.html", row=row, lines=lines)
