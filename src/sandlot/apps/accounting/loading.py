"""Seed data for the accounting app: plain records, or the CSV files of invoices that Xero imports and exports.

Everything is entered through the same functions as the tools, so loaded books balance as entered ones do. Amounts are numbers or
text
in whole units (`"1200.50"`); accounts are named by code, contacts by name, invoices by number.
"""

import csv
import io
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from sandlot.apps.accounting.documents import (
    Lines,
    allocate,
    credit_note_is_approved,
    draft_credit_note,
    draft_invoice,
    invoice_is_approved,
    invoice_is_voided,
    new_guid,
    pay,
    post_bank_transaction,
    post_journal,
    price,
    store_journal,
    store_lines,
)
from sandlot.apps.accounting.money import cents_of
from sandlot.apps.accounting.tables import CLASSES
from sandlot.apps.live import LiveApp
from sandlot.core.errors import ConfigError, ToolError
from sandlot.core.types import Json

CHART: tuple[tuple[str, str, str, str], ...] = (
    ("090", "Business Bank Account", "BANK", "NONE"),
    ("091", "Business Savings Account", "BANK", "NONE"),
    ("200", "Sales", "REVENUE", "OUTPUT2"),
    ("260", "Other Revenue", "OTHERINCOME", "OUTPUT2"),
    ("310", "Cost of Goods Sold", "DIRECTCOSTS", "INPUT2"),
    ("400", "Advertising & Marketing", "EXPENSE", "INPUT2"),
    ("404", "Bank Fees", "EXPENSE", "NONE"),
    ("412", "Consulting & Accounting", "EXPENSE", "INPUT2"),
    ("416", "Depreciation Expense", "DEPRECIATN", "NONE"),
    ("429", "General Expenses", "EXPENSE", "INPUT2"),
    ("433", "Insurance", "EXPENSE", "NONE"),
    ("441", "Legal Expenses", "EXPENSE", "INPUT2"),
    ("445", "Light, Power, Heating", "EXPENSE", "RRINPUT"),
    ("461", "Printing & Stationery", "EXPENSE", "INPUT2"),
    ("463", "IT Software and Consumables", "EXPENSE", "INPUT2"),
    ("469", "Rent", "EXPENSE", "NONE"),
    ("477", "Salaries", "EXPENSE", "NONE"),
    ("485", "Subscriptions", "EXPENSE", "INPUT2"),
    ("489", "Telephone & Internet", "EXPENSE", "INPUT2"),
    ("493", "Travel", "EXPENSE", "NONE"),
    ("620", "Prepayments", "PREPAYMENT", "NONE"),
    ("710", "Office Equipment", "FIXED", "INPUT2"),
    ("711", "Less Accumulated Depreciation on Office Equipment", "FIXED", "NONE"),
    ("805", "Accruals", "CURRLIAB", "NONE"),
    ("814", "Wages Payable", "CURRLIAB", "NONE"),
    ("825", "Employee Tax Payable", "CURRLIAB", "NONE"),
    ("850", "Deferred Revenue", "CURRLIAB", "NONE"),
    ("900", "Loan", "TERMLIAB", "NONE"),
    ("970", "Share Capital", "EQUITY", "NONE"),
)
"""A usual chart of accounts: code, name, type, tax type. The control accounts 610, 800, 820 and 960 are there always."""


def load_accounting(app: LiveApp, seed: Mapping[str, Any]) -> None:
    """Fill the books. All parts are optional.

    - `organisation`: `name`, `legal_name`, `base_currency`, `country`, `tax_number`, `year_end_day`, `year_end_month`,
      `lock_date`.
    - `roles`: `{"ada@example.com": "adviser"}`; also `standard`, `invoice_only`, `read_only`. Without it everyone is an adviser.
    - `accounts`: dicts with `code`, `name`, `type`, optional `tax_type`, `description`; without it `CHART`.
    - `contacts`: dicts with `name`, optional `email`, `first_name`, `last_name`, `phone`, `address`, `tax_number`.
    - `invoices`: dicts with `type` (ACCREC or ACCPAY), `contact`, `date`, `lines`, optional `number`, `due_date`, `reference`,
      `status`
      (AUTHORISED unless given; DRAFT, VOIDED), `payments` (dicts with `date`, `amount`, `account`, `reference`).
    - `credit_notes`: the same with `type` ACCRECCREDIT or ACCPAYCREDIT, and `allocations` (dicts with `invoice`, `amount`,
      `date`).
    - `bank_transactions`: dicts with `type` (RECEIVE or SPEND), `account`, `contact`, `date`, `lines`, optional `reference`,
      `reconciled`.
    - `journals`: dicts with `narration`, `date`, `lines` (dicts with `account`, `amount`, `description`), optional `status`.

    A line is a dict with `description`, `quantity`, `unit_amount`, `account`, and optional `tax_type` (the account's unless
    given).
    """
    usual: list[Json] = [dict(zip(("code", "name", "type", "tax_type"), each, strict=True)) for each in CHART]
    for row in seed.get("accounts") or usual:
        if row["type"] not in CLASSES:
            raise ConfigError(f"accounting: account {row['code']} has the type `{row['type']}`; use one of: {', '.join(CLASSES)}")
        named = {name: row.get(name) for name in ("code", "name", "type", "description")}
        app.insert("account", id=new_guid(app), tax_type=row.get("tax_type") or "NONE", **named)
    for row in seed.get("contacts", ()):
        named = {name: row.get(name) for name in ("name", "email", "first_name", "last_name", "phone", "tax_number")}
        address = row.get("address")
        shown = address if address is None or isinstance(address, str) else json.dumps(address, sort_keys=True)
        app.insert("contact", id=row.get("id") or new_guid(app), address=shown, updated=app.at, **named)
    try:
        for row in seed.get("invoices", ()):
            _load_invoice(app, row)
        for row in seed.get("credit_notes", ()):
            _load_credit_note(app, row)
        for row in seed.get("bank_transactions", ()):
            _load_bank(app, row)
        for row in seed.get("journals", ()):
            _load_journal(app, row)
    except ToolError as error:
        raise ConfigError(f"accounting: {error}") from error
    for email, role in dict(seed.get("roles", {})).items():
        if role not in {"read_only", "invoice_only", "standard", "adviser"}:
            raise ConfigError(f"accounting: `{email}` has the role `{role}`; use read_only, invoice_only, standard or adviser")
        app.insert("role", email=email, role=role)
    for column, value in dict(seed.get("organisation", {})).items():
        app.run(f"UPDATE organisation SET {_column(column)} = ?", value)


def _column(name: str) -> str:
    known = (
        "name",
        "legal_name",
        "short_code",
        "base_currency",
        "country",
        "tax_number",
        "year_end_day",
        "year_end_month",
        "lock_date",
    )
    if name not in known:
        raise ConfigError(f"accounting: an organisation has no `{name}`; it has: {', '.join(known)}")
    return name


def _contact(app: LiveApp, name: str) -> str:
    found = app.value("SELECT id FROM contact WHERE name = ?1 OR id = ?1", name)
    if found is None:
        raise ConfigError(f"accounting: no contact `{name}`; list it under `contacts`")
    return str(found)


def _account_id(app: LiveApp, code: str) -> str:
    found = app.value("SELECT id FROM account WHERE code = ?1 OR id = ?1", code)
    if found is None:
        raise ConfigError(f"accounting: no account `{code}`; list it under `accounts`")
    return str(found)


def _priced(app: LiveApp, lines: list[Json]) -> Lines:
    given = [
        {
            "description": line["description"],
            "quantity": line.get("quantity", 1),
            "unitAmount": line["unit_amount"],
            "accountCode": line["account"],
            "taxType": line.get("tax_type") or app.value("SELECT tax_type FROM account WHERE code = ?", line["account"]),
            "itemCode": line.get("item_code"),
        }
        for line in lines
    ]
    return price(app, given)


def _load_invoice(app: LiveApp, row: Json) -> None:
    day = date.fromisoformat(row["date"])
    guid = draft_invoice(
        app, row["type"], _contact(app, row["contact"]), _priced(app, row["lines"]), day=day, reference=row.get("reference")
    )
    for column in ("number", "due_date"):
        if row.get(column):
            app.run(f"UPDATE invoice SET {column} = ? WHERE id = ?", row[column], guid)
    app.run("UPDATE invoice SET updated = ? WHERE id = ?", f"{row['date']}T09:00:00Z", guid)
    number = str(row.get("number") or "")
    if row["type"] == "ACCREC" and number.removeprefix("INV-").isdigit():
        app.run("UPDATE organisation SET next_invoice = max(next_invoice, ?)", int(number.removeprefix("INV-")) + 1)
    status = row.get("status", "AUTHORISED")
    if status in {"AUTHORISED", "PAID", "VOIDED"}:
        invoice_is_approved(app, guid)
    for paid in row.get("payments", ()):
        account = _account_id(app, paid["account"])
        pay(app, guid, account, cents_of(paid["amount"]), date.fromisoformat(paid["date"]), paid.get("reference"))
    if status == "VOIDED":
        invoice_is_voided(app, guid)


def _load_credit_note(app: LiveApp, row: Json) -> None:
    day = date.fromisoformat(row["date"])
    lines = _priced(app, row["lines"])
    guid = draft_credit_note(app, row["type"], _contact(app, row["contact"]), lines, day=day, reference=row.get("reference"))
    if row.get("number"):
        app.run("UPDATE credit_note SET number = ? WHERE id = ?", row["number"], guid)
    if row.get("status", "AUTHORISED") == "DRAFT":
        return
    credit_note_is_approved(app, guid)
    for part in row.get("allocations", ()):
        invoice = app.value(
            "SELECT id FROM invoice WHERE number = ? AND contact = ?", part["invoice"], _contact(app, row["contact"])
        )
        if invoice is None:
            raise ConfigError(
                f"accounting: credit note {row.get('number')} is allocated to `{part['invoice']}`, no invoice of the contact"
            )
        allocate(app, guid, str(invoice), cents_of(part["amount"]), date.fromisoformat(part["date"]))


def _load_bank(app: LiveApp, row: Json) -> None:
    guid, lines = new_guid(app), _priced(app, row["lines"])
    named = {"type": row["type"], "bank_account": _account_id(app, row["account"]), "contact": _contact(app, row["contact"])}
    flags = {"status": "AUTHORISED", "reconciled": int(row.get("reconciled", False)), "updated": f"{row['date']}T09:00:00Z"}
    app.insert("bank_transaction", id=guid, date=row["date"], reference=row.get("reference"), **named, **flags, **lines.sums)
    store_lines(app, guid, lines)
    post_bank_transaction(app, guid)


def _load_journal(app: LiveApp, row: Json) -> None:
    guid = new_guid(app)
    status = row.get("status", "POSTED")
    values = {"narration": row["narration"], "date": row["date"], "updated": f"{row['date']}T09:00:00Z"}
    app.insert("manual_journal", id=guid, status=status, line_amount_types="NO_TAX", **values)
    lines = [
        {"accountCode": line["account"], "lineAmount": line["amount"], "description": line.get("description")}
        for line in row["lines"]
    ]
    store_journal(app, guid, lines, "NO_TAX")
    post_journal(app, guid)


def read_xero_csv(text: str, kind: str = "ACCREC") -> list[Json]:
    """The invoices of a CSV file in Xero's form, as `load_accounting` takes them; `ConfigError` if columns are missing.

    Lines of one invoice are rows with the same `*InvoiceNumber`.
    """
    rows = list(csv.DictReader(io.StringIO(text)))
    needed = {"ContactName", "InvoiceNumber", "InvoiceDate", "Quantity", "UnitAmount", "AccountCode"}
    found: dict[str, Json] = {}
    for raw in rows:
        row = {(name or "").lstrip("*"): (value or "").strip() for name, value in raw.items() if isinstance(value, str)}
        if missing := needed - row.keys():
            raise ConfigError(f"this is not a file of invoices from Xero; it lacks the columns {', '.join(sorted(missing))}")
        invoice = found.setdefault(
            row["InvoiceNumber"],
            {
                "type": kind,
                "number": row["InvoiceNumber"],
                "contact": row["ContactName"],
                "date": _csv_day(row["InvoiceDate"]),
                "due_date": _csv_day(row["DueDate"]) if row.get("DueDate") else None,
                "reference": row.get("Reference") or None,
                "lines": [],
            },
        )
        line = {"description": row.get("Description") or "-", "quantity": row["Quantity"], "unit_amount": row["UnitAmount"]}
        invoice["lines"].append(line | {"account": row["AccountCode"]})
    return list(found.values())


def _csv_day(text: str) -> str:
    for form in ("%d/%m/%Y", "%Y-%m-%d", "%d %b %Y"):
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).date().isoformat()
        except ValueError:
            continue
    raise ConfigError(f"`{text[:40]}` is not a date as Xero writes it, such as 31/01/2026")
