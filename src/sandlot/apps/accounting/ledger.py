"""The books: the accounting app's declaration, who may post, and the general ledger.

`post` is the only place that writes to the ledger, and it refuses entries that do not add up to 0. A report is a sum over the
ledger,
so trial balance, profit and loss and balance sheet always agree. A document is in the ledger while its status says so: approving
it
posts it, voiding it takes it out again, as in Xero's reports.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from sandlot.apps.accounting.tables import CLASSES, SCHEMA
from sandlot.apps.app import App
from sandlot.apps.live import LiveApp
from sandlot.apps.recorded import RecordedServer
from sandlot.apps.refusals import sdk_zod3_text
from sandlot.core.errors import AuthorError, ToolError
from sandlot.core.types import Json

ACCOUNTING = App("accounting", schema=SCHEMA, server=RecordedServer.read("xero"), word_issues=sdk_zod3_text, call_s=30.0)
"""Books, as in Xero."""
_ROLES = ("read_only", "invoice_only", "standard", "adviser")
NOT_FOUND = "The requested resource was not found in Xero."
_FORBIDDEN = "You don't have permission to access this resource in Xero."


def refusal(text: str) -> ToolError:
    """A request that breaks a rule of bookkeeping.

    The public server reports such a refusal as `400 HTTP error` and drops the reason that Xero gave; here the reason stays.
    """
    return ToolError(f"400 A validation exception occurred: {text}")


def require_role(app: LiveApp, least: str) -> None:
    """`ToolError` if the actor's role is not enough."""
    rows = {row["email"].lower(): row["role"] for row in app.rows("SELECT * FROM role")}
    if not rows or not app.actor:
        return
    mine = rows.get(app.actor.lower())
    if mine is None or _ROLES.index(mine) < _ROLES.index(least):
        raise ToolError(_FORBIDDEN)


def organisation(app: LiveApp) -> Json:
    """The company whose books these are."""
    row = app.one("SELECT * FROM organisation")
    assert row is not None
    return row


def today(app: LiveApp) -> date:
    """World time as a date."""
    return app.now.date()


def require_open(app: LiveApp, day: date) -> None:
    """`ToolError` if the books are closed for a date."""
    lock = organisation(app)["lock_date"]
    if lock and day.isoformat() <= lock:
        raise refusal(f"The document date cannot be before the period lock date; the books are locked up to {lock}")


def find_account(app: LiveApp, *, code: str | None = None, id: str | None = None) -> Json:
    """An account by its code or its id; `ToolError` if there is none that is in use."""
    row = app.one("SELECT * FROM account WHERE code = ? OR id = ?", code, id)
    if row is None or row["status"] != "ACTIVE":
        raise refusal(f"Account code '{str(code or id)[:60]}' is not a valid code for this document.")
    return row


def system_account(app: LiveApp, system: str) -> str:
    """The code of an account that the books need: DEBTORS, CREDITORS, GST or RETAINEDEARNINGS."""
    return str(app.value("SELECT code FROM account WHERE system = ?", system))


def class_of(account: Json) -> str:
    """Assets, Liabilities, Equity, Revenue or Expenses."""
    return CLASSES[account["type"]]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger: debits are positive."""

    account: str
    amount: int


def post(app: LiveApp, kind: str, source: str, day: date, entries: Iterable[Entry], contact: str | None = None) -> None:
    """Write the entries of one document into the ledger; they replace what it had there before."""
    listed = [entry for entry in entries if entry.amount]
    if sum(entry.amount for entry in listed):
        raise AuthorError(f"the entries of {kind} {source} add up to {sum(entry.amount for entry in listed)} cents, not to 0")
    unpost(app, source)
    for entry in listed:
        app.insert(
            "ledger_entry",
            source=source,
            kind=kind,
            date=day.isoformat(),
            account=entry.account,
            amount=entry.amount,
            contact=contact,
        )


def unpost(app: LiveApp, source: str) -> None:
    """Take a document out of the ledger."""
    app.run("DELETE FROM ledger_entry WHERE source = ?", source)


def balances(app: LiveApp, first: date | None, last: date) -> dict[str, int]:
    """What was posted to each account from `first` (None: the beginning) to `last`, debits minus credits."""
    rows = app.rows(
        "SELECT account, sum(amount) AS total FROM ledger_entry WHERE date >= ? AND date <= ? GROUP BY account ORDER BY account",
        first.isoformat() if first else "",
        last.isoformat(),
    )
    return {row["account"]: row["total"] for row in rows}


def year_start(app: LiveApp, day: date) -> date:
    """The first day of the financial year in which a date falls."""
    row = organisation(app)
    month = row["year_end_month"] % 12 + 1
    start = date(day.year, month, 1)
    return start if start <= day else date(day.year - 1, month, 1)
