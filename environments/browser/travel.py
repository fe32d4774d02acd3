"""The travel desk of a company: flights and hotels under a travel policy, changes, cancellations, expense reports."""

import json
from datetime import date
from hashlib import sha256
from operator import itemgetter
from typing import Any

from sandlot.apps import PageResponse

from .records import Row
from .web import Site, Visit, parse_day, parse_money

TABLES = """
CREATE TABLE profile (id INTEGER PRIMARY KEY, passport TEXT, expires TEXT, seat TEXT, meal TEXT, frequent TEXT);
CREATE TABLE flight (id INTEGER PRIMARY KEY, origin TEXT, target TEXT, day TEXT, leaves TEXT, arrives TEXT, stops INTEGER,
  number TEXT, cents INTEGER, refundable INTEGER, seats INTEGER);
CREATE TABLE hotel (id INTEGER PRIMARY KEY, city TEXT, name TEXT, stars INTEGER, cents INTEGER, km REAL, breakfast INTEGER,
  flexible INTEGER);
CREATE TABLE cap (id INTEGER PRIMARY KEY, city TEXT, cents INTEGER);
CREATE TABLE draft (id INTEGER PRIMARY KEY, kind TEXT, item INTEGER, start TEXT, finish TEXT, insurance INTEGER, bag INTEGER,
  seat TEXT, centre TEXT, reason TEXT, replaces INTEGER);
CREATE TABLE booking (id INTEGER PRIMARY KEY, code TEXT, kind TEXT, item INTEGER, start TEXT, finish TEXT, insurance INTEGER,
  bag INTEGER, seat TEXT, centre TEXT, reason TEXT, status TEXT, paid INTEGER);
CREATE TABLE receipt (id INTEGER PRIMARY KEY, trip TEXT, day TEXT, vendor TEXT, category TEXT, cents INTEGER, note TEXT);
CREATE TABLE report (id INTEGER PRIMARY KEY, title TEXT, centre TEXT, status TEXT);
CREATE TABLE line (id INTEGER PRIMARY KEY, report INTEGER, day TEXT, category TEXT, cents INTEGER, vendor TEXT);
"""
CITIES = ("Berlin", "Vienna", "Lisbon", "Copenhagen", "Milan", "Dublin", "Warsaw", "Lyon")
SEATS = ("Aisle", "Window", "No preference")
MEALS = ("Standard", "Vegetarian", "Vegan", "Gluten-free")
KINDS = ("Hotel", "Meals", "Taxi", "Train", "Parking", "Mileage")
INSURANCE, BAG, CHANGE_FEE, KM_CENTS = 1490, 3500, 6000, 30

site = Site("travel", "Wayfare Travel Desk", TABLES)
site.everywhere = lambda _visit: {"cities": CITIES, "seats": SEATS, "kinds": KINDS}


def nights(start: str, finish: str) -> int:
    return (date.fromisoformat(finish) - date.fromisoformat(start)).days


@site.page("/")
def home(visit: Visit) -> PageResponse:
    return visit.page("home.html", bookings=[row for row in visit.records.rows("booking") if row["status"] == "booked"])


@site.page("/policy")
def policy(visit: Visit) -> PageResponse:
    return visit.page("policy.html", caps=visit.records.rows("cap"))


@site.page("/suggest")
def suggest(visit: Visit) -> PageResponse:
    words = visit.query.get("q", "").lower()
    names = [name for name in CITIES if words and name.lower().startswith(words)]
    return PageResponse(body=json.dumps(names).encode(), headers={"Content-Type": "application/json"})


@site.page("/flights")
def flights(visit: Visit) -> PageResponse:
    query = visit.query
    shown = None
    if query.get("from") or query.get("to"):
        if query.get("from") not in CITIES or query.get("to") not in CITIES:
            visit.errors["city"] = f"Choose two of our cities: {', '.join(CITIES)}."
        if not parse_day(query.get("day", "")):
            visit.errors["day"] = "Enter the day as YYYY-MM-DD."
        if not visit.errors:
            shown = visit.records.rows("flight", origin=query["from"], target=query["to"], day=parse_day(query["day"]))
            stops = query.get("stops", "")
            shown = [row for row in shown if not stops.isdecimal() or row["stops"] <= int(stops[:2])]
            orders: dict[str, str] = {"price": "cents", "arrives": "arrives"}
            shown.sort(key=itemgetter(orders.get(query.get("sort", ""), "leaves")))
    replaces = visit.records.first("booking", code=query.get("replaces", ""))
    return visit.page("flights.html", shown=shown, replaces=replaces)


@site.page("/flights/{number}")
def flight_page(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("flight", number)
    if row is None or not row["seats"]:
        return visit.problem("Not available", "This flight is sold out.", back="/flights")
    replaces = visit.records.first("booking", code=visit.query.get("replaces", ""))
    return visit.page("flight.html", row=row, replaces=replaces)


@site.page("/flights/{number}", "POST")
def draft_flight(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("flight", number)
    if row is None or not row["seats"]:
        return visit.problem("Not available", "This flight is sold out.", back="/flights")
    replaces = visit.records.first("booking", code=visit.query.get("replaces", ""), status="booked")
    if visit.text("seat") not in SEATS:
        visit.errors["seat"] = "Choose a seat."
    _read_reason(visit)
    if visit.errors:
        return visit.page("flight.html", status=422, row=row, replaces=replaces)
    flags = {name: int(visit.form.get(name) == "yes") for name in ("insurance", "bag")}
    days = {"start": row["day"], "finish": row["day"]}
    return _draft(
        visit, kind="flight", item=row["id"], seat=visit.text("seat"), replaces=replaces["id"] if replaces else 0, **days, **flags
    )


def _read_reason(visit: Visit) -> None:
    centre = visit.text("centre")
    if not (len(centre) == 6 and centre[:2].upper() == "CC" and centre[2:].isdecimal()):
        visit.errors["centre"] = "The cost centre is CC and four digits, such as CC4100."
    visit.require(reason="Enter the reason of the trip.")


def _draft(visit: Visit, **values: Any) -> PageResponse:
    visit.records.clear("draft")
    visit.records.add("draft", centre=visit.text("centre").upper(), reason=visit.text("reason"), **values)
    return PageResponse.redirect("/review")


@site.page("/hotels")
def hotels(visit: Visit) -> PageResponse:
    query = visit.query
    shown = None
    if query.get("city"):
        start, finish = parse_day(query.get("start", "")), parse_day(query.get("finish", ""))
        if query["city"] not in CITIES:
            visit.errors["city"] = f"Choose one of our cities: {', '.join(CITIES)}."
        if not start or not finish or start >= finish:
            visit.errors["start"] = "Enter arrival and departure as YYYY-MM-DD, departure after arrival."
        if not visit.errors:
            shown = visit.records.rows("hotel", city=query["city"])
            orders: dict[str, str] = {"price": "cents", "km": "km"}
            shown.sort(key=itemgetter(orders.get(query.get("sort", ""), "name")))
    return visit.page("hotels.html", shown=shown)


@site.page("/hotels/{number}")
def hotel_page(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("hotel", number)
    start, finish = parse_day(visit.query.get("start", "")), parse_day(visit.query.get("finish", ""))
    if row is None or not start or not finish or start >= finish:
        return visit.problem("Not available", "Search for a hotel with arrival and departure first.", back="/hotels")
    return visit.page("hotel.html", row=row, start=start, finish=finish, nights=nights(start, finish))


@site.page("/hotels/{number}", "POST")
def draft_hotel(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("hotel", number)
    start, finish = parse_day(visit.query.get("start", "")), parse_day(visit.query.get("finish", ""))
    if row is None or not start or not finish or start >= finish:
        return visit.problem("Not available", "Search for a hotel with arrival and departure first.", back="/hotels")
    _read_reason(visit)
    if visit.errors:
        return visit.page("hotel.html", status=422, row=row, start=start, finish=finish, nights=nights(start, finish))
    insurance = int(visit.form.get("insurance") == "yes")
    return _draft(
        visit, kind="hotel", item=row["id"], start=start, finish=finish, insurance=insurance, bag=0, seat="", replaces=0
    )


def _costs(visit: Visit, draft: Row) -> dict[str, Any]:
    item = visit.records.row(draft["kind"], draft["item"]) or {}
    count = nights(draft["start"], draft["finish"]) if draft["kind"] == "hotel" else 1
    base = item["cents"] * count
    extras = INSURANCE * draft["insurance"] + BAG * draft["bag"]
    fee = CHANGE_FEE if draft["replaces"] else 0
    return {"item": item, "base": base, "extras": extras, "fee": fee, "total": base + extras + fee}


@site.page("/review")
def review(visit: Visit) -> PageResponse:
    draft = visit.records.first("draft")
    if draft is None:
        return visit.problem("Nothing to review", "Choose a flight or a hotel first.")
    return visit.page("review.html", draft=draft, old=visit.records.row("booking", draft["replaces"]), **_costs(visit, draft))


def _new_code(visit: Visit, draft: Row, paid: int) -> str:
    """Another code for each booking, and another one in each world: nobody can know it before."""
    about = f"{draft['kind']} {draft['item']} {draft['start']} {paid} {len(visit.records.rows('booking'))}"
    return "W" + "".join("ABCDEFGHJKLMNPQRSTUVWXYZ"[byte % 24] for byte in sha256(about.encode()).digest()[:5])


@site.page("/review", "POST")
def book(visit: Visit) -> PageResponse:
    draft = visit.records.first("draft")
    if draft is None:
        return visit.problem("Nothing to book", "Choose a flight or a hotel first.")
    costs = _costs(visit, draft)
    if draft["replaces"]:
        visit.records.change("booking", draft["replaces"], status="changed")
    code = _new_code(visit, draft, costs["total"])
    names = ("kind", "item", "start", "finish", "insurance", "bag", "seat", "centre", "reason")
    visit.records.add("booking", code=code, status="booked", paid=costs["total"], **{name: draft[name] for name in names})
    visit.records.clear("draft")
    return PageResponse.redirect(f"/trips/{code}?new=1")


@site.page("/trips")
def trips(visit: Visit) -> PageResponse:
    rows = [(row, visit.records.row(row["kind"], row["item"])) for row in visit.records.rows("booking")]
    return visit.page("trips.html", rows=rows)


@site.page("/trips/{code}")
def trip(visit: Visit, code: str) -> PageResponse:
    row = visit.records.first("booking", code=code)
    if row is None:
        return visit.problem("Booking not found", "You have no such booking.", back="/trips")
    return visit.page("trip.html", row=row, item=visit.records.row(row["kind"], row["item"]))


@site.page("/trips/{code}/cancel", "POST")
def cancel(visit: Visit, code: str) -> PageResponse:
    row = visit.records.first("booking", code=code)
    if row is None or row["status"] != "booked":
        return visit.problem("Not cancelled", "Only a current booking can be cancelled.", status=409, back="/trips")
    visit.records.change("booking", row["id"], status="cancelled")
    return PageResponse.redirect(f"/trips/{code}")


@site.page("/profile")
def profile(visit: Visit) -> PageResponse:
    return visit.page("profile.html", row=visit.records.first("profile"), meals=MEALS)


@site.page("/profile", "POST")
def change_profile(visit: Visit) -> PageResponse:
    row = visit.records.first("profile") or {}
    passport, expires = visit.text("passport", 20).upper(), parse_day(visit.text("expires"))
    if not (len(passport) == 9 and passport.isalnum() and passport.isascii()):
        visit.errors["passport"] = "The passport number has nine letters and digits."
    if not expires or expires <= visit.records.today:
        visit.errors["expires"] = "The passport must be valid: give its last day as YYYY-MM-DD."
    if visit.text("seat") not in SEATS or visit.text("meal") not in MEALS:
        visit.errors["seat"] = "Choose seat and meal from the lists."
    if visit.errors:
        return visit.page("profile.html", status=422, row=row, meals=MEALS)
    values = {"seat": visit.text("seat"), "meal": visit.text("meal"), "frequent": visit.text("frequent", 20).upper()}
    visit.records.change("profile", row["id"], passport=passport, expires=expires, **values)
    return PageResponse.redirect("/profile?saved=1")


# -- expenses ----------------------------------------------------------------------------------------------------------


@site.page("/receipts")
def receipts(visit: Visit) -> PageResponse:
    return visit.page("receipts.html", rows=visit.records.rows("receipt"))


@site.page("/expenses")
def expenses(visit: Visit) -> PageResponse:
    return visit.page("expenses.html", rows=visit.records.rows("report"))


@site.page("/expenses", "POST")
def new_report(visit: Visit) -> PageResponse:
    visit.require(title="Give the report a title.")
    centre = visit.text("centre").upper()
    if not (len(centre) == 6 and centre[:2] == "CC" and centre[2:].isdecimal()):
        visit.errors["centre"] = "The cost centre is CC and four digits, such as CC4100."
    if visit.errors:
        return visit.page("expenses.html", status=422, rows=visit.records.rows("report"))
    number = visit.records.add("report", title=visit.text("title"), centre=centre, status="draft")
    return PageResponse.redirect(f"/expenses/{number}")


@site.page("/expenses/{number}")
def report(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("report", number)
    if row is None:
        return visit.problem("Report not found", "There is no such report.", back="/expenses")
    lines = visit.records.rows("line", report=row["id"])
    return visit.page("report.html", row=row, lines=lines, total=sum(line["cents"] for line in lines))


@site.page("/expenses/{number}/lines", "POST")
def add_line(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("report", number)
    if row is None or row["status"] != "draft":
        return visit.problem("Not added", "The report has been submitted and cannot be changed.", status=409, back="/expenses")
    visit.require(vendor="Enter the vendor, or the route for mileage.")
    day, cents = parse_day(visit.text("day")), parse_money(visit.form.get("amount", ""))
    if not day or day > visit.records.today:
        visit.errors["day"] = "The day is today or earlier, as YYYY-MM-DD."
    if visit.text("category") not in KINDS:
        visit.errors["category"] = "Choose a category."
    if not cents:
        visit.errors["amount"] = "Enter an amount such as 23.40."
    if visit.errors:
        lines = visit.records.rows("line", report=row["id"])
        return visit.page("report.html", status=422, row=row, lines=lines, total=sum(line["cents"] for line in lines))
    visit.records.add(
        "line", report=row["id"], day=day, category=visit.text("category"), cents=cents, vendor=visit.text("vendor")
    )
    return PageResponse.redirect(f"/expenses/{number}")


@site.page("/expenses/lines/{line}/delete", "POST")
def delete_line(visit: Visit, line: str) -> PageResponse:
    row = visit.records.row("line", line)
    held = visit.records.row("report", row["report"]) if row else None
    if row is None or held is None or held["status"] != "draft":
        return visit.problem("Not deleted", "The report has been submitted and cannot be changed.", status=409, back="/expenses")
    visit.records.remove("line", row["id"])
    return PageResponse.redirect(f"/expenses/{held['id']}")


@site.page("/expenses/{number}/submit", "POST")
def submit(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("report", number)
    if row is None or row["status"] != "draft" or not visit.records.rows("line", report=row["id"]):
        return visit.problem(
            "Not submitted", "Only a draft with at least one line can be submitted.", status=409, back="/expenses"
        )
    visit.records.change("report", row["id"], status="submitted")
    return PageResponse.redirect(f"/expenses/{number}")
