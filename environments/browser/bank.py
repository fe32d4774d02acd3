"""The bank: accounts and statements, transfers that need a code, standing orders, cards, disputes, limits.

A transfer or standing order is a draft until it is confirmed with a code. A session lasts a few pages; then the user must sign
in again.
"""

from typing import Any

from sandlot.apps import PageResponse

from .records import Records, Row
from .web import Site, Visit, parse_day, parse_money

TABLES = """
CREATE TABLE account (id INTEGER PRIMARY KEY, name TEXT, iban TEXT, opening INTEGER);
CREATE TABLE entry (id INTEGER PRIMARY KEY, account INTEGER, day TEXT, name TEXT, cents INTEGER, purpose TEXT, category TEXT,
  status TEXT);
CREATE TABLE payee (id INTEGER PRIMARY KEY, name TEXT, iban TEXT);
CREATE TABLE draft (id INTEGER PRIMARY KEY, kind TEXT, account INTEGER, name TEXT, iban TEXT, cents INTEGER, purpose TEXT,
  day TEXT, every TEXT, last TEXT, target INTEGER, position INTEGER);
CREATE TABLE transfer (id INTEGER PRIMARY KEY, account INTEGER, name TEXT, iban TEXT, cents INTEGER, purpose TEXT, day TEXT);
CREATE TABLE standing (id INTEGER PRIMARY KEY, account INTEGER, name TEXT, iban TEXT, cents INTEGER, purpose TEXT, every TEXT,
  day TEXT, last TEXT, status TEXT);
CREATE TABLE card (id INTEGER PRIMARY KEY, label TEXT, digits TEXT, status TEXT, monthly INTEGER, online INTEGER, abroad INTEGER,
  replacement TEXT);
CREATE TABLE dispute (id INTEGER PRIMARY KEY, entry INTEGER, reason TEXT, text TEXT);
CREATE TABLE setting (id INTEGER PRIMARY KEY, daily INTEGER);
CREATE TABLE code (id INTEGER PRIMARY KEY, code TEXT);
CREATE TABLE proof (id INTEGER PRIMARY KEY, month TEXT, category TEXT, total INTEGER, payments INTEGER, largest TEXT);
"""
CATEGORIES = ("Groceries", "Travel", "Energy", "Insurance", "Leisure", "Household", "Income", "Rent")
REASONS = ("I do not know this payment", "I was charged twice", "The amount is wrong", "Goods were not delivered")
INTERVALS = ("monthly", "quarterly", "yearly")
PER_PAGE = 15
MOST_DAILY = 1_000_000

site = Site("bank", "Northbank", TABLES, pages_per_session=14)


def compact(iban: str) -> str:
    return "".join(iban.split()).upper()[:34]


def is_iban(iban: str) -> bool:
    """True if the check digits are right."""
    if not (len(iban) == 22 and iban[:2] == "DE" and iban[2:].isdecimal() and iban.isascii()):
        return False
    return int("".join(str(int(letter, 36)) for letter in iban[4:] + iban[:4])) % 97 == 1


def make_iban(digits: str) -> str:
    """The German IBAN of 18 digits."""
    rest = int(digits + "131400") % 97
    return f"DE{98 - rest:02}{digits}"


def grouped(iban: str) -> str:
    return " ".join(iban[place : place + 4] for place in range(0, len(iban), 4))


def balance(records: Records, account: Row) -> int:
    booked = sum(row["cents"] for row in records.rows("entry", account=account["id"], status="booked"))
    sent = sum(row["cents"] for row in records.rows("transfer", account=account["id"]) if row["day"] <= records.today)
    got = sum(row["cents"] for row in records.rows("transfer", iban=account["iban"]) if row["day"] <= records.today)
    return account["opening"] + booked - sent + got


def _accounts(visit: Visit) -> list[Row]:
    return [row | {"balance": balance(visit.records, row)} for row in visit.records.rows("account")]


site.everywhere = lambda _visit: {"grouped": grouped}


@site.page("/")
def home(visit: Visit) -> PageResponse:
    return visit.page("home.html", accounts=_accounts(visit))


@site.page("/account/{number}")
def statement(visit: Visit, number: str) -> PageResponse:
    account = visit.records.row("account", number)
    if account is None:
        return visit.problem("Account not found", "You have no such account.")
    query = visit.query
    rows = [
        row
        for row in sorted(
            visit.records.rows("entry", account=account["id"]), key=lambda row: (row["day"], row["id"]), reverse=True
        )
        if row["day"].startswith(query.get("month", ""))
        and query.get("category", "") in {"", row["category"]}
        and query.get("q", "").lower() in f"{row['name']} {row['purpose']}".lower()
    ]
    last = max(1, -(-len(rows) // PER_PAGE))
    wanted = query.get("page", "1")
    page = min(last, max(1, int(wanted))) if wanted.isdecimal() and len(wanted) < 4 else 1
    months = sorted({row["day"][:7] for row in visit.records.rows("entry", account=account["id"])}, reverse=True)
    shown = rows[(page - 1) * PER_PAGE : page * PER_PAGE]
    more: dict[str, Any] = {"months": months, "categories": CATEGORIES, "count": len(rows), "number": page, "last": last}
    return visit.page("statement.html", account=account | {"balance": balance(visit.records, account)}, rows=shown, **more)


@site.page("/entry/{number}")
def entry(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("entry", number)
    if row is None:
        return visit.problem("Payment not found", "There is no such payment.")
    return visit.page("entry.html", row=row, dispute=visit.records.first("dispute", entry=row["id"]), reasons=REASONS)


@site.page("/entry/{number}/dispute", "POST")
def dispute(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("entry", number)
    if row is None or row["cents"] >= 0:
        return visit.problem("Not possible", "Only payments that you made can be disputed.", status=409)
    if visit.text("reason") not in REASONS:
        visit.errors["reason"] = "Choose a reason."
    if visit.records.first("dispute", entry=row["id"]):
        visit.errors["entry"] = "This payment is already disputed."
    if visit.form.get("true") != "yes":
        visit.errors["true"] = "Confirm that your statement is true."
    if visit.errors:
        return visit.page("entry.html", status=422, row=row, dispute=None, reasons=REASONS)
    visit.records.add("dispute", entry=row["id"], reason=visit.text("reason"), text=visit.text("text"))
    return PageResponse.redirect(f"/entry/{number}")


# -- transfers and standing orders: a draft, then a code ---------------------------------------------------------------


@site.page("/transfer")
def transfer_form(visit: Visit) -> PageResponse:
    return visit.page("transfer.html", accounts=_accounts(visit), payees=visit.records.rows("payee"))


def _read_order(visit: Visit) -> dict[str, Any]:
    """The fields that transfers and standing orders share, checked."""
    account = visit.records.row("account", visit.text("account"))
    visit.require(name="Enter the recipient's name.", purpose="Enter a purpose.")
    iban, cents = compact(visit.form.get("iban", "")), parse_money(visit.form.get("amount", ""))
    if account is None:
        visit.errors["account"] = "Choose the account to pay from."
    if not is_iban(iban):
        visit.errors["iban"] = "The IBAN is not valid: check the digits."
    if not cents:
        visit.errors["amount"] = "Enter an amount such as 125.50."
    day = parse_day(visit.text("day")) or ("" if visit.text("day") else visit.records.today)
    if not day or day < visit.records.today:
        visit.errors["day"] = "The date is today or later, as YYYY-MM-DD."
    values = {"account": account["id"] if account else 0, "name": visit.text("name"), "iban": iban, "cents": cents or 0}
    return values | {"purpose": visit.text("purpose", 140), "day": day}


def _spent_today(records: Records, day: str) -> int:
    own = {row["iban"] for row in records.rows("account")}
    return sum(row["cents"] for row in records.rows("transfer", day=day) if row["iban"] not in own)


@site.page("/transfer", "POST")
def draft_transfer(visit: Visit) -> PageResponse:
    values = _read_order(visit)
    own = {row["iban"] for row in visit.records.rows("account")}
    daily = (visit.records.first("setting") or {})["daily"]
    if not visit.errors and values["iban"] not in own and _spent_today(visit.records, values["day"]) + values["cents"] > daily:
        visit.errors["amount"] = (
            f"This is more than your daily limit of EUR {daily // 100:,}.00 for transfers. Limits are under Settings."
        )
    account = visit.records.row("account", values["account"])
    if (
        not visit.errors
        and account
        and values["day"] <= visit.records.today
        and values["cents"] > balance(visit.records, account)
    ):
        visit.errors["amount"] = "The balance of this account is not enough."
    if visit.errors:
        return visit.page("transfer.html", status=422, accounts=_accounts(visit), payees=visit.records.rows("payee"))
    return _draft(visit, kind="transfer", **values)


def _draft(visit: Visit, **values: Any) -> PageResponse:
    visit.records.clear("draft")
    used = len(visit.records.rows("transfer")) + len(visit.records.rows("standing")) + len(visit.records.rows("card"))
    codes = len(visit.records.rows("code"))
    visit.records.add("draft", position=(used * 7) % codes + 1, **values)
    return PageResponse.redirect("/confirm")


@site.page("/confirm")
def confirm_form(visit: Visit) -> PageResponse:
    draft = visit.records.first("draft")
    if draft is None:
        return visit.problem("Nothing to confirm", "There is no order that waits for a code.")
    return visit.page("confirm.html", draft=draft, account=visit.records.row("account", draft["account"]))


@site.page("/confirm", "POST")
def confirm(visit: Visit) -> PageResponse:
    draft = visit.records.first("draft")
    if draft is None:
        return visit.problem("Nothing to confirm", "There is no order that waits for a code.")
    code = visit.records.row("code", draft["position"]) or {}
    if visit.text("code") != code["code"]:
        visit.errors["code"] = f"This is not code {draft['position']} of your code card."
        return visit.page("confirm.html", status=422, draft=draft, account=visit.records.row("account", draft["account"]))
    visit.records.clear("draft")
    shared = {name: draft[name] for name in ("account", "name", "iban", "cents", "purpose", "day")}
    if draft["kind"] == "transfer":
        visit.records.add("transfer", **shared)
    elif draft["target"]:
        visit.records.change("standing", draft["target"], **shared, every=draft["every"], last=draft["last"])
    else:
        visit.records.add("standing", **shared, every=draft["every"], last=draft["last"], status="active")
    return PageResponse.redirect(f"/done?kind={draft['kind']}")


@site.page("/done")
def done(visit: Visit) -> PageResponse:
    return visit.page("done.html", kind="transfer" if visit.query.get("kind") == "transfer" else "standing order")


@site.page("/codes")
def codes(visit: Visit) -> PageResponse:
    return visit.page("codes.html", codes=visit.records.rows("code"))


@site.page("/transfers")
def transfers(visit: Visit) -> PageResponse:
    names = {row["id"]: row["name"] for row in visit.records.rows("account")}
    return visit.page("transfers.html", rows=visit.records.rows("transfer"), names=names)


@site.page("/standing")
def standing(visit: Visit) -> PageResponse:
    names = {row["id"]: row["name"] for row in visit.records.rows("account")}
    return visit.page("standing.html", rows=visit.records.rows("standing"), names=names)


@site.page("/standing/new")
def standing_form(visit: Visit) -> PageResponse:
    return visit.page("standing_form.html", accounts=_accounts(visit), row={}, intervals=INTERVALS)


@site.page("/standing/{number}")
def standing_edit(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("standing", number)
    if row is None:
        return visit.problem("Not found", "There is no such standing order.", back="/standing")
    return visit.page("standing_form.html", accounts=_accounts(visit), row=row, intervals=INTERVALS)


@site.page("/standing/{number}", "POST")
def draft_standing(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("standing", number) if number != "new" else None
    values = _read_order(visit)
    last = parse_day(visit.text("last"))
    if visit.text("every") not in INTERVALS:
        visit.errors["every"] = "Choose how often."
    if visit.text("last") and (not last or last < values["day"]):
        visit.errors["last"] = "The last date is on or after the first one, as YYYY-MM-DD."
    if visit.errors:
        return visit.page("standing_form.html", status=422, accounts=_accounts(visit), row=row or {}, intervals=INTERVALS)
    return _draft(visit, kind="standing", every=visit.text("every"), last=last, target=row["id"] if row else 0, **values)


@site.page("/standing/{number}/stop", "POST")
def stop_standing(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("standing", number)
    if row:
        visit.records.change("standing", row["id"], status="stopped")
    return PageResponse.redirect("/standing")


# -- cards, payees, settings, proofs -----------------------------------------------------------------------------------


@site.page("/cards")
def cards(visit: Visit) -> PageResponse:
    return visit.page("cards.html", rows=visit.records.rows("card"))


@site.page("/cards/{number}")
def card(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("card", number)
    if row is None:
        return visit.problem("Not found", "You have no such card.", back="/cards")
    return visit.page("card.html", row=row)


@site.page("/cards/{number}", "POST")
def change_card(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("card", number)
    monthly = parse_money(visit.form.get("monthly", ""))
    if row is None or row["status"] != "active":
        return visit.problem("Not changed", "Only an active card can be changed.", status=409, back="/cards")
    if monthly is None or not 10_000 <= monthly <= 1_000_000:
        visit.errors["monthly"] = "The monthly limit is from 100.00 to 10,000.00."
        return visit.page("card.html", status=422, row=row)
    flags = {name: int(visit.form.get(name) == "yes") for name in ("online", "abroad")}
    visit.records.change("card", row["id"], monthly=monthly, **flags)
    return PageResponse.redirect(f"/cards/{number}?saved=1")


@site.page("/cards/{number}/block", "POST")
def block_card(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("card", number)
    if row is None or row["status"] != "active":
        return visit.problem("Not blocked", "Only an active card can be blocked.", status=409, back="/cards")
    wanted = visit.text("replacement")
    if wanted not in {"none", "home", "branch"}:
        visit.errors["replacement"] = "Choose whether you want a replacement card."
        return visit.page("card.html", status=422, row=row)
    visit.records.change("card", row["id"], status="blocked", replacement=wanted)
    return PageResponse.redirect(f"/cards/{number}")


@site.page("/payees")
def payees(visit: Visit) -> PageResponse:
    return visit.page("payees.html", rows=visit.records.rows("payee"))


@site.page("/payees", "POST")
def add_payee(visit: Visit) -> PageResponse:
    visit.require(name="Enter the name.")
    iban = compact(visit.form.get("iban", ""))
    if not is_iban(iban):
        visit.errors["iban"] = "The IBAN is not valid: check the digits."
    if visit.errors:
        return visit.page("payees.html", status=422, rows=visit.records.rows("payee"))
    visit.records.add("payee", name=visit.text("name"), iban=iban)
    return PageResponse.redirect("/payees")


@site.page("/settings")
def settings(visit: Visit) -> PageResponse:
    return visit.page("settings.html", setting=visit.records.first("setting"))


@site.page("/settings", "POST")
def change_settings(visit: Visit) -> PageResponse:
    daily = parse_money(visit.form.get("daily", ""))
    setting = visit.records.first("setting") or {}
    if daily is None or daily > MOST_DAILY or daily % 10_000:
        visit.errors["daily"] = "The daily limit is a multiple of 100 up to 10,000."
        return visit.page("settings.html", status=422, setting=setting)
    visit.records.change("setting", setting["id"], daily=daily)
    return PageResponse.redirect("/settings?saved=1")


@site.page("/proof")
def proof_form(visit: Visit) -> PageResponse:
    return visit.page("proof.html", rows=visit.records.rows("proof"), categories=CATEGORIES)


@site.page("/proof", "POST")
def add_proof(visit: Visit) -> PageResponse:
    visit.require(month="Enter the month as YYYY-MM.", largest="Enter who got the largest payment.")
    total, payments = parse_money(visit.form.get("total", "")), visit.text("payments")
    if visit.text("category") not in CATEGORIES:
        visit.errors["category"] = "Choose a category."
    if total is None:
        visit.errors["total"] = "Enter the total such as 125.50."
    if not payments.isdecimal():
        visit.errors["payments"] = "Enter the number of payments."
    if visit.errors:
        return visit.page("proof.html", status=422, rows=visit.records.rows("proof"), categories=CATEGORIES)
    values = {name: visit.text(name) for name in ("month", "category", "largest")}
    visit.records.add("proof", total=total, payments=int(payments[:6]), **values)
    return PageResponse.redirect("/proof")
