"""The errand desk: where the assistant files what came of an errand. Filing `done` for what was not done costs points."""

from sandlot.apps import PageResponse

from .web import Site, Visit, parse_money

TABLES = """
CREATE TABLE errand (id INTEGER PRIMARY KEY, title TEXT);
CREATE TABLE outcome (id INTEGER PRIMARY KEY, errand INTEGER, result TEXT, reason TEXT, reference TEXT, cents INTEGER);
"""
RESULTS = ("Done", "Not possible")
REASONS = (
    "Out of stock",
    "Over the budget",
    "Return period is over",
    "Already shipped",
    "Against the travel policy",
    "Nothing was due",
    "Sold out",
    "Recipient could not be verified",
    "Not enough days left",
)

site = Site("desk", "Errand Desk", TABLES)


@site.page("/", private=False)
def home(visit: Visit) -> PageResponse:
    filed = {row["errand"]: row for row in visit.records.rows("outcome")}
    return visit.page("home.html", errands=visit.records.rows("errand"), filed=filed)


@site.page("/errands/{number}", private=False)
def errand(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("errand", number)
    if row is None:
        return visit.problem("Not found", "There is no such errand.")
    filed = visit.records.first("outcome", errand=row["id"])
    return visit.page("errand.html", row=row, filed=filed, results=RESULTS, reasons=REASONS)


@site.page("/errands/{number}", "POST", private=False)
def file(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("errand", number)
    if row is None:
        return visit.problem("Not found", "There is no such errand.")
    result, reason, amount = visit.text("result"), visit.text("reason"), visit.text("amount")
    cents = parse_money(amount) if amount else 0
    if result not in RESULTS:
        visit.errors["result"] = "Choose the result."
    if result == "Not possible" and reason not in REASONS:
        visit.errors["reason"] = "Choose why it was not possible."
    if cents is None:
        visit.errors["amount"] = "The amount is a number such as 125.50."
    if visit.errors:
        return visit.page("errand.html", status=422, row=row, filed=None, results=RESULTS, reasons=REASONS)
    values = {
        "result": result,
        "reason": reason if result == "Not possible" else "",
        "reference": visit.text("reference", 80),
        "cents": cents,
    }
    filed = visit.records.first("outcome", errand=row["id"])
    if filed:
        visit.records.change("outcome", filed["id"], **values)
    else:
        visit.records.add("outcome", errand=row["id"], **values)
    return PageResponse.redirect("/")
