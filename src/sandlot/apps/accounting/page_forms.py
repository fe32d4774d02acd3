"""What the pages of the books share: the frame of a page, what a form offers, and the lines of a document."""

import re
from pathlib import Path
from typing import Any

from sandlot.apps.accounting.ledger import ACCOUNTING, organisation, require_role, today
from sandlot.apps.accounting.money import printed
from sandlot.apps.live import LiveApp
from sandlot.apps.page_tools import PageTools
from sandlot.apps.pages import PageRequest, PageResponse, render
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_HERE = Path(__file__).parent / "templates"
_WORDS = (
    r"\A(MCP error -\d+: Input validation error: Invalid arguments for tool [\w-]+: |Error [a-z ]+: "
    r"|400 A validation exception occurred: )+"
)
BOOK_TOOLS = PageTools(ACCOUNTING, _WORDS)
"""The tools of the books."""
PAGE_SIZE = 25
"""Rows of a list."""
_ROWS = 5
"""Empty lines that the form of a document offers."""


def book_page(app: LiveApp, template: str, **values: Any) -> PageResponse:
    """A page of the books; `ToolError` if the actor may not read them."""
    require_role(app, "read_only")
    return render(
        _HERE, template, actor=app.actor, company=organisation(app)["name"], currency=organisation(app)["base_currency"],
        printed=printed, day=today(app).isoformat(), **values,
    )  # fmt: skip


def guid_of(made: str) -> str:
    """The id in what a tool answers: `ID: ...` or `(ID: ...)`."""
    return made.split("ID: ", 1)[1].split("\n", 1)[0].rstrip(")")


def contact_choices(app: LiveApp) -> list[tuple[str, str]]:
    """The contacts that a form offers: id and name."""
    rows = app.rows("SELECT id, name FROM contact WHERE status = 'ACTIVE' ORDER BY name COLLATE NOCASE")
    return [(row["id"], row["name"]) for row in rows]


def account_choices(app: LiveApp, *, bank: bool = False) -> list[tuple[str, str]]:
    """The accounts that a line can name; or the bank accounts, by their id."""
    wanted = "type = 'BANK'" if bank else "type <> 'BANK' AND system IS NULL"
    rows = app.rows(f"SELECT * FROM account WHERE status = 'ACTIVE' AND {wanted} ORDER BY code")
    return [(row["id"] if bank else row["code"], f"{row['code']} {row['name']}") for row in rows]


def _taxes(app: LiveApp) -> list[tuple[str, str]]:
    return [(row["type"], row["name"]) for row in app.rows("SELECT * FROM tax_rate WHERE status = 'ACTIVE' ORDER BY rowid")]


def document_form(app: LiveApp, action: str, title: str, **values: Any) -> PageResponse:
    """The form of a document with lines."""
    fields: Json = {"contact": "", "reference": "", "date": today(app).isoformat(), "due_date": None, "bank": None, "kinds": []}
    empty = [{"description": "", "quantity": "", "unit_amount": "", "account": "", "tax_type": ""}]
    given = list(values.pop("lines", ()))
    fields |= values
    fields |= {"lines": given + empty * max(2, _ROWS - len(given)), "banks": account_choices(app, bank=True)}
    choices = {"contacts": contact_choices(app), "accounts": account_choices(app), "taxes": _taxes(app)}
    return book_page(app, "document.html", action=action, title=title, **choices, **fields)


def document_lines(request: PageRequest) -> list[Json]:
    """The lines of the form as a tool takes them; a line without a description is left out."""
    form = request.form
    found: list[Json] = []
    for place in range(1, 201):
        given = {name: form.get(f"{name}{place}", "").strip() for name in ("description", "quantity", "price", "account", "tax")}
        if not given["description"]:
            continue
        numbers = {name: amount_of(given[source], f"{what} of line {place}") for name, source, what in _AMOUNTS}
        found.append(
            {"description": given["description"], **numbers, "accountCode": given["account"], "taxType": given["tax"] or "NONE"}
        )
    return found


_AMOUNTS = (("quantity", "quantity", "The quantity"), ("unitAmount", "price", "The price"))


def amount_of(text: str, what: str) -> float:
    """An amount that a person writes; `ToolError` if it is none. An empty quantity is 1."""
    plain = text.replace(",", "") or ("1" if what.startswith("The quantity") else "")
    if not re.fullmatch(r"-?\d{1,11}(\.\d{1,6})?", plain, re.ASCII):
        raise ToolError(f"{what} is `{text[:40]}`; give a number such as 1200.50.")
    return float(plain)
