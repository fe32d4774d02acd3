"""The tools that list what is in the books, ten a page, as the public server prints it."""

from collections.abc import Iterable

from sandlot.apps.accounting.documents import find_row, lines_of
from sandlot.apps.accounting.ledger import ACCOUNTING, organisation, require_role
from sandlot.apps.accounting.money import parse_day, shown
from sandlot.apps.live import LiveApp
from sandlot.core.types import Json

_PAGE = 10
_CONTACTS_PAGE = 100


def _joined(head: str, blocks: Iterable[list[str | None]]) -> str:
    """A heading and blocks of lines; what is None is left out, as the server does."""
    return "\n".join([head, *("\n".join(line for line in block if line) for block in blocks)])


def _page(page: float | None, size: int = _PAGE) -> str:
    number = max(1, min(int(page or 1), 10**6))
    return f"LIMIT {size} OFFSET {size * (number - 1)}"


def contact_line(app: LiveApp, contact_id: str) -> str:
    """A contact as documents show it."""
    name = app.value("SELECT name FROM contact WHERE id = ?", contact_id)
    return f"Contact: {name} ({contact_id})"


def line_text(line: Json) -> str:
    """One line of a document."""
    return "\n".join(
        [
            "Item ID: undefined",
            f"Item Code: {line['item_code'] or 'undefined'}",
            f"Description: {line['description']}",
            f"Quantity: {line['quantity']}",
            f"Unit Amount: {line['unit_amount']}",
            f"Account Code: {line['account']}",
            f"Tax Type: {line['tax_type']}",
            "Tracking: ",
            f"Line Amount: {shown(line['amount'])}",
        ]
    )


@ACCOUNTING.tool(name="list-accounts")
def _list_accounts(app: LiveApp) -> str:
    require_role(app, "read_only")
    rows = app.rows("SELECT * FROM account ORDER BY code")
    blocks: list[list[str | None]] = [
        [
            f"Account: {row['name']}",
            f"Code: {row['code']}",
            f"ID: {row['id']}",
            f"Type: {row['type']}",
            f"Status: {row['status']}",
            f"Description: {row['description']}" if row["description"] else None,
            f"Tax Type: {row['tax_type']}" if row["tax_type"] else None,
        ]
        for row in rows
    ]
    return _joined(f"Found {len(rows)} accounts:", blocks)


def _applies_to(tax_type: str) -> str:
    if "OUTPUT" in tax_type:
        return " Revenue"
    return " Expenses" if "INPUT" in tax_type else " Assets Equity Expenses Liabilities Revenue"


@ACCOUNTING.tool(name="list-tax-rates")
def _list_tax_rates(app: LiveApp) -> str:
    require_role(app, "read_only")
    rows = app.rows("SELECT * FROM tax_rate ORDER BY rowid")
    blocks: list[list[str | None]] = [
        [
            f"Tax Rate: {row['name']}",
            f"Tax Type: {row['type']}",
            f"Status: {row['status']}",
            f"Display Tax Rate: {row['rate']}%",
            f"Effective Rate: {row['rate']}%",
            f"Can Apply To:{_applies_to(row['type'])}",
        ]
        for row in rows
    ]
    return _joined(f"Found {len(rows)} tax rates:", blocks)


@ACCOUNTING.tool(name="list-organisation-details")
def _list_organisation_details(app: LiveApp) -> str:
    require_role(app, "read_only")
    row = organisation(app)
    lines: list[str | None] = [
        f"Name: {row['name']}",
        f"Legal Name: {row['legal_name']}",
        "Pays Tax: Yes",
        f"Short Code: {row['short_code']}",
        f"Organisation ID: {row['id']}",
        f"Base Currency: {row['base_currency']}",
        f"Country Code: {row['country']}",
        f"Tax Number: {row['tax_number']}" if row["tax_number"] else None,
        f"Financial Year End Day: {row['year_end_day']}",
        f"Financial Year End Month: {row['year_end_month']}",
        f"Period Lock Date: {row['lock_date']}" if row["lock_date"] else None,
        "Is Demo Company: No",
    ]
    return _joined("Organisation Details:", [lines])


def _kinds(row: Json) -> str:
    return ", ".join(kind for kind, column in (("Customer", "is_customer"), ("Supplier", "is_supplier")) if row[column])


@ACCOUNTING.tool(name="list-contacts")
def _list_contacts(app: LiveApp, *, page: float | None = None, search_term: str | None = None) -> str:
    require_role(app, "read_only")
    columns = ("name", "first_name", "last_name", "email")
    where = " OR ".join(f"instr(lower(coalesce({column}, '')), lower(?1))" for column in columns)
    rows = app.rows(
        f"SELECT * FROM contact WHERE status = 'ACTIVE' AND (?1 = '' OR {where})"
        f" ORDER BY name COLLATE NOCASE {_page(page, _CONTACTS_PAGE)}",
        search_term or "",
    )
    blocks: list[list[str | None]] = [
        [
            f"Contact: {row['name']}",
            f"ID: {row['id']}",
            f"First Name: {row['first_name']}" if row["first_name"] else None,
            f"Last Name: {row['last_name']}" if row["last_name"] else None,
            f"Email: {row['email']}" if row["email"] else "No email",
            f"Type: {_kinds(row)}",
            f"Last Updated: {row['updated']}",
            f"Status: {row['status']}",
        ]
        for row in rows
    ]
    return _joined(f"Found {len(rows)} contacts{f' (page {int(page)})' if page else ''}:", blocks)


@ACCOUNTING.tool(name="list-invoices")
def _list_invoices(
    app: LiveApp, *, page: float, contact_ids: list[str] | None = None, invoice_numbers: list[str] | None = None
) -> str:
    require_role(app, "read_only")
    wanted, values = ["status <> 'DELETED'"], list[str]()
    for column, given in (("contact", contact_ids), ("number", invoice_numbers)):
        if given:
            wanted.append(f"{column} IN ({', '.join('?' * len(given[:100]))})")
            values += given[:100]
    sql = f"SELECT * FROM invoice WHERE {' AND '.join(wanted)} ORDER BY updated DESC, rowid DESC {_page(page)}"
    rows = app.rows(sql, *values)
    return _joined(f"Found {len(rows)} invoices:", [_invoice_lines(app, row, with_lines=bool(invoice_numbers)) for row in rows])


def _invoice_lines(app: LiveApp, row: Json, *, with_lines: bool) -> list[str | None]:
    due = row["total"] - row["paid"] - row["credited"]
    amounts = (("Sub Total", row["subtotal"]), ("Total Tax", row["tax"]))
    later = (("Amount Due", due), ("Amount Paid", row["paid"]), ("Amount Credited", row["credited"]))
    return [
        f"Invoice ID: {row['id']}",
        f"Invoice: {row['number']}",
        f"Reference: {row['reference']}" if row["reference"] else None,
        f"Type: {row['type']}",
        f"Status: {row['status']}",
        contact_line(app, row["contact"]),
        f"Date: {row['date']}",
        f"Due Date: {row['due_date']}" if row["due_date"] else None,
        "Line Amount Types: Exclusive",
        *(f"{name}: {shown(cents)}" for name, cents in amounts if cents),
        f"Total: {shown(row['total'])}",
        f"Currency: {organisation(app)['base_currency']}",
        "Currency Rate: 1",
        f"Last Updated: {row['updated']}",
        f"Fully Paid On: {row['fully_paid_on']}" if row["fully_paid_on"] else None,
        *(f"{name}: {shown(cents)}" for name, cents in later if cents),
        f"Line Items: {','.join(line_text(line) for line in lines_of(app, row['id']).rows)}" if with_lines else None,
    ]


@ACCOUNTING.tool(name="list-credit-notes")
def _list_credit_notes(app: LiveApp, *, page: float, contact_id: str | None = None) -> str:
    require_role(app, "read_only")
    sql = f"SELECT * FROM credit_note WHERE ?1 IS NULL OR contact = ?1 ORDER BY updated DESC, rowid DESC {_page(page)}"
    rows = app.rows(sql, contact_id or None)
    blocks: list[list[str | None]] = [
        [
            f"Credit Note ID: {row['id']}",
            f"Credit Note Number: {row['number']}",
            f"Reference: {row['reference']}" if row["reference"] else None,
            f"Type: {row['type']}",
            f"Status: {row['status']}",
            contact_line(app, row["contact"]),
            f"Date: {row['date']}",
            "Line Amount Types: Exclusive",
            f"Sub Total: {shown(row['subtotal'])}" if row["subtotal"] else None,
            f"Total Tax: {shown(row['tax'])}" if row["tax"] else None,
            f"Total: {shown(row['total'])}",
            f"Currency: {organisation(app)['base_currency']}",
            f"Last Updated: {row['updated']}",
        ]
        for row in rows
    ]
    return _joined(f"Found {len(rows)} credit notes:", blocks)


@ACCOUNTING.tool(name="list-payments")
def _list_payments(
    app: LiveApp,
    *,
    page: float = 1,
    invoice_number: str | None = None,
    invoice_id: str | None = None,
    payment_id: str | None = None,
    reference: str | None = None,
) -> str:
    require_role(app, "read_only")
    given = {"i.number": invoice_number, "i.id": invoice_id, "p.id": payment_id, "p.reference": reference}
    wanted = {column: value for column, value in given.items() if value}
    where = " AND ".join(f"{column} = ?" for column in wanted) or "1"
    order = f"ORDER BY p.updated DESC, p.rowid DESC {_page(page)}"
    sql = f"SELECT p.* FROM payment p JOIN invoice i ON i.id = p.invoice WHERE {where} {order}"
    rows = app.rows(sql, *wanted.values())
    return _joined(f"Found {len(rows)} payments:", [_payment_lines(app, row) for row in rows])


def _payment_lines(app: LiveApp, row: Json) -> list[str | None]:
    invoice = find_row(app, "invoice", row["invoice"])
    account = find_row(app, "account", row["account"])
    due = invoice["total"] - invoice["paid"] - invoice["credited"]
    return [
        f"Payment ID: {row['id']}",
        f"Date: {row['date']}",
        f"Amount: {shown(row['amount'])}",
        f"Reference: {row['reference']}" if row["reference"] else None,
        f"Status: {row['status']}",
        f"Payment Type: {'ACCRECPAYMENT' if invoice['type'] == 'ACCREC' else 'ACCPAYPAYMENT'}",
        f"Last Updated: {row['updated']}",
        f"Account: {account['name']} ({account['id']})",
        "Invoice:",
        f"  Invoice Number: {invoice['number']}",
        f"  Invoice ID: {invoice['id']}",
        f"  {contact_line(app, invoice['contact'])}",
        f"  Type: {invoice['type']}",
        f"  Total: {shown(invoice['total'])}",
        f"  Amount Due: {shown(due)}",
    ]


@ACCOUNTING.tool(name="list-bank-transactions")
def _list_bank_transactions(app: LiveApp, *, page: float, bank_account_id: str | None = None) -> str:
    require_role(app, "read_only")
    sql = f"SELECT * FROM bank_transaction WHERE ?1 IS NULL OR bank_account = ?1 ORDER BY date DESC, rowid DESC {_page(page)}"
    rows = app.rows(sql, bank_account_id or None)
    return _joined(f"Found {len(rows)} bank transactions:", [_bank_lines(app, row) for row in rows])


def _bank_lines(app: LiveApp, row: Json) -> list[str | None]:
    account = find_row(app, "account", row["bank_account"])
    return [
        f"Bank Transaction ID: {row['id']}",
        f"Bank Account: {account['name']} ({account['id']})",
        contact_line(app, row["contact"]),
        f"Reference: {row['reference']}" if row["reference"] else None,
        f"Date: {row['date']}",
        *(
            f"{name}: {shown(row[column])}"
            for name, column in (("Sub Total", "subtotal"), ("Total Tax", "tax"), ("Total", "total"))
            if row[column]
        ),
        "Reconciled" if row["reconciled"] else "Unreconciled",
        f"Currency Code: {organisation(app)['base_currency']}",
        row["status"],
        "Line Amount Types: Exclusive",
        "Does not have attachments",
        f"Line Items: {','.join(line_text(line) for line in lines_of(app, row['id']).rows)}",
    ]


@ACCOUNTING.tool(name="list-manual-journals")
def _list_manual_journals(
    app: LiveApp, *, manual_journal_id: str | None = None, modified_after: str | None = None, page: float | None = None
) -> str:
    require_role(app, "read_only")
    since = parse_day(modified_after, app.now.date()).isoformat() if modified_after else ""
    order = f"ORDER BY updated DESC, rowid DESC {_page(page)}"
    sql = f"SELECT * FROM manual_journal WHERE updated >= ?1 AND (?2 IS NULL OR id = ?2) {order}"
    rows = app.rows(sql, since, manual_journal_id or None)
    if manual_journal_id and not rows:
        find_row(app, "manual_journal", manual_journal_id)
    blocks: list[list[str | None]] = [
        [
            f"Manual Journal ID: {row['id']}",
            f"Description: {row['narration']}",
            f"Date: {row['date']}",
            ",".join(
                map(journal_line_text, app.rows("SELECT * FROM journal_line WHERE journal = ? ORDER BY position", row["id"]))
            ),
            f"Line Amount Types: {row['line_amount_types']}",
            f"Status: {row['status']}",
            f"URL: {row['url']}" if row["url"] else "No URL",
            f"Show on Cash Basis Reports: {'true' if row['cash_basis'] else 'false'}",
            "Has Attachments: false",
            f"Last Updated: {row['updated']}",
        ]
        for row in rows
    ]
    return _joined(f"Found {len(rows)} manual journals:", blocks)


def journal_line_text(line: Json) -> str:
    """One line of a manual journal."""
    return "\n".join(
        [
            f"Line Amount: {shown(line['amount'])}",
            f"Account Code: {line['account']}",
            f"Description: {line['description']}" if line["description"] else "No description",
            f"Tax Type: {line['tax_type']}" if line["tax_type"] else "No tax type",
            f"Tax Amount: {shown(line['tax'])}",
        ]
    )
