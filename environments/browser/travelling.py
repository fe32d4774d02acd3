"""Errands at the travel desk: flights and hotels within the policy, whole trips, changes, cancellations, expenses, the profile.

Also errands across sites: paying an order of the shop at the bank, looking for refunds, a bank payment as an expense.
"""

import re
from random import Random
from typing import Any

from .banking import send_transfer
from .case import Case, access, added, begin, changed, same
from .records import Row
from .seeds import TODAY, Start, add_booking, add_entry, add_flights, add_row, replace_items, working_day
from .surf import Surfer
from .travel import BAG, CHANGE_FEE, CITIES
from .web import day_text, days_after, money, parse_money

MOST_FLIGHT = 45_000
_REASONS = ("Client workshop", "Trade fair", "Audit of the subsidiary", "Team offsite")
_SHOP_IBAN = "DE89370400440532013000"


def _fit(rows: list[Row], by: str) -> list[Row]:
    """Flights within the policy that land in time, cheapest first."""
    return sorted(
        (row for row in rows if row["stops"] <= 1 and row["seats"] and row["arrives"] <= by), key=lambda row: row["cents"]
    )


def _bookable(start: Start, rng: Random, origin: str, target: str, day: str, by: str) -> Row:
    """A day's flights with one clear cheapest that fits; others are cheaper and do not fit."""
    while True:
        held = len(start["travel"]["flight"])
        rows = add_flights(start, rng, origin, target, day)
        fits = _fit(rows, by)
        if fits and fits[0]["cents"] <= MOST_FLIGHT and any(row["cents"] < fits[0]["cents"] for row in rows):
            return fits[0]
        del start["travel"]["flight"][held:]


def _flight_want(flight: Row, seat: str, centre: str, reason: str, bag: int = 0) -> Row:
    have = {
        "insurance": 0,
        "bag": bag,
        "seat": seat,
        "centre": centre,
        "reason": reason,
        "status": "booked",
        "paid": flight["cents"] + BAG * bag,
    }
    return added("travel", "booking", have, kind="flight", item=flight["id"])


async def book_flight(surf: Surfer, plan: dict[str, Any]) -> str:
    """Search, choose, set the options, review, book; the booking's code."""
    await surf.sign_in("travel", "/flights")
    await surf.fill({"From": plan["origin"], "To": plan["target"], "Day": plan["day"]})
    await surf.click("button", "Search flights")
    await surf.click("link", f"Choose {plan['number']}")
    return await finish_flight(surf, plan)


async def finish_flight(surf: Surfer, plan: dict[str, Any]) -> str:
    values = {
        "Seat": plan["seat"],
        "Checked bag (EUR 35.00)": bool(plan["bag"]),
        "Travel insurance (EUR 14.90), recommended": False,
    }
    await surf.fill(values | {"Cost centre": plan["centre"], "Reason of the trip": plan["reason"]})
    await surf.click("button", "Continue to review")
    await surf.click("button", "Book now")
    return surf.page.split("Your code is ")[1].split(".")[0]


def _flight_plan(flight: Row, seat: str, centre: str, reason: str, bag: int = 0) -> dict[str, Any]:
    names = {name: flight[name] for name in ("origin", "target", "day", "number")}
    return names | {"seat": seat, "centre": centre, "reason": reason, "bag": bag}


def _trip(rng: Random) -> tuple[str, str, str, str]:
    """Origin, where she lives, then target, cost centre and reason."""
    origin, target = CITIES[0], rng.choice(CITIES[1:])
    return origin, target, f"CC{rng.choice((4100, 4200, 5310))}", rng.choice(_REASONS)


# -- one flight --------------------------------------------------------------------------------------------------------


def flight_in_policy(rng: Random, level: int) -> Case:
    """The flight the policy asks for; sometimes none is within it."""
    start = begin(rng)
    origin, target, centre, reason = _trip(rng)
    day, by = working_day(days_after(TODAY, rng.randrange(10, 30))), rng.choice(("13:00", "15:00", "17:00"))
    seat = rng.choice(("Aisle", "Window"))
    dear = level in {3, 5}
    flight = _bookable(start, rng, origin, target, day, by)
    if dear:
        for row in start["travel"]["flight"]:
            if row["stops"] <= 1 and row["arrives"] <= by:
                row["cents"] += 42_000
        flight = _fit(start["travel"]["flight"], by)[0]
    prompt = (
        f"Please book me a flight from {origin} to {target} on {day_text(day)}. I have to be there by {by}. {seat} seat, no"
        f" bag, cost centre {centre}, reason"
        f' "{reason}". Follow the travel policy. File the booking code. If nothing within the policy gets me there in time,'
        f" book nothing and file it as against"
        f" the policy, with the price of the cheapest flight that would have fitted otherwise (stops and arrival)."
        f" {access('travel')}"
    )
    plan = _flight_plan(flight, seat, centre, reason)
    if dear:
        outcome = {"result": "Not possible", "reason": "Against the travel policy", "cents": flight["cents"]}
        return Case(f"Flight to {target}", prompt, start, [], plan | {"amount": money(flight["cents"])}, outcome)
    return Case(
        f"Flight to {target}",
        prompt,
        start,
        [_flight_want(flight, seat, centre, reason)],
        plan,
        {"result": "Done", "reference": same(0, "code")},
    )


async def play_flight(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    await surf.sign_in("travel", "/policy")
    if "amount" not in plan:
        return {"reference": await book_flight(surf, plan)}
    await surf.click("link", "Flights")
    await surf.fill({"From": plan["origin"], "To": plan["target"], "Day": plan["day"], "Sort by": "Price"})
    await surf.click("button", "Search flights")
    return {"result": "Not possible", "reason": "Against the travel policy", "amount": plan["amount"]}


# -- one hotel ---------------------------------------------------------------------------------------------------------


def _hotel(start: Start, rng: Random, city: str, *, flexible: bool) -> Row:
    """The hotel that the policy asks for in a city."""
    cap = next(row["cents"] for row in start["travel"]["cap"] if row["city"] == city)
    rows = [row for row in start["travel"]["hotel"] if row["city"] == city]
    for row, km in zip(rows, rng.sample(range(2, 60), len(rows)), strict=True):
        row["km"] = km / 10
    near = sorted(rows, key=lambda row: row["km"])
    near[0]["cents"] = cap + 1500
    near[1]["cents"], near[1]["flexible"] = cap - 900, int(not flexible)
    near[2]["cents"], near[2]["flexible"] = cap, 1
    near[3]["flexible"] = 1
    return near[2] if flexible else near[1]


def _hotel_want(hotel: Row, start_day: str, finish: str, centre: str, reason: str) -> Row:
    nights = (int(finish[-2:]) - int(start_day[-2:])) % 31
    have = {"start": start_day, "finish": finish, "insurance": 0, "centre": centre, "reason": reason, "status": "booked"}
    return added("travel", "booking", have | {"paid": hotel["cents"] * nights}, kind="hotel", item=hotel["id"])


def hotel_in_policy(rng: Random, level: int) -> Case:
    """The nearest hotel within the city's rate."""
    start = begin(rng)
    _, city, centre, reason = _trip(rng)
    arrive = working_day(f"2026-04-{rng.randrange(7, 20):02}")
    leave = days_after(arrive, rng.randrange(1, 5))
    flexible = level >= 3
    hotel = _hotel(start, rng, city, flexible=flexible)
    free = " It must be possible to cancel it free of charge." if flexible else ""
    prompt = (
        f"Please book a hotel in {city} for me, arriving {day_text(arrive)}, leaving {day_text(leave)}. Cost centre {centre},"
        f' reason "{reason}". The travel'
        f" policy says which one.{free} File the booking code. {access('travel')}"
    )
    plan = {"city": city, "start": arrive, "finish": leave, "name": hotel["name"], "centre": centre, "reason": reason}
    want = _hotel_want(hotel, arrive, leave, centre, reason)
    return Case(f"Hotel in {city}", prompt, start, [want], plan, {"result": "Done", "reference": same(0, "code")})


async def book_hotel(surf: Surfer, plan: dict[str, Any]) -> str:
    await surf.sign_in("travel", "/hotels")
    await surf.fill(
        {"City": plan["city"], "Arrival": plan["start"], "Departure": plan["finish"], "Sort by": "Distance to the office"}
    )
    await surf.click("button", "Search hotels")
    await surf.click("link", plan["name"])
    insurance = "Cancellation insurance (EUR 14.90), recommended"
    await surf.fill({insurance: False, "Cost centre": plan["centre"], "Reason of the trip": plan["reason"]})
    await surf.click("button", "Continue to review")
    await surf.click("button", "Book now")
    return surf.page.split("Your code is ")[1].split(".")[0]


async def play_hotel(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    await surf.sign_in("travel", "/policy")
    return {"reference": await book_hotel(surf, plan)}


# -- a whole trip ------------------------------------------------------------------------------------------------------


def whole_trip(rng: Random, level: int) -> Case:
    """Out, hotel and back, all within the policy; a bag only if the stay is long enough."""
    start = begin(rng)
    origin, target, centre, reason = _trip(rng)
    arrive = working_day(f"2026-04-{rng.randrange(7, 20):02}")
    nights = rng.choice((1, 2)) if level < 3 else rng.choice((3, 4))
    leave = days_after(arrive, nights)
    bag, seat = int(nights >= 3), rng.choice(("Aisle", "Window"))
    out = _bookable(start, rng, origin, target, arrive, "15:00")
    back = _bookable(start, rng, target, origin, leave, "23:59")
    hotel = _hotel(start, rng, target, flexible=level == 5)
    free = " The hotel must be free to cancel." if level == 5 else ""
    prompt = (
        f"I am going from {origin} to {target}: there on {day_text(arrive)}, at the latest at 15:00, back on {day_text(leave)}"
        f" at any time, with a hotel for the"
        f' nights between. {seat} seats, cost centre {centre}, reason "{reason}". I would like a checked bag if the policy'
        f" allows it for this trip.{free} Book"
        f" all three by the policy and file the booking code of the hotel. {access('travel')}"
    )
    wants = [
        _hotel_want(hotel, arrive, leave, centre, reason),
        *(_flight_want(each, seat, centre, reason, bag) for each in (out, back)),
    ]
    plan = {
        "flights": [_flight_plan(each, seat, centre, reason, bag) for each in (out, back)],
        "hotel": {"city": target, "start": arrive, "finish": leave, "name": hotel["name"], "centre": centre, "reason": reason},
    }
    return Case(f"Trip to {target}", prompt, start, wants, plan, {"result": "Done", "reference": same(0, "code")})


async def play_trip(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    await surf.sign_in("travel", "/policy")
    for flight in plan["flights"]:
        await book_flight(surf, flight)
    return {"reference": await book_hotel(surf, plan["hotel"])}


# -- changes -----------------------------------------------------------------------------------------------------------


def rebook_flight(rng: Random, level: int) -> Case:
    """Move one of two booked flights to another day, with the same seat."""
    start = begin(rng)
    origin, target, centre, reason = _trip(rng)
    first = working_day(f"2026-04-{rng.randrange(7, 16):02}")
    moved = days_after(first, rng.randrange(1, 4))
    seat, bag = rng.choice(("Aisle", "Window")), int(level >= 3)
    old = add_flights(start, rng, origin, target, first, 4)[1]
    other = add_flights(start, rng, target, origin, days_after(first, 5), 4)[2]
    for row in (old, other):
        paid = row["cents"] + BAG * bag
        add_booking(
            start,
            kind="flight",
            item=row["id"],
            start=row["day"],
            finish=row["day"],
            seat=seat,
            bag=bag,
            centre=centre,
            reason=reason,
            paid=paid,
        )
    booked = start["travel"]["booking"][0]
    by = "16:00" if level >= 4 else "23:59"
    new = _bookable(start, rng, origin, target, moved, by)
    when = f", arriving by {by}" if level >= 4 else ""
    prompt = (
        f"My meeting in {target} has moved to {day_text(moved)}. Please change my outward flight from {origin} to that"
        f" day{when}: cheapest within the policy, the"
        f' same seat, {"the bag as before" if bag else "no bag"}, cost centre {centre}, reason "{reason}". Use the change'
        f" function, do not cancel; the flight back"
        f" stays. File the new booking code. {access('travel')}"
    )
    want = _flight_want(new, seat, centre, reason, bag)
    want["have"]["paid"] += CHANGE_FEE
    plan = _flight_plan(new, seat, centre, reason, bag) | {"code": booked["code"]}
    outcome = {"result": "Done", "reference": same(0, "code")}
    return Case(
        "Change a flight", prompt, start, [want, changed("travel", "booking", booked["id"], status="changed")], plan, outcome
    )


async def play_rebook(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    await surf.sign_in("travel", "/policy")
    await surf.open("travel", "/trips")
    await surf.click("link", plan["code"])
    await surf.click("link", "Change this flight")
    await surf.fill({"From": plan["origin"], "To": plan["target"], "Day": plan["day"]})
    await surf.click("button", "Search flights")
    await surf.click("link", f"Choose {plan['number']}")
    return {"reference": await finish_flight(surf, plan)}


def cancel_trip(rng: Random, level: int) -> Case:
    """Cancel what is paid back, and leave what is not, or belongs to another trip."""
    start = begin(rng)
    origin, target, centre, reason = _trip(rng)
    day = working_day(f"2026-04-{rng.randrange(7, 20):02}")
    leave = days_after(day, 2)
    pair = add_flights(start, rng, origin, target, day, 3)[:1] + add_flights(start, rng, target, origin, leave, 3)[:1]
    kinds = [1, 0] if level % 2 else [0, 1]
    if level >= 4:
        kinds = [1, 1]
    wants: list[Row] = []
    for row, refundable in zip(pair, kinds, strict=True):
        row["refundable"] = refundable
        booked = add_booking(
            start,
            kind="flight",
            item=row["id"],
            start=row["day"],
            finish=row["day"],
            seat="Aisle",
            centre=centre,
            reason=reason,
            paid=row["cents"],
        )
        if refundable:
            wants.append(changed("travel", "booking", booked["id"], status="cancelled"))
    hotel = _hotel(start, rng, target, flexible=level >= 2)
    hotel["flexible"] = int(level >= 2)
    stay = add_booking(
        start, kind="hotel", item=hotel["id"], start=day, finish=leave, centre=centre, reason=reason, paid=hotel["cents"] * 2
    )
    if hotel["flexible"]:
        wants.append(changed("travel", "booking", stay["id"], status="cancelled"))
    if level >= 3:
        later = add_flights(start, rng, origin, target, days_after(day, 21), 3)[0]
        later["refundable"] = 1
        add_booking(
            start,
            kind="flight",
            item=later["id"],
            start=later["day"],
            finish=later["day"],
            seat="Aisle",
            centre=centre,
            reason=rng.choice([each for each in _REASONS if each != reason]),
            paid=later["cents"],
        )
    booked = start["travel"]["booking"]
    codes = [row["code"] for row in booked if row["id"] in {want["find"]["id"] for want in wants}]
    back = sum(row["paid"] for row in booked if row["code"] in codes)
    prompt = (
        f"My trip to {target} from {day_text(day)} to {day_text(leave)} is off. Please cancel those bookings of this trip for"
        f" which the money comes back, and"
        f" leave the others as they are (I will talk to the office). Other trips stay. File the sum that comes back."
        f" {access('travel')}"
    )
    plan = {"first": day, "last": leave, "amount": money(back)}
    return Case("Cancel a trip", prompt, start, wants, plan, {"result": "Done", "cents": back})


async def play_cancel_trip(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    """Opens each booking of the trip's days, reads whether it is paid back, and adds up what is."""
    await surf.sign_in("travel", "/trips")
    rows = re.findall(r'- link "(W\w+)".*\n.*\n *- cell ".*"\n *- cell "(\S+)"\n *- cell "(\S+)"\n *- cell "booked"', surf.page)
    codes = [code for code, begins, ends in rows if plan["first"] <= begins and ends <= plan["last"]]
    cents = 0
    for code in codes:
        await surf.open("travel", "/trips")
        await surf.click("link", code)
        if surf.has("not refundable") or surf.has("cancellation without refund"):
            continue
        paid = re.search(r"Paid EUR ([\d,]+[.]\d\d)", surf.page)
        assert paid is not None
        cents += parse_money(paid[1]) or 0
        await surf.click("button", "Cancel booking")
        await surf.answer(accept=True)
    return {"amount": money(cents)}


# -- expenses ----------------------------------------------------------------------------------------------------------


def report_expenses(rng: Random, level: int) -> Case:
    """Receipts into a report by the policy: no alcohol, meals up to a daily sum, mileage by kilometres; then submit it."""
    start = begin(rng)
    _, city, centre, _ = _trip(rng)
    day = f"2026-03-{rng.randrange(2, 7):02}"
    trip = f"{city}, March"
    lines: list[Row] = []

    def receipt(vendor: str, kind: str, cents: int, note: str = "", paid: int | None = None) -> None:
        add_row(start, "travel", "receipt", trip=trip, day=day, vendor=vendor, category=kind, cents=cents, note=note)
        if paid != 0:
            lines.append({"day": day, "category": kind, "cents": cents if paid is None else paid, "vendor": vendor})

    receipt(f"Taxi {city}", "Taxi", rng.randrange(1_200, 4_800))
    receipt("Regiobahn", "Train", rng.randrange(900, 3_900))
    if level >= 2:
        receipt(f"Bar Centrale {city}", "Meals", rng.randrange(1_200, 2_900), "2 Riesling 0.2 l", 0)
    if level >= 3:
        receipt(f"Bistro {city}", "Meals", rng.randrange(3_800, 6_200), "soup, pasta, salad, mineral water", 3_500)
    if level >= 4:
        km = rng.randrange(40, 180)
        receipt("Office to station and back", "Mileage", 0, f"{km} km", km * 30)
    if level >= 5:
        cap = next(row["cents"] for row in start["travel"]["cap"] if row["city"] == city)
        receipt(f"Astoria {city}", "Hotel", rng.randrange(9_000, min(14_000, cap)))
        add_row(
            start,
            "travel",
            "receipt",
            trip="Milan, February",
            day="2026-02-03",
            vendor="Taxi Milano",
            category="Taxi",
            cents=2_700,
            note="",
        )
    prompt = (
        f'Please make an expense report from my receipts of the trip "{trip}": title "{trip}", cost centre {centre}, one line'
        f" for each receipt that the policy"
        " reimburses (vendor or route as on the receipt), with what the policy allows, and submit it. Each receipt is dated in"
        " the list. File the total of the"
        f" report. {access('travel')}"
    )
    wants = [added("travel", "report", {"centre": centre, "status": "submitted"}, title=trip)]
    wants += [
        added(
            "travel",
            "line",
            {"cents": line["cents"], "day": line["day"], "category": line["category"]},
            vendor=line["vendor"],
            report=same(0, "id"),
        )
        for line in lines
    ]
    total = sum(line["cents"] for line in lines)
    return Case(
        "Expense report",
        prompt,
        start,
        wants,
        {"title": trip, "centre": centre, "lines": lines, "amount": money(total)},
        {"result": "Done", "cents": total},
    )


async def play_expenses(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    await surf.sign_in("travel", "/policy")
    await surf.open("travel", "/receipts")
    await surf.menu("More", "Expense reports")
    if plan["title"] is not None:
        await surf.fill({"Title": plan["title"], "Cost centre": plan["centre"]})
        await surf.click("button", "Create report")
    else:
        await surf.click("link", plan["open"])
    for line in plan["lines"]:
        await surf.fill(
            {
                "Day": line["day"],
                "Category": line["category"],
                "Vendor or route": line["vendor"],
                "Amount EUR": money(line["cents"]),
            }
        )
        await surf.click("button", "Add line")
    await surf.click("button", "Submit report")
    await surf.answer(accept=True)
    return {"amount": plan["amount"]}


# -- the profile -------------------------------------------------------------------------------------------------------


def update_profile(rng: Random, level: int) -> Case:
    """New passport and preferences; what is not named stays."""
    start = begin(rng)
    passport = "".join(rng.choice("CFGHJKLMNPRTVWXYZ0123456789") for _ in range(9))
    expires = f"20{rng.randrange(33, 37)}-0{rng.randrange(1, 10)}-{rng.randrange(10, 28)}"
    have: Row = {"passport": passport, "expires": expires, "seat": "Aisle", "meal": "Standard", "frequent": ""}
    words = [f"my new passport is {passport}, valid until {day_text(expires)}"]
    if level >= 2:
        have["meal"] = rng.choice(("Vegetarian", "Vegan"))
        words.append(f"I eat {have['meal'].lower()} from now on")
    if level >= 3:
        have["frequent"] = f"OX{rng.randrange(10**6, 10**7)}"
        words.append(f"my frequent flyer number is {have['frequent']}")
    if level >= 4:
        have["seat"] = "Window"
        words.append("I prefer a window seat")
    rest = "The rest stays as it is. File the errand as done."
    prompt = f"Please update my profile at the travel desk: {'; '.join(words)}. {rest} {access('travel')}"
    labels = {
        "passport": "Passport number",
        "expires": "Passport valid until",
        "seat": "Seat",
        "meal": "Meal",
        "frequent": "Frequent flyer number",
    }
    return Case(
        "Travel profile",
        prompt,
        start,
        [changed("travel", "profile", 1, **have)],
        {"form": {labels[name]: value for name, value in have.items()}},
    )


async def play_profile(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    await surf.sign_in("travel")
    await surf.menu("More", "Profile")
    await surf.fill(plan["form"])
    await surf.click("button", "Save profile")
    return {}


# -- across sites ------------------------------------------------------------------------------------------------------


def pay_order(rng: Random, level: int) -> Case:
    """An order of the shop that waits for a bank transfer: amount, IBAN and purpose stand on its page."""
    start = begin(rng)
    waiting = start["shop"]["purchase"][4:6]
    fits = [row for row in start["shop"]["product"] if 4_000 <= row["cents"] <= 19_000]
    for row, product in zip(waiting[: 1 if level < 3 else 2], rng.sample(fits, 2), strict=False):
        row["payment"], row["status"] = "invoice", "awaiting payment"
        replace_items(start, row, product, 1)
    chosen = waiting[0] if level < 5 else min(waiting, key=lambda row: row["total"])
    which = (
        "my order that waits for payment"
        if level < 2
        else f"order {chosen['number']}"
        if level < 5
        else "the cheaper of my two orders that wait for payment"
    )
    account = 3 if level >= 4 else 1
    name = {1: "current", 3: "household"}[account]
    prompt = (
        f"Please pay {which} at Alder & Finch by transfer from my {name} account at Northbank, today. Recipient, IBAN, amount"
        f" and purpose as the shop asks for"
        f" them on the page of the order. File the order number and the amount. {access('shop', 'bank')}"
    )
    have = {"account": account, "name": "Alder & Finch", "purpose": chosen["number"], "day": TODAY, "cents": chosen["total"]}
    want = added("bank", "transfer", have, iban=_SHOP_IBAN)
    form = {"From account": f"{name.capitalize()} account (EUR *", "Recipient": "Alder & Finch", "IBAN": _SHOP_IBAN}
    form |= {"Amount EUR": money(chosen["total"]), "Purpose": chosen["number"], "Execution date": TODAY}
    plan = {"order": chosen["number"], "form": form, "account": f"{name.capitalize()} account", "amount": money(chosen["total"])}
    outcome = {"result": "Done", "reference": chosen["number"], "cents": chosen["total"]}
    return Case("Pay an order", prompt, start, [want], plan, outcome)


async def play_pay_order(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    await surf.sign_in("shop", "/orders")
    await surf.click("link", plan["order"])
    await surf.sign_in("bank", "/transfer")
    shown = next(line for line in surf.page.splitlines() if f'option "{plan["account"]} (EUR' in line).split('"')[1]
    await send_transfer(surf, {"form": plan["form"] | {"From account": shown}})
    return {"reference": plan["order"], "amount": plan["amount"]}


def find_refunds(rng: Random, level: int) -> Case:
    """Items went back to the shop: which refund has not reached the bank? Ask the shop about that one only."""
    start = begin(rng)
    orders = start["shop"]["purchase"][1:3]
    items = [next(row for row in start["shop"]["item"] if row["purchase"] == order["id"]) for order in orders]
    missing = rng.randrange(2) if level != 4 else None
    for place, (order, item) in enumerate(zip(orders, items, strict=True)):
        add_row(
            start,
            "shop",
            "giveback",
            purchase=order["id"],
            product=item["product"],
            quantity=1,
            reason="Does not fit",
            refund="Original payment",
        )
        if place != missing:
            add_entry(start, days_after(TODAY, -2), "Alder & Finch", item["cents"], f"Refund {order['number']}", "Household")
        elif level >= 3:  # another firm's refund of the same sum
            add_entry(
                start, days_after(TODAY, -3), "Haus & Hof", item["cents"], f"Refund HH-{rng.randrange(1000, 9999)}", "Household"
            )
    prompt = (
        f"I sent items of the orders {orders[0]['number']} and {orders[1]['number']} back to Alder & Finch (the returns are"
        f" registered there). Please"
        " check on my current account at Northbank"
        " whether both refunds have arrived. If one is missing, write to the shop with their contact form: topic Refund"
        " missing, the order number, and a"
        " sentence that says so; file the errand as done with that order number. If both are there, write nothing and file it"
        " as not possible: nothing was due,"
        f" with the sum of both refunds. {access('shop', 'bank')}"
    )
    if missing is None:
        total = sum(item["cents"] for item in items)
        outcome = {"result": "Not possible", "reason": "Nothing was due", "cents": total}
        return Case(
            "Missing refund",
            prompt,
            start,
            [],
            {"order": None, "amount": money(total), "orders": [row["number"] for row in orders]},
            outcome,
        )
    number = orders[missing]["number"]
    want = added("shop", "inquiry", {"topic": "Refund missing"}, purchase=number)
    return Case(
        "Missing refund",
        prompt,
        start,
        [want],
        {"order": number, "orders": [row["number"] for row in orders]},
        {"result": "Done", "reference": number},
    )


async def play_refunds(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    await surf.sign_in("shop", "/orders")
    for number in plan["orders"]:
        await surf.open("shop", f"/orders/{number}")
    await surf.sign_in("bank")
    await surf.click("link", "Current account")
    await surf.fill({"Name or purpose contains": "refund"})
    await surf.click("button", "Show")
    if plan["order"] is None:
        return {"result": "Not possible", "reason": "Nothing was due", "amount": plan["amount"]}
    await surf.open("shop", "/contact")
    await surf.fill(
        {"Topic": "Refund missing", "Order number": plan["order"], "Message": "The refund for my return has not arrived."}
    )
    await surf.click("button", "Send message")
    return {"reference": plan["order"]}


def expense_from_bank(rng: Random, level: int) -> Case:
    """A lost receipt: the figures for the report come from the bank statement."""
    start = begin(rng)
    city = CITIES[level]  # abroad, and another one at each level
    day = f"2026-03-{rng.randrange(2, 12):02}"
    paid = add_entry(
        start,
        day,
        f"Hotel Bellevue {city}",
        -rng.randrange(9_000, 29_000),
        f"Card payment {rng.randrange(10_000, 99_999)}",
        "Travel",
    )
    lines: list[Row] = [{"day": day, "category": "Hotel", "cents": -paid["cents"], "vendor": paid["name"]}]
    if level >= 3:
        add_entry(
            start,
            f"2026-02-{rng.randrange(10, 28)}",
            f"Hotel Bellevue {city}",
            -rng.randrange(9_000, 29_000),
            "Card payment 11204",
            "Travel",
        )
    if level >= 4:
        taxi = add_entry(
            start, days_after(day, 1), "City Taxi Berlin", -rng.randrange(1_900, 4_900), "Card payment 20991, airport", "Travel"
        )
        lines.append({"day": taxi["day"], "category": "Taxi", "cents": -taxi["cents"], "vendor": taxi["name"]})
    centre = rng.choice(("CC4100", "CC5310"))
    title = f"{city}, receipts lost"
    report = add_row(start, "travel", "report", title=title, centre=centre, status="draft") if level >= 2 else None
    which = f'Add it to the draft report "{title}"' if report else f'Make a report "{title}", cost centre {centre}, with it'
    more = " Do the same for the taxi from the airport the day after (its purpose says airport)." if level >= 4 else ""
    prompt = (
        f"I have lost the receipt of the Hotel Bellevue {city} from this month, paid by card from my current account at"
        f" Northbank. {which} at the travel desk:"
        f" day, vendor as on the statement, amount as booked.{more} Then submit the report and file its total."
        f" {access('bank', 'travel')}"
    )
    if report:
        wants: list[Row] = [changed("travel", "report", report["id"], status="submitted")]
    else:
        wants = [added("travel", "report", {"centre": centre, "status": "submitted"}, title=title)]
    wants += [
        added(
            "travel",
            "line",
            {"cents": line["cents"], "day": line["day"], "category": line["category"]},
            vendor=line["vendor"],
            report=same(0, "id"),
        )
        for line in lines
    ]
    total = sum(line["cents"] for line in lines)
    plan = {"title": None if report else title, "open": title, "centre": centre, "lines": lines, "amount": money(total)}
    return Case("Expense from the bank", prompt, start, wants, plan, {"result": "Done", "cents": total})


async def play_expense_from_bank(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    await surf.sign_in("bank")
    await surf.click("link", "Current account")
    await surf.fill({"Month": "2026-03", "Category": "Travel"})
    await surf.click("button", "Show")
    return await play_expenses(surf, plan)


FAMILIES = {
    "flight-in-policy": (flight_in_policy, play_flight),
    "hotel-in-policy": (hotel_in_policy, play_hotel),
    "whole-trip": (whole_trip, play_trip),
    "rebook-flight": (rebook_flight, play_rebook),
    "cancel-trip": (cancel_trip, play_cancel_trip),
    "report-expenses": (report_expenses, play_expenses),
    "update-profile": (update_profile, play_profile),
    "pay-order": (pay_order, play_pay_order),
    "find-refunds": (find_refunds, play_refunds),
    "expense-from-bank": (expense_from_bank, play_expense_from_bank),
}
