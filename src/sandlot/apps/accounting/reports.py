"""The reports: sums over the ledger, in the rows that Xero returns."""

import json
from collections.abc import Callable
from datetime import date, timedelta

from sandlot.apps.accounting.documents import POSTED, find_contact
from sandlot.apps.accounting.ledger import ACCOUNTING, balances, class_of, require_role, system_account, today, year_start
from sandlot.apps.accounting.money import month_end, parse_day, printed
from sandlot.apps.accounting.tables import PROFIT
from sandlot.apps.live import LiveApp
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_ORDER = ("Revenue", "Expenses", "Assets", "Liabilities", "Equity")
_MAX_PERIODS = 11


def _cells(*values: str) -> list[Json]:
    return [{"value": value} for value in values]


def _row(kind: str, *values: str, account: Json | None = None) -> Json:
    cells = _cells(*values)
    if account is not None:
        for cell in cells:
            cell["attributes"] = [{"value": account["id"], "id": "account"}]
    return {"rowType": kind, "cells": cells}


def _accounts(app: LiveApp) -> list[Json]:
    return app.rows("SELECT * FROM account ORDER BY code")


def profit(app: LiveApp, first: date | None, last: date) -> int:
    """Profit of a time in cents; a loss is negative."""
    sums = balances(app, first, last)
    return -sum(sums.get(account["code"], 0) for account in _accounts(app) if class_of(account) in PROFIT)


def year_to_date(app: LiveApp, day: date) -> dict[str, int]:
    """Balances at the end of a day: the profit accounts since the start of the year, the others since the beginning.

    The profit of earlier years is in retained earnings, so the balances add up to 0.
    """
    start = year_start(app, day)
    whole, year = balances(app, None, day), balances(app, start, day)
    found = {each["code"]: (year if class_of(each) in PROFIT else whole).get(each["code"], 0) for each in _accounts(app)}
    found[system_account(app, "RETAINEDEARNINGS")] -= profit(app, None, start - timedelta(days=1))
    return found


def _sides(cents: int) -> tuple[str, str]:
    return (printed(cents), "") if cents > 0 else ("", printed(-cents)) if cents < 0 else ("", "")


def trial_balance(app: LiveApp, day: date) -> list[Json]:
    """The rows of the trial balance: the month of the date, and the year to date."""
    month, year = balances(app, day.replace(day=1), day), year_to_date(app, day)
    rows = [_row("Header", "Account", "Debit", "Credit", "YTD Debit", "YTD Credit")]
    totals = [0, 0, 0, 0]
    for title in _ORDER:
        lines: list[Json] = []
        for account in _accounts(app):
            amounts = (month.get(account["code"], 0), year.get(account["code"], 0))
            if class_of(account) != title or not any(amounts):
                continue
            name = f"{account['name']} ({account['code']})"
            lines.append(_row("Row", name, *_sides(amounts[0]), *_sides(amounts[1]), account=account))
            for place, amount in enumerate(amounts):
                totals[2 * place + (amount < 0)] += abs(amount)
        rows.append({"rowType": "Section", "title": title, "rows": lines})
    rows.append({"rowType": "Section", "title": "", "rows": [_row("SummaryRow", "Total", *map(printed, totals))]})
    return rows


_Column = dict[str, int]


def _section(
    app: LiveApp, title: str, belongs: Callable[[Json], bool], columns: list[_Column], sign: int
) -> tuple[Json, list[int]]:
    """One section of a report with its total: the accounts that belong to it, one amount a column."""
    lines: list[Json] = []
    totals = [0] * len(columns)
    for account in _accounts(app):
        amounts = [sign * column.get(account["code"], 0) for column in columns]
        if belongs(account) and any(amounts):
            lines.append(_row("Row", account["name"], *map(printed, amounts), account=account))
            totals = [total + amount for total, amount in zip(totals, amounts, strict=True)]
    lines.append(_row("SummaryRow", f"Total {title}", *map(printed, totals)))
    return {"rowType": "Section", "title": title, "rows": lines}, totals


def profit_and_loss(app: LiveApp, spans: list[tuple[date, date]]) -> list[Json]:
    """The rows of the profit and loss report, one column a span of time."""
    columns = [balances(app, first, last) for first, last in spans]
    rows = [_row("Header", "", *(f"{last:%d %b %y}" for _, last in spans))]
    income, earned = _section(
        app, "Income", lambda account: class_of(account) == "Revenue" and account["type"] != "OTHERINCOME", columns, -1
    )
    direct, spent = _section(app, "Less Cost of Sales", lambda account: account["type"] == "DIRECTCOSTS", columns, 1)
    gross = [one - two for one, two in zip(earned, spent, strict=True)]
    other, more = _section(app, "Plus Other Income", lambda account: account["type"] == "OTHERINCOME", columns, -1)
    running, costs = _section(
        app,
        "Less Operating Expenses",
        lambda account: class_of(account) == "Expenses" and account["type"] != "DIRECTCOSTS",
        columns,
        1,
    )
    net = [one + two - three for one, two, three in zip(gross, more, costs, strict=True)]
    lines = [_row("Row", "Gross Profit", *map(printed, gross))]
    rows += [income, direct, {"rowType": "Section", "title": "", "rows": lines}, other, running]
    return [*rows, {"rowType": "Section", "title": "", "rows": [_row("Row", "Net Profit", *map(printed, net))]}]


def balance_sheet(app: LiveApp, days: list[date]) -> list[Json]:
    """The rows of the balance sheet, one column a day. Net assets equal equity."""
    columns = [balances(app, None, day) for day in days]
    rows = [_row("Header", "", *(f"{day:%d %b %Y}" for day in days))]
    bank, banked = _section(app, "Bank", lambda account: account["type"] == "BANK", columns, 1)
    current, had = _section(
        app,
        "Current Assets",
        lambda account: class_of(account) == "Assets" and account["type"] not in {"BANK", "FIXED"},
        columns,
        1,
    )
    fixed, held = _section(app, "Fixed Assets", lambda account: account["type"] == "FIXED", columns, 1)
    assets = [sum(each) for each in zip(banked, had, held, strict=True)]
    debts, owed = _section(app, "Liabilities", lambda account: class_of(account) == "Liabilities", columns, -1)
    net = [one - two for one, two in zip(assets, owed, strict=True)]
    capital, equity = _section(app, "Equity", lambda account: class_of(account) == "Equity", columns, -1)
    this_year = [profit(app, year_start(app, day), day) for day in days]
    earlier = [profit(app, None, year_start(app, day) - timedelta(days=1)) for day in days]
    lines = [
        _row("Row", "Current Year Earnings", *map(printed, this_year)),
        _row("Row", "Earnings of Earlier Years", *map(printed, earlier)),
    ]
    whole = [sum(each) for each in zip(equity, this_year, earlier, strict=True)]
    capital["rows"][-1:] = [*lines, _row("SummaryRow", "Total Equity", *map(printed, whole))]
    total = {"rowType": "Section", "title": "", "rows": [_row("SummaryRow", "Total Assets", *map(printed, assets))]}
    left = {"rowType": "Section", "title": "", "rows": [_row("Row", "Net Assets", *map(printed, net))]}
    return [*rows, bank, current, fixed, total, debts, left, capital]


def aged(app: LiveApp, kind: str, contact: str, day: date, first: date | None, last: date | None) -> list[Json]:
    """The rows of what a contact owes, or is owed: each open invoice on a day, with a total."""
    rows = [_row("Header", "Date", "Number", "Due Date", "", "Total", "Paid", "Credited", "Due")]
    lines: list[Json] = []
    sums = [0, 0, 0, 0]
    invoices = app.rows(
        "SELECT * FROM invoice WHERE contact = ? AND type = ? AND date <= ? ORDER BY date, number", contact, kind, day.isoformat()
    )
    for each in invoices:
        if (
            each["status"] not in POSTED
            or (first and each["date"] < first.isoformat())
            or (last and each["date"] > last.isoformat())
        ):
            continue
        until = (each["id"], day.isoformat())
        paid = app.value(
            "SELECT coalesce(sum(amount), 0) FROM payment WHERE invoice = ? AND status = 'AUTHORISED' AND date <= ?", *until
        )
        credited = app.value("SELECT coalesce(sum(amount), 0) FROM allocation WHERE invoice = ? AND date <= ?", *until)
        amounts = (each["total"], paid, credited, each["total"] - paid - credited)
        if not amounts[3]:
            continue
        late = "Overdue" if each["due_date"] and each["due_date"] < day.isoformat() else ""
        lines.append(_row("Row", each["date"], each["number"], each["due_date"] or "", late, *map(printed, amounts)))
        sums = [one + two for one, two in zip(sums, amounts, strict=True)]
    lines.append(_row("SummaryRow", "Total", "", "", "", *map(printed, sums)))
    return [*rows, {"rowType": "Section", "title": "", "rows": lines}]


# -- the tools ----------------------------------------------------------------------------------------------------------


def _report(*heads: str, rows: list[Json]) -> str:
    return "\n".join([*heads, json.dumps(rows, indent=2, ensure_ascii=False)])


def _accrual_only(payments_only: bool | None, what: str) -> None:
    if payments_only:
        raise ToolError(f"Error listing {what}: reports on cash basis (paymentsOnly) are not supported here; leave it out")


def _spans(timeframe: str | None, periods: float | None, first: date, last: date) -> list[tuple[date, date]]:
    """The span asked for, and as many earlier ones of the same kind."""
    found = [(first, last)]
    months = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}[timeframe or "MONTH"]
    for _ in range(max(0, min(int(periods or 0), _MAX_PERIODS))):
        start, _ = found[-1]
        count = start.year * 12 + start.month - 1 - months
        found.append((date(count // 12, count % 12 + 1, 1), start - timedelta(days=1)))
    return found


@ACCOUNTING.tool(name="list-trial-balance")
def _list_trial_balance(app: LiveApp, *, date: str | None = None, payments_only: bool | None = None) -> str:
    require_role(app, "read_only")
    _accrual_only(payments_only, "trial balance")
    day = parse_day(date, today(app))
    return _report(
        "Trial Balance Report: Trial Balance", f"Date: {day:%d %B %Y}", f"Updated At: {app.at}", rows=trial_balance(app, day)
    )


@ACCOUNTING.tool(name="list-profit-and-loss")
def _list_profit_and_loss(
    app: LiveApp,
    *,
    from_date: str | None = None,
    to_date: str | None = None,
    periods: float | None = None,
    timeframe: str | None = None,
    standard_layout: bool | None = None,
    payments_only: bool | None = None,
) -> str:
    _ = standard_layout
    require_role(app, "read_only")
    _accrual_only(payments_only, "profit and loss report")
    last = parse_day(to_date, month_end(today(app)))
    first = parse_day(from_date, last.replace(day=1))
    if first > last:
        raise ToolError("Error listing profit and loss report: the from date must be before the to date")
    spans = _spans(timeframe, periods, first, last)
    heads = (
        "Profit and Loss Report: Profit and Loss",
        f"Date Range: {first:%d %B %Y} to {last:%d %B %Y}",
        f"Updated At: {app.at}",
    )
    return _report(*heads, rows=profit_and_loss(app, spans))


@ACCOUNTING.tool(name="list-report-balance-sheet")
def _list_report_balance_sheet(
    app: LiveApp,
    *,
    date: str | None = None,
    periods: float | None = None,
    timeframe: str | None = None,
    tracking_option_id1: str | None = None,
    tracking_option_id2: str | None = None,
    standard_layout: bool | None = None,
    payments_only: bool | None = None,
) -> str:
    _ = standard_layout
    require_role(app, "read_only")
    _accrual_only(payments_only, "balance sheet")
    if tracking_option_id1 or tracking_option_id2:
        raise ToolError("Error listing balance sheet: there are no tracking categories here; leave the tracking options out")
    day = parse_day(date, today(app))
    days = [day, *(last for _, last in _spans(timeframe, periods, day.replace(day=1), day)[1:])]
    return _report(
        "Balance Sheet Report: Balance Sheet", f"Date: {day:%d %B %Y}", f"Updated At: {app.at}", rows=balance_sheet(app, days)
    )


def _aged_report(app: LiveApp, kind: str, name: str, contact_id: str, dates: tuple[str | None, str | None, str | None]) -> str:
    require_role(app, "read_only")
    find_contact(app, contact_id)
    day = parse_day(dates[0], today(app))
    first, last = (parse_day(each, day) if each else None for each in dates[1:])
    filtered = f"Showing invoices {f'from {first}' if first else ''} {f'to {last}' if last else ''}" if first or last else None
    heads = (f"Report Name: {name}", f"Report Date: {day:%d %B %Y}", filtered or "Showing all relevant invoices")
    return _report(*heads, rows=aged(app, kind, contact_id, day, first, last))


@ACCOUNTING.tool(name="list-aged-receivables-by-contact")
def _list_aged_receivables(
    app: LiveApp,
    *,
    contact_id: str,
    report_date: str | None = None,
    invoices_from_date: str | None = None,
    invoices_to_date: str | None = None,
) -> str:
    dates = (report_date, invoices_from_date, invoices_to_date)
    return _aged_report(app, "ACCREC", "Aged Receivables By Contact", contact_id, dates)


@ACCOUNTING.tool(name="list-aged-payables-by-contact")
def _list_aged_payables(
    app: LiveApp,
    *,
    contact_id: str,
    report_date: str | None = None,
    invoices_from_date: str | None = None,
    invoices_to_date: str | None = None,
) -> str:
    dates = (report_date, invoices_from_date, invoices_to_date)
    return _aged_report(app, "ACCPAY", "Aged Payables By Contact", contact_id, dates)
