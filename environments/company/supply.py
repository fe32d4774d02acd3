"""What the firm buys: suppliers, purchase orders, bills, expenses. And the books, made from all of it."""
# ruff: noqa: E501 - names and wordings stand on one line

from datetime import date, timedelta
from random import Random

from .people import FIRST, START, TODAY, weekday
from .records import Bill, Contact, Entry, Expense, Firm, Line, Order, Payment, Supplier

SUPPLIERS = (
    ("Vernier Components", "verniercomponents.example", "electronics", "310", 30),
    ("Vernier Compliance", "verniercompliance.example", "certification", "425", 30),
    ("Cobalt Hosting", "cobalthosting.example", "cloud hosting", "463", 14),
    ("Brandt Enclosures", "brandtenclosures.example", "metal housings", "310", 45),
    ("Slate & Co Workspace", "slateworkspace.example", "office rent", "469", 14),
    ("Fennel Catering", "fennelcatering.example", "catering", "420", 14),
    ("Pilot Couriers", "pilotcouriers.example", "shipping", "425", 14),
    ("Ridgeway Legal", "ridgewaylegal.example", "legal advice", "441", 30),
    ("Stellar Recruit", "stellarrecruit.example", "recruiting", "478", 30),
    ("Norden Insurance", "nordeninsurance.example", "insurance", "433", 30),
    ("Optiq Laptops", "optiqlaptops.example", "IT equipment", "720", 30),
    ("Clearline Telecom", "clearlinetelecom.example", "telephones and internet", "489", 14),
    ("Mosaic Design Studio", "mosaicdesign.example", "marketing", "400", 30),
    ("Trellis Training", "trellistraining.example", "training", "478", 30),
    ("Halyard Test House", "halyardtest.example", "device testing", "425", 30),
    ("Printworks Nine", "printworksnine.example", "print", "400", 14),
)
MONTHLY = {"Cobalt Hosting": 684_000, "Slate & Co Workspace": 920_000, "Clearline Telecom": 41_800, "Norden Insurance": 78_500}
GOODS = {
    "Vernier Components": (("radio module RM-9", 1_240), ("mainboard for GW-200", 9_850), ("humidity element HE-2", 415)),
    "Brandt Enclosures": (("GW-200 housing", 2_180), ("wall bracket", 365)),
    "Vernier Compliance": (("CE test report", 245_000),),
    "Fennel Catering": (("lunch for the all-hands", 74_000), ("customer day buffet", 128_000)),
    "Pilot Couriers": (("pallet to customer site", 13_900),),
    "Ridgeway Legal": (("contract review, hours", 21_000),),
    "Stellar Recruit": (("placement fee", 640_000),),
    "Optiq Laptops": (("laptop 14 inch", 138_000), ("27 inch monitor", 31_900), ("docking station", 17_400)),
    "Mosaic Design Studio": (("brochure design", 186_000), ("trade fair stand", 412_000)),
    "Trellis Training": (("course seat: safety at height", 39_000),),
    "Halyard Test House": (("burn-in test, batch", 88_000),),
    "Printworks Nine": (("data sheets, box", 14_500),),
}
REQUESTERS = {
    "Vernier Components": "Engineering Manager, Devices", "Brandt Enclosures": "Engineering Manager, Devices",
    "Vernier Compliance": "Engineering Manager, Devices", "Fennel Catering": "Office Manager", "Pilot Couriers": "Warehouse Coordinator",
    "Ridgeway Legal": "Chief Financial Officer", "Stellar Recruit": "Recruiter", "Optiq Laptops": "IT Support Technician",
    "Mosaic Design Studio": "Marketing Manager", "Trellis Training": "HR Generalist", "Halyard Test House": "QA Engineer",
    "Printworks Nine": "Marketing Manager",
}  # fmt: skip
WHY = {
    "electronics": (
        "safety stock is down to two weeks",
        "build of the next gateway batch",
        "the 2.4 revision needs the new part",
    ),
    "metal housings": ("housings for the spring batch", "scratched lot has to be replaced"),
    "certification": ("CE renewal for the gateway", "the test report is required for the Belgian tender"),
    "catering": ("quarterly all-hands", "customer day at the office"),
    "shipping": ("pallets that do not fit our own van", "delivery to a customer abroad"),
    "legal advice": ("review of a customer's standard terms", "lease renewal"),
    "recruiting": ("open engineering role", "open support role"),
    "IT equipment": ("new starters next month", "replacements for machines out of warranty"),
    "marketing": ("autumn trade fair", "new product sheets"),
    "training": ("installers need the certificate", "yearly refresher"),
    "device testing": ("burn-in before the release", "field returns need a second look"),
    "print": ("data sheets ran out", "handouts for the fair"),
}
MERCHANTS = (
    ("Irish Rail", "travel", 2_450, 9_800), ("Hotel Meridian", "travel", 11_900, 31_000), ("Taxi", "travel", 1_400, 5_200),
    ("Bistro Quay", "meals", 2_600, 14_500), ("Stationer's Corner", "office", 900, 6_400), ("Parking Docklands", "travel", 600, 3_600),
    ("Airline ticket", "travel", 8_900, 42_000), ("Online course", "training", 4_900, 29_900),
)  # fmt: skip
PURPOSES = ("visit to {}", "workshop at {}", "installation check at {}", "contract talks with {}", "training day at {}")


def add_supply(firm: Firm, rng: Random) -> None:
    for number, (name, domain, category, account, terms) in enumerate(SUPPLIERS, start=1):
        who = f"{rng.choice(FIRST)} {rng.choice(('Adler', 'Beck', 'Corr', 'Dunne', 'Elgin', 'Frost', 'Gibb', 'Hale'))}"
        contact = Contact(who, f"{who.split(maxsplit=1)[0].lower()}@{domain}", "accounts")
        iban = f"IE{rng.randrange(10, 99)}NLGT{rng.randrange(10**13, 10**14)}"
        firm.suppliers[f"S-{number:02}"] = Supplier(
            f"S-{number:02}", name, domain, category, contact, terms, iban, account, 0 if category == "insurance" else 23
        )
    orders = planned_orders(firm, rng)
    for number, order in enumerate(sorted(orders, key=lambda order: (order[0], order[1].id)), start=3001):
        add_order(firm, rng, f"PO-{number}", *order)
    add_bills(firm, rng)
    add_expenses(firm, rng)


def planned_orders(firm: Firm, rng: Random) -> list[tuple[date, Supplier, tuple[Line, ...]]]:
    orders: list[tuple[date, Supplier, tuple[Line, ...]]] = []
    for supplier in firm.suppliers.values():
        for _ in range(rng.randrange(7, 14) if supplier.name in GOODS else 0):
            day = weekday(START + timedelta(days=rng.randrange(5, (TODAY - START).days - 3)))
            lines = []
            for text, unit in rng.sample(GOODS[supplier.name], rng.randrange(1, len(GOODS[supplier.name]) + 1)):
                many = 1 if unit > 60_000 else rng.choice((2, 4, 5, 8)) if unit > 10_000 else rng.choice((50, 100, 200, 250, 400))
                lines.append(Line("", text, many, unit + unit * rng.randrange(-4, 9) // 100, supplier.account))
            orders.append((day, supplier, tuple(lines)))
    return orders


NEW_LIMITS = date(2026, 3, 2)
"""Since this day managers approve up to 1,000 and the CFO up to 10,000; before it was 2,500 and 25,000. The wiki is stale."""


def approver_of(firm: Firm, requester: str, cents: int, day: date) -> str:
    """The purchasing policy of that day; a request of the approver's own goes to the CEO."""
    person = firm.people[requester]
    manager_cents, cfo_cents = (100_000, 1_000_000) if day >= NEW_LIMITS else (250_000, 2_500_000)
    title = "Chief Executive Officer" if cents > cfo_cents else "Chief Financial Officer" if cents > manager_cents else None
    chosen = firm.titled(title).login if title else person.manager or requester
    return firm.titled("Chief Executive Officer").login if chosen == requester else chosen


def add_order(firm: Firm, rng: Random, number: str, day: date, supplier: Supplier, lines: tuple[Line, ...]) -> None:
    requester = firm.titled(REQUESTERS[supplier.name])
    if not requester.works_on(day):
        requester = firm.people[requester.manager or requester.login]
    cents = sum(line.cents for line in lines)
    approver = approver_of(firm, requester.login, cents, day)
    approved: date | None = weekday(day + timedelta(days=rng.randrange(0, 4)))
    received = weekday(approved + timedelta(days=rng.randrange(5, 30)))
    status = "received"
    if day > TODAY - timedelta(days=8) or (approved > TODAY):
        approved, status = None, "awaiting approval"
    elif rng.random() < 0.04:
        approved, status = None, "rejected"
    elif received > TODAY - timedelta(days=2):
        status = "ordered"
    why = rng.choice(WHY[supplier.category])
    firm.orders[number] = Order(
        number,
        supplier.id,
        requester.login,
        approver,
        day,
        approved,
        lines,
        status,
        received if status == "received" else None,
        why,
    )


def add_bills(firm: Firm, rng: Random) -> None:
    planned: list[tuple[date, Supplier, str | None, tuple[Line, ...]]] = [
        (weekday(order.received + timedelta(days=2)), firm.suppliers[order.supplier], order.number, order.lines)
        for order in firm.orders.values()
        if order.received and order.received + timedelta(days=3) < TODAY
    ]
    for name, cents in MONTHLY.items():
        supplier = firm.supplier_named(name)
        for index in range(24):
            year, month = 2024 + (5 + index) // 12, (5 + index) % 12 + 1
            amount = cents + (cents * rng.randrange(-6, 12) // 100 if name == "Cobalt Hosting" else 0)
            text = f"{supplier.category} {date(year, month, 1):%B %Y}"
            planned.append((weekday(date(year, month, 26)), supplier, None, (Line("", text, 1, amount, supplier.account),)))
    planned.sort(key=lambda plan: (plan[0], plan[1].id, plan[2] or ""))
    for number, (day, supplier, order, lines) in enumerate(planned, start=501):
        net = sum(line.cents for line in lines)
        vat = (net * supplier.vat_rate + 50) // 100
        due = day + timedelta(days=supplier.terms_days)
        paid = weekday(due + timedelta(days=rng.choice((-3, -1, 0, 0, 1))))
        payments = (
            (Payment(f"PAY-{number:04}", paid, net + vat, f"BILL-{number:04}"),) if paid < TODAY - timedelta(days=1) else ()
        )
        reference = f"{''.join(word[0] for word in supplier.name.split()).upper()}-{rng.randrange(10_000, 99_999)}"
        firm.bills[f"BILL-{number:04}"] = Bill(f"BILL-{number:04}", reference, supplier.id, order, day, due, lines, vat, payments)


def add_expenses(firm: Firm, rng: Random) -> None:
    days = sorted(weekday(START + timedelta(days=rng.randrange(3, (TODAY - START).days - 1))) for _ in range(190))
    for number, day in enumerate(days, start=101):
        people = [person for person in firm.people.values() if person.works_on(day) and person.manager]
        person = rng.choice(people)
        merchant, category, low, high = rng.choice(MERCHANTS)
        visited = rng.choice([customer for customer in firm.customers.values() if customer.since <= day + timedelta(days=60)])
        purpose = {"office": "supplies for the team", "training": "agreed in the yearly review"}.get(
            category, rng.choice(PURPOSES).format(visited.name)
        )
        approved = weekday(day + timedelta(days=rng.randrange(1, 9)))
        paid = end_of_month(approved)
        firm.expenses[f"EXP-{number}"] = Expense(
            f"EXP-{number}", person.login, day, merchant, category, rng.randrange(low, high), purpose, person.manager,
            approved if approved < TODAY else None, paid if paid < TODAY else None,
        )  # fmt: skip


def end_of_month(day: date) -> date:
    following = date(day.year + day.month // 12, day.month % 12 + 1, 1)
    return following - timedelta(days=1)


ACCOUNTS = {
    "090": ("Business bank account", "BANK"),
    "610": ("Accounts receivable", "CURRENT"),
    "800": ("Accounts payable", "CURRLIAB"),
    "820": ("VAT", "CURRLIAB"),
    "200": ("Subscriptions", "REVENUE"),
    "210": ("Hardware sales", "REVENUE"),
    "220": ("Services", "REVENUE"),
    "310": ("Cost of goods sold", "DIRECTCOSTS"),
    "400": ("Advertising and marketing", "EXPENSE"),
    "420": ("Entertainment and catering", "EXPENSE"),
    "425": ("Freight, testing and certification", "EXPENSE"),
    "433": ("Insurance", "EXPENSE"),
    "441": ("Legal expenses", "EXPENSE"),
    "463": ("IT software and hosting", "EXPENSE"),
    "469": ("Rent", "EXPENSE"),
    "477": ("Salaries", "EXPENSE"),
    "478": ("Training and recruiting", "EXPENSE"),
    "489": ("Telephone and internet", "EXPENSE"),
    "493": ("Travel", "EXPENSE"),
    "453": ("Office expenses", "EXPENSE"),
    "720": ("Computer equipment", "FIXED"),
}
EXPENSE_ACCOUNT = {"travel": "493", "meals": "420", "office": "453", "training": "478"}


def add_entries(firm: Firm) -> None:
    """The journal: every invoice, bill, payment, expense and payroll, each balanced by itself."""
    for invoice in firm.invoices.values():
        lines = [
            ("610", invoice.total_cents),
            *((line.account, -line.cents) for line in invoice.lines),
            ("820", -invoice.vat_cents),
        ]
        firm.entries.append(entry(invoice.day, f"Invoice {invoice.number}", invoice.number, lines))
        if invoice.voided:
            back = [(account, -cents) for account, cents in lines]
            firm.entries.append(entry(invoice.voided, f"Void {invoice.number}", invoice.number, back))
        firm.entries += [
            entry(each.day, f"Receipt {invoice.number}", invoice.number, [("090", each.cents), ("610", -each.cents)])
            for each in invoice.payments
        ]
    for bill in firm.bills.values():
        lines = [("800", -bill.total_cents), *((line.account, line.cents) for line in bill.lines), ("820", bill.vat_cents)]
        firm.entries.append(entry(bill.day, f"Bill {bill.number} {bill.reference}", bill.number, lines))
        firm.entries += [
            entry(each.day, f"Payment {bill.number}", bill.number, [("800", each.cents), ("090", -each.cents)])
            for each in bill.payments
        ]
    for expense in firm.expenses.values():
        if expense.paid:
            lines = [(EXPENSE_ACCOUNT[expense.category], expense.cents), ("090", -expense.cents)]
            firm.entries.append(entry(expense.paid, f"Expense {expense.id}", expense.id, lines))
    for index in range(24):
        day = end_of_month(date(2024 + (5 + index) // 12, (5 + index) % 12 + 1, 1))
        staff = sum(person.works_on(day) for person in firm.people.values())
        firm.entries.append(entry(day, f"Payroll {day:%B %Y}", "payroll", [("477", staff * 486_000), ("090", -staff * 486_000)]))
    firm.entries.sort(key=lambda each: (each.day, each.memo))


def entry(day: date, memo: str, source: str, lines: list[tuple[str, int]]) -> Entry:
    return Entry(day, memo, source, tuple((account, cents) for account, cents in lines if cents))
