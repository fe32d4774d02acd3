"""The pages of the books, for agents that use a browser: the dashboard, contacts, accounts, reports. No JavaScript."""

from sandlot.apps.accounting import document_pages
from sandlot.apps.accounting.documents import find_row
from sandlot.apps.accounting.ledger import ACCOUNTING, balances, require_role, today
from sandlot.apps.accounting.money import month_end, parse_day
from sandlot.apps.accounting.page_forms import BOOK_TOOLS, PAGE_SIZE, book_page, guid_of
from sandlot.apps.accounting.reports import aged, balance_sheet, profit_and_loss, trial_balance
from sandlot.apps.live import LiveApp
from sandlot.apps.page_tools import listed
from sandlot.apps.pages import PageRequest, PageResponse
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

__all__ = ["document_pages"]
_NAMES = {"ACCREC": "Invoice", "ACCPAY": "Bill"}


@ACCOUNTING.page("GET", "/")
def _home(app: LiveApp, _request: PageRequest) -> PageResponse:
    sums = balances(app, None, today(app))
    rows = app.rows("SELECT * FROM account WHERE type = 'BANK' ORDER BY code")
    banks = [{**row, "balance": sums.get(row["code"], 0)} for row in rows]
    due: list[Json] = []
    for kind, name in (("ACCREC", "Invoices owed to you"), ("ACCPAY", "Bills you need to pay")):
        rows = app.rows("SELECT * FROM invoice WHERE type = ? AND status = 'AUTHORISED'", kind)
        left = sum(row["total"] - row["paid"] - row["credited"] for row in rows)
        late = [row for row in rows if row["due_date"] and row["due_date"] < today(app).isoformat()]
        overdue = sum(row["total"] - row["paid"] - row["credited"] for row in late)
        drafts = app.value("SELECT count(*) FROM invoice WHERE type = ? AND status = 'DRAFT'", kind)
        due.append(
            {"kind": kind, "name": name, "count": len(rows), "due": left, "late": len(late), "overdue": overdue, "drafts": drafts}
        )
    return book_page(app, "home.html", banks=banks, due=due)


# -- contacts -----------------------------------------------------------------------------------------------------------


@ACCOUNTING.page("GET", "/contacts")
def _contact_list(app: LiveApp, request: PageRequest) -> PageResponse:
    query = request.query.get("q", "").strip()
    rows = app.rows(
        "SELECT * FROM contact WHERE status = 'ACTIVE' AND (?1 = '' OR instr(lower(name), lower(?1))"
        " OR instr(lower(coalesce(email, '')), lower(?1))) ORDER BY name COLLATE NOCASE",
        query,
    )
    return book_page(app, "contacts.html", query=query, found=listed(rows, request, PAGE_SIZE))


@ACCOUNTING.page("GET", "/contacts/new")
def _new_contact(app: LiveApp, _request: PageRequest) -> PageResponse:
    row = {"name": "", "first_name": "", "last_name": "", "email": "", "phone": ""}
    return book_page(app, "contact_edit.html", row=row, action="/contacts/new", title="New contact")


@ACCOUNTING.page("POST", "/contacts/new")
def _create_contact(app: LiveApp, request: PageRequest) -> PageResponse:
    form = request.form
    given = {name: form[name] for name in ("email", "phone") if form.get(name)}
    guid = guid_of(BOOK_TOOLS.do(app, "create-contact", name=form.get("name", ""), **given))
    names = {"first_name": "firstName", "last_name": "lastName"}
    person = {theirs: form[own] for own, theirs in names.items() if form.get(own)}
    if person:
        BOOK_TOOLS.do(app, "update-contact", contactId=guid, name=form["name"], **person)
    return PageResponse.redirect(f"/contact/{guid}")


@ACCOUNTING.page("GET", "/contact/{guid}")
def _contact(app: LiveApp, _request: PageRequest, guid: str) -> PageResponse:
    require_role(app, "read_only")
    row = find_row(app, "contact", guid)
    found = app.rows("SELECT * FROM invoice WHERE contact = ? AND status <> 'DELETED' ORDER BY date DESC, rowid DESC", guid)
    owed = {kind: aged(app, kind, guid, today(app), None, None)[-1]["rows"][-1]["cells"][-1]["value"] for kind in _NAMES}
    return book_page(app, "contact.html", row=row, invoices=found[:100], owed=owed, names=_NAMES)


@ACCOUNTING.page("GET", "/contact/{guid}/edit")
def _edit_contact(app: LiveApp, _request: PageRequest, guid: str) -> PageResponse:
    row = find_row(app, "contact", guid)
    return book_page(app, "contact_edit.html", row=row, action=f"/contact/{guid}/edit", title=f"Edit {row['name']}")


@ACCOUNTING.page("POST", "/contact/{guid}/edit")
def _update_contact(app: LiveApp, request: PageRequest, guid: str) -> PageResponse:
    form = request.form
    names = {"first_name": "firstName", "last_name": "lastName", "email": "email", "phone": "phone"}
    given = {theirs: form[name] for name, theirs in names.items() if form.get(name)}
    BOOK_TOOLS.do(app, "update-contact", contactId=guid, name=form.get("name", ""), **given)
    return PageResponse.redirect(f"/contact/{guid}")


@ACCOUNTING.page("GET", "/accounts")
def _chart(app: LiveApp, _request: PageRequest) -> PageResponse:
    sums = balances(app, None, today(app))
    rows = [{**row, "balance": sums.get(row["code"], 0)} for row in app.rows("SELECT * FROM account ORDER BY code")]
    return book_page(app, "accounts.html", rows=rows)


_REPORTS = {"trial-balance": "Trial balance", "profit-and-loss": "Profit and loss", "balance-sheet": "Balance sheet"}


@ACCOUNTING.page("GET", "/report/{name}")
def _report(app: LiveApp, request: PageRequest, name: str) -> PageResponse:
    if name not in _REPORTS:
        raise ToolError(f"There is no report `{name[:40]}`.")
    last = parse_day(request.query.get("to"), month_end(today(app)) if name == "profit-and-loss" else today(app))
    first = parse_day(request.query.get("from"), last.replace(day=1))
    if first > last:
        raise ToolError("The first day is after the last.")
    match name:
        case "trial-balance":
            rows = trial_balance(app, last)
        case "profit-and-loss":
            rows = profit_and_loss(app, [(first, last)])
        case _:
            rows = balance_sheet(app, [last])
    return book_page(app, "report.html", name=name, title=_REPORTS[name], rows=rows, first=first, last=last)
