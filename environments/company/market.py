"""What the firm sells, to whom, and what it billed: products, customers, deals, contracts, invoices and payments."""
# ruff: noqa: E501, SIM905 - names and wordings stand on one line

from datetime import date, timedelta
from random import Random

from .people import FIRST, START, TODAY, weekday
from .records import Contact, Contract, Customer, Deal, Firm, Invoice, Line, Payment, Product

RISE = date(2025, 7, 1)
"""Since this day the new price list holds. The wiki's price page was never changed."""

PRODUCTS = (
    ("LC-STD", "Lumen Cloud Standard", "subscription", 4_500, 4_900, "site per month"),
    ("LC-PRO", "Lumen Cloud Pro", "subscription", 8_900, 9_600, "site per month"),
    ("LI-ANA", "Lumen Insight analytics", "subscription", 12_000, 12_900, "building per month"),
    ("GW-200", "Lumen Gateway 200", "hardware", 38_900, 41_500, "unit"),
    ("SN-TH4", "TH4 climate sensor", "hardware", 6_450, 6_900, "unit"),
    ("SV-INS", "Installation day", "service", 95_000, 98_000, "day"),
    ("SV-TRN", "Operator training", "service", 72_000, 75_000, "session"),
)
# pairs that are easily confused come first
NAMES = (
    ("Harbour Foods", "harbourfoods.example", "Ireland"),
    ("Harbor Foods Nordic", "harborfoods.example", "Denmark"),
    ("Kestrel Logistics", "kestrel-logistics.example", "Ireland"),
    ("Kestrel Logic", "kestrellogic.example", "Netherlands"),
    ("Aldermoor Estates", "aldermoor.example", "Ireland"),
    ("Aldermore Capital", "aldermore.example", "Ireland"),
    ("Brightwater Clinics", "brightwater.example", "Ireland"),
    ("Brightwell Clinics", "brightwell.example", "Belgium"),
    ("Castellan Museums", "castellan.example", "Italy"),
    ("Delmar Cold Storage", "delmarcold.example", "Spain"),
    ("Eastgate Retail Parks", "eastgate.example", "Ireland"),
    ("Fjordline Hotels", "fjordline.example", "Denmark"),
    ("Granary Wharf Offices", "granarywharf.example", "Ireland"),
    ("Hollis & Penn Architects", "hollispenn.example", "Ireland"),
    ("Ironbridge Storage", "ironbridge.example", "Ireland"),
    ("Juniper Labs", "juniperlabs.example", "Germany"),
    ("Kilbride Council", "kilbride.example", "Ireland"),
    ("Lakeshore Schools Trust", "lakeshore.example", "Ireland"),
    ("Marlowe Print", "marloweprint.example", "Ireland"),
    ("Nordhaven Shipping", "nordhaven.example", "Germany"),
    ("Oakfield Nurseries", "oakfield.example", "Ireland"),
    ("Pemberton Archives", "pemberton.example", "Ireland"),
    ("Quayside Fisheries", "quayside.example", "Ireland"),
    ("Rosewood Care Homes", "rosewoodcare.example", "Ireland"),
    ("Silverbrook Dairy", "silverbrook.example", "Ireland"),
    ("Tannery Row Lofts", "tanneryrow.example", "Ireland"),
    ("Umbra Theatres", "umbra.example", "France"),
    ("Vantage Data Halls", "vantagehalls.example", "Netherlands"),
    ("Westmarch Breweries", "westmarch.example", "Ireland"),
    ("Yarrow Pharma", "yarrow.example", "Ireland"),
    ("Zephyr Air Cargo", "zephyraircargo.example", "Belgium"),
    ("Blackthorn Distillers", "blackthorn.example", "Ireland"),
    ("Corrib Timber", "corribtimber.example", "Ireland"),
    ("Dunmore Bakeries", "dunmore.example", "Ireland"),
    ("Elmswood Hospital", "elmswood.example", "Ireland"),
    ("Foxglove Garden Centres", "foxglove.example", "Ireland"),
)
SURNAMES = (
    "Abbott Byrne Collins Dahl Egan Fischer Grant Hughes Ibsen Jensen Kelly Lambert Meyer Nolan Ortiz Power Quinn Ryan Smit Taylor Ullman "
    "Vogel Walsh Young Ziegler Barrett Connolly Daly Enright Flood Geary Hogan"
).split()
LOST = ("price", "no budget this year", "chose a competitor", "project cancelled", "no decision")
SEGMENTS = ("Enterprise", "Mid-market", "Small business")


def add_market(firm: Firm, rng: Random) -> None:
    for sku, name, kind, old, new, unit in PRODUCTS:
        firm.products[sku] = Product(sku, name, kind, ((date(2020, 1, 1), old), (RISE, new)), unit)
    add_customers(firm, rng)
    add_deals(firm, rng)
    add_invoices(firm, rng)


def add_customers(firm: Firm, rng: Random) -> None:
    sellers = [person for person in firm.people.values() if person.title == "Account Executive" and person.left is None]
    carers = [person for person in firm.people.values() if person.title == "Customer Success Manager"]
    used: set[str] = set()
    for number, (name, domain, country) in enumerate(NAMES, start=1):
        contacts: list[Contact] = []
        for role in (
            "accounts payable",
            "facilities manager",
            rng.choice(("IT manager", "operations director", "energy officer")),
        ):
            full = f"{rng.choice(FIRST)} {rng.choice(SURNAMES)}"
            while full in used:
                full = f"{rng.choice(FIRST)} {rng.choice(SURNAMES)}"
            used.add(full)
            contacts.append(Contact(full, f"{full.split()[0]}.{full.split()[1]}@{domain}".lower(), role))
        since = weekday(START + timedelta(days=rng.randrange(0, 420)))
        firm.customers[f"C-{number:03}"] = Customer(
            f"C-{number:03}",
            name,
            domain,
            country,
            rng.choice(SEGMENTS),
            rng.choice(sellers).login,
            rng.choice(carers).login,
            since,
            tuple(contacts),
            rng.choice((14, 30, 30, 45)),
            23 if country == "Ireland" else 0,
            date(2026, 2, 27) if number in {19, 33} else None,
        )


def add_deals(firm: Firm, rng: Random) -> None:
    number = 2000
    for customer in firm.customers.values():
        number += 1
        won = customer.since
        opened = weekday(won - timedelta(days=rng.randrange(30, 90)))
        sites = rng.randrange(2, 14)
        sku = rng.choice(("LC-STD", "LC-STD", "LC-PRO"))
        contract = make_contract(firm, rng, customer, f"D-{number}", sku, sites, won)
        firm.contracts[contract.id] = contract
        name = f"{firm.products[sku].name} for {sites} sites"
        firm.deals[f"D-{number}"] = Deal(
            f"D-{number}",
            customer.id,
            name,
            "closedwon",
            contract.quarter_cents * 4,
            opened,
            won,
            seller(firm, rng, customer, opened),
        )
        for _ in range(rng.choice((0, 1, 1, 2))):
            number += 1
            firm.deals[f"D-{number}"] = later_deal(firm, rng, customer, f"D-{number}")


def seller(firm: Firm, rng: Random, customer: Customer, day: date) -> str:
    """The customer's owner if hired by then, else a colleague from Sales who was there until the end."""
    if firm.people[customer.owner].works_on(day):
        return customer.owner
    later = day + timedelta(days=130)
    there = [
        person
        for person in firm.team("Sales", day)
        if person.title in {"Account Executive", "Head of Sales"} and (person.left is None or person.left > later)
    ]
    return rng.choice(there).login


def make_contract(firm: Firm, rng: Random, customer: Customer, deal: str, sku: str, sites: int, start: date) -> Contract:
    discount = rng.choice((0, 0, 0, 5, 10))
    month = firm.products[sku].price_on(start) * (100 - discount) // 100
    lines = [Line(sku, f"{firm.products[sku].name}, {sites} sites, one quarter", sites, month * 3, "200")]
    if rng.random() < 0.3:
        unit = firm.products["LI-ANA"].price_on(start) * (100 - discount) // 100
        lines.append(Line("LI-ANA", "Lumen Insight analytics, 1 building, one quarter", 1, unit * 3, "200"))
    end = date(start.year + 2, start.month, min(start.day, 28))
    return Contract(
        f"CT-{1000 + len(firm.contracts) + 1}", customer.id, deal, start, end, tuple(lines), discount, rng.choice((30, 60, 90))
    )


def later_deal(firm: Firm, rng: Random, customer: Customer, name: str) -> Deal:
    sku, quantity, words = rng.choice(
        (
            ("GW-200", rng.randrange(2, 9), "gateways for the new wing"),
            ("SN-TH4", rng.randrange(10, 60), "extra climate sensors"),
            ("LI-ANA", rng.randrange(4, 12), "Insight for more buildings"),
            ("SV-INS", rng.randrange(1, 5), "installation days"),
            ("LC-PRO", rng.randrange(3, 12), "upgrade to Pro"),
        )
    )
    opened = weekday(customer.since + timedelta(days=rng.randrange(40, 330)))
    close = weekday(opened + timedelta(days=rng.randrange(25, 120)))
    months = 12 if firm.products[sku].kind == "subscription" else 1
    amount = quantity * firm.products[sku].price_on(opened) * months
    if opened > TODAY - timedelta(days=45) or close >= TODAY or rng.random() < 0.18:
        opened = max(opened, weekday(TODAY - timedelta(days=rng.randrange(40, 100))))
        amount = quantity * firm.products[sku].price_on(opened) * months
        close = weekday(TODAY + timedelta(days=rng.randrange(10, 80)))
        stage = rng.choice(("qualifiedtobuy", "presentationscheduled", "decisionmakerboughtin", "contractsent"))
        return Deal(name, customer.id, words.capitalize(), stage, amount, opened, close, seller(firm, rng, customer, opened))
    won = rng.random() < 0.6
    reason = "" if won else rng.choice(LOST)
    stage = "closedwon" if won else "closedlost"
    return Deal(name, customer.id, words.capitalize(), stage, amount, opened, close, seller(firm, rng, customer, opened), reason)


def add_invoices(firm: Firm, rng: Random) -> None:
    planned: list[tuple[date, Customer, tuple[Line, ...], str]] = []
    for contract in firm.contracts.values():
        customer = firm.customers[contract.customer]
        day, quarter = weekday(contract.start + timedelta(days=2)), 0
        while day <= TODAY - timedelta(days=4) and (customer.churned is None or day < customer.churned):
            planned.append((day, customer, contract.lines, f"{contract.id} quarter {quarter + 1}"))
            quarter += 1
            month = contract.start.month - 1 + 3 * quarter
            day = weekday(
                date(contract.start.year + month // 12, month % 12 + 1, min(contract.start.day, 28)) + timedelta(days=2)
            )
    for deal in firm.deals.values():
        if deal.stage == "closedwon" and deal.id not in {contract.deal for contract in firm.contracts.values()}:
            day = weekday(deal.close + timedelta(days=6))
            if day <= TODAY - timedelta(days=4):
                planned.append((day, firm.customers[deal.customer], deal_lines(firm, deal), f"{deal.id} {deal.name.lower()}"))
    planned.sort(key=lambda plan: (plan[0], plan[1].id, plan[3]))
    for number, (day, customer, lines, about) in enumerate(planned, start=2401):
        invoice = make_invoice(rng, f"INV-{number}", customer, day, lines, about)
        firm.invoices[invoice.number] = invoice
    void_some(firm, rng)


def deal_lines(firm: Firm, deal: Deal) -> tuple[Line, ...]:
    sku = next(sku for sku, words in DEAL_WORDS.items() if words in deal.name.lower())
    months = 12 if firm.products[sku].kind == "subscription" else 1
    unit = firm.products[sku].price_on(deal.opened) * months
    kind = firm.products[sku].kind
    account = {"subscription": "200", "hardware": "210", "service": "220"}[kind]
    text = firm.products[sku].name + (", one year" if months == 12 else "")
    return (Line(sku, text, deal.amount_cents // unit, unit, account),)


DEAL_WORDS = {"GW-200": "gateways", "SN-TH4": "sensors", "LI-ANA": "insight", "SV-INS": "installation", "LC-PRO": "upgrade"}


def make_invoice(rng: Random, number: str, customer: Customer, day: date, lines: tuple[Line, ...], about: str) -> Invoice:
    net = sum(line.cents for line in lines)
    vat = (net * customer.vat_rate + 50) // 100
    due = day + timedelta(days=customer.terms_days)
    paid_on = weekday(due + timedelta(days=rng.choice((-9, -4, -2, 0, 1, 3, 8, 20))))
    order = f"{customer.domain[:2].upper()}{rng.randrange(10_000, 99_999)}"
    payments: tuple[Payment, ...] = ()
    late = paid_on > TODAY - timedelta(days=1) or (day > TODAY - timedelta(days=120) and rng.random() < 0.22)
    if not late:
        payments = (Payment(f"RCP-{number[4:]}", paid_on, net + vat, f"{number} {order}"),)
    elif rng.random() < 0.15 and day < TODAY - timedelta(days=30):
        half = (net + vat) // 2
        payments = (Payment(f"RCP-{number[4:]}", weekday(due + timedelta(days=2)), half, f"{number} part"),)
        payments = payments if payments[0].day < TODAY else ()
    return Invoice(number, customer.id, day, due, lines, vat, payments, order, about)


def void_some(firm: Firm, rng: Random) -> None:
    """Some open invoices were billed twice, and one of each pair was voided: a total over all of them is too large."""
    fresh = [invoice for invoice in firm.invoices.values() if not invoice.payments and invoice.day >= date(2026, 2, 1)]
    number = 2401 + len(firm.invoices)
    for invoice in rng.sample(fresh, min(8, len(fresh))):
        twin_day = weekday(invoice.day + timedelta(days=1))
        voided = weekday(twin_day + timedelta(days=3))
        if voided >= TODAY:
            continue
        twin = Invoice(
            f"INV-{number}", invoice.customer, twin_day, twin_day + (invoice.due - invoice.day), invoice.lines, invoice.vat_cents, (),
            invoice.order, invoice.about, voided, f"duplicate of {invoice.number}",
        )  # fmt: skip
        firm.invoices[twin.number] = twin
        number += 1
