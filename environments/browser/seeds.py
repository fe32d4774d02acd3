"""The records that a world starts with, made from a seed: a catalogue, a year of payments, flights and hotels, one person's data.

`make_start` gives plain rows by site and table; tasks may then change single rows. The same seed gives the same rows.
"""

from datetime import date, timedelta
from random import Random
from typing import Any

from .bank import make_iban
from .office import HOSTS as OFFICE_HOSTS
from .records import Row
from .shop import CATEGORIES, bill
from .travel import CITIES
from .web import days_after

Start = dict[str, dict[str, list[Row]]]

TODAY = "2026-03-16"
PERSON = {"name": "Ada Quist", "login": "ada.quist", "email": "ada.quist@mail.example"}
PASSWORDS = {"shop": "finch-4471", "bank": "north-9302", "travel": "way-1185"}
HOSTS = {"shop": "shop.example", "bank": "bank.example", "travel": "travel.example", "desk": "desk.example"} | OFFICE_HOSTS

_BRANDS = ("Marlow", "Orbit", "Kestrel", "Tamsin", "Voss", "Linden")
_COLOURS = ("steel", "black", "white", "sage", "navy")
_UNITS = {
    "Kettles": ("l", (1.0, 1.2, 1.5, 1.7)),
    "Coffee makers": ("cups", (4, 6, 8, 12)),
    "Blenders": ("l", (0.6, 1.0, 1.5, 2.0)),
    "Headphones": ("h battery", (18, 24, 30, 40)),
    "Keyboards": ("keys", (61, 75, 87, 104)),
    "Backpacks": ("l", (18, 22, 28, 35)),
    "Desk lamps": ("lm", (400, 600, 800, 1000)),
    "Water bottles": ("l", (0.5, 0.75, 1.0, 1.5)),
}
_PRICES = {
    "Kettles": 39,
    "Coffee makers": 79,
    "Blenders": 55,
    "Headphones": 99,
    "Keyboards": 89,
    "Backpacks": 69,
    "Desk lamps": 45,
}
_PRAISE = (
    "Does what it says.",
    "Used daily for a year, no complaint.",
    "Well made, a bit heavy.",
    "Arrived quickly and well packed.",
)
_BLAME = ("Smaller than I thought.", "The lid came loose after a month.", "Louder than expected.")
_AUTHORS = ("Ilse", "Bram", "Noor", "Tove", "Pavel", "Mina", "Jonas", "Rike")


def make_start(rng: Random) -> Start:
    """All rows of a world."""
    shop = _shop(rng)
    return {"shop": shop, "bank": _bank(rng, shop["purchase"]), "travel": _travel(rng), "desk": {"errand": [], "outcome": []}}


def _user(site: str) -> list[Row]:
    return [{"id": 1, **PERSON, "password": PASSWORDS[site], "phone": "030 5550 1180"}]


def _numbered(rows: list[Row]) -> list[Row]:
    return [{"id": number, **row} for number, row in enumerate(rows, 1)]


# -- the shop ----------------------------------------------------------------------------------------------------------


def _shop(rng: Random) -> dict[str, list[Row]]:
    products = _numbered([product for category in CATEGORIES for product in _products(rng, category)])
    reviews: list[Row] = []
    for product in products:
        for author in rng.sample(_AUTHORS, rng.randrange(1, 4)):
            stars = min(5, max(1, round(product["rating"] + rng.uniform(-1, 1))))
            reviews.append(
                {"product": product["id"], "author": author, "stars": stars, "text": rng.choice(_PRAISE if stars > 3 else _BLAME)}
            )
    coupons = [
        {"code": "SPRING10", "percent": 10, "excluded": "", "least": 3000, "until": "2026-03-31"},
        {"code": "KITCHEN20", "percent": 20, "excluded": "Headphones", "least": 8000, "until": "2026-04-30"},
        {"code": "WINTER25", "percent": 25, "excluded": "", "least": 0, "until": "2026-02-28"},
        {"code": "HOME15", "percent": 15, "excluded": "Coffee makers", "least": 5000, "until": "2026-03-31"},
    ]
    addresses = [
        {"label": "Home", "name": "Ada Quist", "street": "Lindenweg 14", "postcode": "10437", "city": "Berlin", "standard": 1},
        {
            "label": "Office",
            "name": "Ada Quist, Ostra GmbH",
            "street": "Hafenstrasse 3",
            "postcode": "10997",
            "city": "Berlin",
            "standard": 0,
        },
        {"label": "Parents", "name": "Karl Quist", "street": "Am Bach 8", "postcode": "04229", "city": "Leipzig", "standard": 0},
    ]
    purchases, items = _purchases(rng, products)
    return {
        "user": _user("shop"),
        "product": products,
        "review": _numbered(reviews),
        "coupon": _numbered(coupons),
        "address": _numbered(addresses),
        "purchase": purchases,
        "item": items,
        "giveback": [],
        "wish": _numbered([{"product": product["id"]} for product in rng.sample(products, 2)]),
        "inquiry": [],
    }


def _products(rng: Random, category: str) -> list[Row]:
    unit, sizes = _UNITS[category]
    noun = category.lower() if category == "Headphones" else category.removesuffix("s").lower()
    base = _PRICES.get(category, 24)
    rows: list[Row] = []
    for brand in rng.sample(_BRANDS, 5):
        model = f"{brand} {rng.choice('KTRXD')}{rng.randrange(11, 99)}"
        for variant in rng.sample(("", " Pro", " S"), 2):
            cents = int(base * rng.uniform(0.6, 1.7)) * 100 + rng.choice((0, 50, 90, 95))
            rows.append(
                {
                    "name": f"{model}{variant} {noun}",
                    "brand": brand,
                    "category": category,
                    "cents": cents,
                    "rating": rng.randrange(28, 50) / 10,
                    "stock": rng.choice((0, 3, 6, 12, 20)),
                    "days": rng.randrange(1, 9),
                    "colour": rng.choice(_COLOURS),
                    "size": rng.choice(sizes),
                    "unit": unit,
                    "about": f"Made by {brand}. Two years of warranty.",
                    "sponsored": int(rng.random() < 0.15),
                }
            )
    return rows


def _purchases(rng: Random, products: list[Row]) -> tuple[list[Row], list[Row]]:
    purchases: list[Row] = []
    items: list[Row] = []
    days = (("delivered", -61), ("delivered", -24), ("delivered", -12), ("shipped", -3), ("processing", -1), ("processing", 0))
    base = rng.randrange(15_000, 19_500)
    for number, (status, day) in enumerate(days, 1):
        placed = days_after(TODAY, day)
        chosen = rng.sample(products, rng.randrange(1, 4))
        bought = [(product, rng.randrange(1, 4)) for product in chosen]
        choice = {"delivery": "standard", "insurance": 0, "wrap": 0}
        for product, quantity in bought:
            items.append({"purchase": number, "product": product["id"], "quantity": quantity, "cents": product["cents"]})
        purchases.append(
            {
                "number": f"AF-{base + 83 * number}",
                "placed": placed,
                "status": status,
                "arrived": days_after(placed, 4) if status == "delivered" else "",
                "address": 1,
                "payment": "card",
                "message": "",
                "coupon": "",
                "total": bill(bought, choice, None, placed)["total"],
                **choice,
            }
        )
    return _numbered(purchases), _numbered(items)


# -- the bank ----------------------------------------------------------------------------------------------------------

SHOPS: dict[str, dict[str, tuple[int, int]]] = {
    "Groceries": {"Markthalle Nord": (450, 8_900), "Feinkost Adler": (900, 5_900), "Biomarkt Spree": (600, 9_900)},
    "Travel": {"Regiobahn": (380, 5_900), "City Taxi Berlin": (1_100, 4_600), "Parkhaus Mitte": (300, 2_400)},
    "Leisure": {"Kino Babylon": (1_100, 3_900), "Buchladen Lesart": (900, 6_500)},
    "Household": {"Baumarkt Ost": (700, 18_900), "Haus & Hof": (1_200, 15_900)},
}
"""Where Ada Quist pays by card, by category, and between how many and how many cents."""


def iban_of(rng: Random) -> str:
    return make_iban("".join(str(rng.randrange(10)) for _ in range(18)))


def _bank(rng: Random, purchases: list[Row]) -> dict[str, list[Row]]:
    accounts = [
        {"name": "Current account", "iban": iban_of(rng), "opening": 1_250_000},
        {"name": "Savings account", "iban": iban_of(rng), "opening": 1_860_000},
        {"name": "Household account", "iban": iban_of(rng), "opening": 240_000},
    ]
    payees = [
        {"name": name, "iban": iban_of(rng)}
        for name in ("Lena Brandt", "Lena Brand", "Hausverwaltung Kolb", "Zahnarzt Dr. Yilmaz")
    ]
    standing = [
        ("Hausverwaltung Kolb", "Rent flat 12", 118_000, "monthly", 1, payees[2]["iban"]),
        ("Hausverwaltung Kolb", "Parking space 7", 8_500, "monthly", 1, payees[2]["iban"]),
        ("Boulderwerk", "Membership", 4_900, "monthly", 3, iban_of(rng)),
        ("Hansa Versicherung", "Household policy", 15_600, "yearly", 1, iban_of(rng)),
    ]
    cards = [
        {"label": "Debit card", "digits": "4417", "status": "active", "monthly": 200_000, "online": 1, "abroad": 1},
        {"label": "Credit card", "digits": "8820", "status": "active", "monthly": 300_000, "online": 1, "abroad": 1},
        {"label": "Credit card", "digits": "8802", "status": "active", "monthly": 150_000, "online": 1, "abroad": 0},
    ]
    return {
        "user": _user("bank"),
        "account": _numbered(accounts),
        "entry": _entries(rng, purchases),
        "payee": _numbered(payees),
        "transfer": [],
        "standing": _numbered(
            [
                {
                    "account": 1,
                    "name": name,
                    "iban": iban,
                    "cents": cents,
                    "purpose": purpose,
                    "every": every,
                    "day": f"2026-04-{day:02}",
                    "last": "",
                    "status": "active",
                }
                for name, purpose, cents, every, day, iban in standing
            ]
        ),
        "card": _numbered([card | {"replacement": ""} for card in cards]),
        "dispute": [],
        "setting": [{"id": 1, "daily": 200_000}],
        "code": _numbered([{"code": f"{rng.randrange(10**6):06}"} for _ in range(20)]),
        "proof": [],
    }


def _entries(rng: Random, purchases: list[Row]) -> list[Row]:
    """Months of the current account: what is booked every month, card payments, and what the shop sent."""
    rows: list[Row] = []
    monthly = _monthly(rng)
    for month in ("2025-12", "2026-01", "2026-02", "2026-03"):
        last = 15 if month == "2026-03" else 28
        rows += [
            _entry(working_day(f"{month}-{day:02}"), name, cents, purpose.replace("MONTH", month), category)
            for day, name, cents, purpose, category in monthly
        ]
        for category, shops in SHOPS.items():
            for _ in range(rng.randrange(3, 8) if category == "Groceries" else rng.randrange(2, 5)):
                name, between = rng.choice(sorted(shops.items()))
                day = f"{month}-{rng.randrange(1, last + 1):02}"
                rows.append(
                    _entry(day, name, -rng.randrange(*between), f"Card payment {rng.randrange(10_000, 99_999)}", category)
                )
    rows += [
        _entry(row["placed"], "Alder & Finch", -row["total"], f"Card payment {row['number']}", "Household")
        for row in purchases
        if row["status"] in {"delivered", "shipped"}  # the shop charges the card when it sends the parcel
    ]
    rows.sort(key=lambda row: row["day"])
    return _numbered(rows)


def _monthly(rng: Random) -> list[tuple[int, str, int, str, str]]:
    """What is booked every month: day, name, cents, purpose, category. All of it has come by the 15th."""

    def debit(day: int, name: str, low: int, high: int, category: str) -> tuple[int, str, int, str, str]:
        return day, name, -rng.randrange(low, high), f"Direct debit, contract {rng.randrange(10_000, 99_999)}", category

    return [
        (1, "Ostra GmbH", 412_000, "Salary MONTH", "Income"),
        (1, "Hausverwaltung Kolb", -118_000, "Rent flat 12", "Rent"),
        (1, "Hausverwaltung Kolb", -8_500, "Parking space 7", "Rent"),
        (3, "Boulderwerk", -4_900, "Membership", "Leisure"),
        debit(5, "Stadtwerke Spree", 6_100, 9_900, "Energy"),
        debit(5, "Gasversorgung Havel", 2_900, 5_900, "Energy"),
        debit(10, "Hansa Versicherung", 4_900, 8_900, "Insurance"),
        debit(10, "Hansa Rechtsschutz", 1_900, 3_900, "Insurance"),
        (12, "Streamline Video", -1_299, "Direct debit, subscription", "Leisure"),
    ]


def working_day(day: str) -> str:
    """This day, or the Monday after it: banks book nothing at the weekend."""
    found = date.fromisoformat(day)
    return (found + timedelta(days=7 - found.weekday() if found.weekday() > 4 else 0)).isoformat()


def _entry(day: str, name: str, cents: int, purpose: str, category: str, status: str = "booked", account: int = 1) -> Row:
    return {
        "account": account,
        "day": day,
        "name": name,
        "cents": cents,
        "purpose": purpose,
        "category": category,
        "status": status,
    }


def add_row(into: Start, site: str, table: str, /, **values: Any) -> Row:
    """Add a row to a world's start and return it."""
    rows = into[site][table]
    row = {"id": max((row["id"] for row in rows), default=0) + 1, **values}
    rows.append(row)
    return row


def add_entry(start: Start, day: str, name: str, cents: int, purpose: str, category: str, status: str = "booked") -> Row:
    """Add a payment of the current account."""
    return add_row(start, "bank", "entry", **_entry(day, name, cents, purpose, category, status))


def add_item(start: Start, order: Row, product: Row, quantity: int) -> None:
    """Add an item to an order of the shop, which then costs more."""
    add_row(start, "shop", "item", purchase=order["id"], product=product["id"], quantity=quantity, cents=product["cents"])
    items = [(row, row["quantity"]) for row in start["shop"]["item"] if row["purchase"] == order["id"]]
    order["total"] = bill(items, order, None, order["placed"])["total"]
    for entry in start["bank"]["entry"]:
        if entry["purpose"] == f"Card payment {order['number']}":
            entry["cents"] = -order["total"]


def replace_items(start: Start, order: Row, product: Row, quantity: int) -> None:
    """Let an order be about this product only."""
    start["shop"]["item"] = [row for row in start["shop"]["item"] if row["purchase"] != order["id"]]
    add_item(start, order, product, quantity)


def number_entries(start: Start) -> None:
    """Number the payments by their days, so that the number of one that was added does not stand out."""
    rows = start["bank"]["entry"]
    rows.sort(key=lambda row: row["day"])
    for number, row in enumerate(rows, 1):
        row["id"] = number


# -- the travel desk ---------------------------------------------------------------------------------------------------

_HOTELS = ("Astoria", "Central", "Bellevue", "Station Inn", "Park", "Harbour House")
_LINES = ("OX", "NB", "LV")


def _travel(rng: Random) -> dict[str, list[Row]]:
    hotels = [
        {
            "city": city,
            "name": f"{name} {city}",
            "stars": rng.randrange(3, 6),
            "cents": rng.randrange(78, 240) * 100,
            "km": rng.randrange(2, 60) / 10,
            "breakfast": int(rng.random() < 0.5),
            "flexible": int(rng.random() < 0.6),
        }
        for city in CITIES
        for name in _HOTELS
    ]
    caps = [{"city": city, "cents": rng.randrange(12, 19) * 1000} for city in CITIES]
    profile = {"passport": "C4F2R7K19", "expires": "2026-09-30", "seat": "Aisle", "meal": "Standard", "frequent": ""}
    return {
        "user": _user("travel"),
        "profile": _numbered([profile]),
        "flight": [],
        "hotel": _numbered(hotels),
        "cap": _numbered(caps),
        "booking": [],
        "receipt": [],
        "report": _numbered([{"title": "Lyon, February", "centre": "CC4100", "status": "submitted"}]),
        "line": _numbered([{"report": 1, "day": "2026-02-12", "category": "Taxi", "cents": 3150, "vendor": "Taxi Lyonnais"}]),
    }


def clock_text(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def add_flights(start: Start, rng: Random, origin: str, target: str, day: str, count: int = 8) -> list[Row]:
    """Flights of one day between two cities, with different prices."""
    prices = rng.sample(range(92, 620), count)
    rows: list[Row] = []
    for leaves, price in zip(sorted(rng.sample(range(6 * 60, 20 * 60, 5), count)), prices, strict=True):
        stops = rng.choice((0, 0, 1, 1, 2))
        arrives = leaves + 95 + 75 * stops + rng.randrange(0, 30)
        rows.append(
            add_row(
                start,
                "travel",
                "flight",
                origin=origin,
                target=target,
                day=day,
                leaves=clock_text(leaves),
                arrives=clock_text(arrives),
                stops=stops,
                number=f"{rng.choice(_LINES)}{rng.randrange(100, 999)}",
                cents=price * 100,
                refundable=int(rng.random() < 0.4),
                seats=rng.choice((0, 4, 9, 9)),
            )
        )
    return rows


def add_booking(into: Start, /, **values: Any) -> Row:
    """A booking that exists already."""
    count = len(into["travel"]["booking"])
    blank = {"insurance": 0, "bag": 0, "seat": "", "centre": "CC4100", "reason": "", "status": "booked", "paid": 0}
    return add_row(
        into, "travel", "booking", code=f"W{'KQTRMX'[count % 6]}{'BDFHJL'[count % 6]}{417 + 31 * count}", **(blank | values)
    )
