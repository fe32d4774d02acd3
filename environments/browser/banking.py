"""Errands at the bank: transfers, invoices, standing orders, disputes, cards, figures from statements, limits, savings."""

from random import Random
from typing import Any

from .bank import CATEGORIES, grouped
from .case import Case, access, added, begin, changed
from .records import Row
from .seeds import SHOPS, TODAY, Start, add_entry, iban_of, number_entries
from .surf import Surfer
from .web import day_text, days_after, money, month_text

_ACCOUNTS = {1: "Current account", 2: "Savings account", 3: "Household account"}


def opening_balance(start: Start, account: int) -> int:
    """The balance of an account before the errand."""
    opening = start["bank"]["account"][account - 1]["opening"]
    return opening + sum(
        row["cents"] for row in start["bank"]["entry"] if row["account"] == account and row["status"] == "booked"
    )


def _from_account(start: Start, account: int) -> str:
    return f"{_ACCOUNTS[account]} (EUR {money(opening_balance(start, account))})"


async def send_transfer(surf: Surfer, plan: dict[str, Any]) -> None:
    """Fill in the form and confirm it with the code that is asked for."""
    await surf.open("bank", "/transfer")
    await surf.fill(plan["form"])
    await confirm(surf)


async def confirm(surf: Surfer) -> None:
    """Continue, look up the code on the card, and confirm."""
    await surf.click("button", "Continue")
    label = surf.page.split('textbox "')[1].split('"')[0]
    position = label.split()[1]
    await surf.click("link", "Show my code card")
    lines = surf.page.splitlines()
    place = next(number for number, line in enumerate(lines) if f'rowheader "Code {position}"' in line)
    code = lines[place + 1].split('"')[1]
    await surf.click("link", "Back to the order that waits")
    await surf.fill({label: code})
    await surf.click("button", "Confirm")


def _form(start: Start, want: Row) -> dict[str, str]:
    have = want["find"] | want["have"]
    return {
        "From account": _from_account(start, have["account"]),
        "Recipient": have["name"],
        "IBAN": grouped(have["iban"]),
        "Amount EUR": money(have["cents"]),
        "Purpose": have["purpose"],
        "Execution date": have["day"],
    }


async def play_transfer(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    await surf.sign_in("bank")
    await send_transfer(surf, plan)
    return plan.get("file", {})


# -- a transfer to someone known ---------------------------------------------------------------------------------------


def pay_known(rng: Random, level: int) -> Case:
    """A transfer to a saved recipient whose name is nearly that of another."""
    start = begin(rng)
    payee = start["bank"]["payee"][rng.choice((0, 1)) if level > 1 else 3]
    cents = rng.randrange(2_500, 90_000)
    purpose = (
        rng.choice(("Concert tickets", "Half of the dinner", "Cat sitting", "Share of the rental car"))
        if level > 1
        else "Dental bill"
    )
    account = 3 if level >= 4 else 1
    day = days_after(TODAY, rng.randrange(3, 20)) if level >= 3 else TODAY
    when = "today" if day == TODAY else f"on {day_text(day)}"
    prompt = (
        f'Please transfer EUR {money(cents)} to {payee["name"]} from my {_ACCOUNTS[account].lower()}, purpose "{purpose}", to'
        f" be carried out {when}."
        f" The IBAN is among the saved recipients. Confirm it with the code card, then file the errand with the amount."
        f" {access('bank')}"
    )
    want = added(
        "bank",
        "transfer",
        {"account": account, "name": payee["name"], "purpose": purpose, "day": day, "cents": cents},
        iban=payee["iban"],
    )
    plan = {"form": _form(start, want), "file": {"amount": money(cents)}}
    return Case(f"Transfer to {payee['name']}", prompt, start, [want], plan, {"result": "Done", "cents": cents})


# -- an invoice --------------------------------------------------------------------------------------------------------

_FIRMS = ("Malerbetrieb Krause", "Fahrradladen Kette", "Steuerbuero Engel", "Tischlerei Holm")


def pay_invoice(rng: Random, level: int) -> Case:
    """An invoice from a new recipient, with cash discount or instalments; once its IBAN is wrong."""
    start = begin(rng)
    firm, iban, number = rng.choice(_FIRMS), iban_of(rng), f"{rng.randrange(2600, 2699)}-{rng.randrange(100, 999)}"
    cents = rng.randrange(8_000, 120_000) // 100 * 100
    wrong = level == 4
    shown = iban if not wrong else iban[:12] + str((int(iban[12]) + 1) % 10) + iban[13:]
    due = days_after(TODAY, 14)
    text = f"Invoice {number}, {firm}, EUR {money(cents)}, due {day_text(due)}, IBAN {grouped(shown)}"
    text += ", please state the invoice number"
    pay = cents
    if level in {2, 5}:
        pay = cents * 97 // 100
        text += ", 3 % cash discount if paid within seven days of today"
    if level == 3:
        pay = cents // 2
        text += ", or half of it now and half next month"
    how = {2: "Use the cash discount.", 5: "Use the cash discount.", 3: "Pay the first half today."}.get(level, "Pay it in full.")
    save = " Save them as a recipient too." if level == 5 else ""
    prompt = (
        f'This came by post: "{text}." {how} Current account, purpose exactly "Invoice {number}", carried out today.{save}'
        f" File the amount you"
        " paid. If the bank does not accept the recipient's details, pay nothing and file it as not possible, with that reason"
        " and the amount of the"
        f" invoice. {access('bank')}"
    )
    want = added(
        "bank", "transfer", {"account": 1, "name": firm, "purpose": f"Invoice {number}", "day": TODAY, "cents": pay}, iban=iban
    )
    plan: dict[str, Any] = {"form": _form(start, want) | {"IBAN": grouped(shown)}, "file": {"amount": money(pay)}}
    if wrong:
        reason = "Recipient could not be verified"
        plan["file"] = {"result": "Not possible", "reason": reason, "amount": money(cents)}
        return Case(f"Invoice of {firm}", prompt, start, [], plan, {"result": "Not possible", "reason": reason, "cents": cents})
    wants = [want]
    if level == 5:
        wants.append(added("bank", "payee", {"name": firm}, iban=iban))
        plan["save"] = {"Name": firm, "IBAN": grouped(iban)}
    return Case(f"Invoice of {firm}", prompt, start, wants, plan, {"result": "Done", "cents": pay})


async def play_invoice(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    await surf.sign_in("bank")
    if "save" in plan:
        await surf.menu("Services", "Saved recipients")
        await surf.fill(plan["save"])
        await surf.click("button", "Save recipient")
    if plan["file"].get("result"):
        await surf.open("bank", "/transfer")
        await surf.fill(plan["form"])
        await surf.click("button", "Continue")
        assert surf.has("The IBAN is not valid")
        return plan["file"]
    await send_transfer(surf, plan)
    return plan["file"]


# -- standing orders ---------------------------------------------------------------------------------------------------


def new_standing(rng: Random, level: int) -> Case:
    """A new standing order, with a first and sometimes a last date."""
    start = begin(rng)
    name, iban = rng.choice(("Musikschule Takt", "Kita Sonnenblume", "Tierheim Nord")), iban_of(rng)
    cents, every = rng.randrange(15, 120) * 100, rng.choice(("monthly", "quarterly")) if level > 1 else "monthly"
    first = f"2026-04-{rng.choice((1, 15)):02}"
    last = rng.choice(("2026-12-31", "2027-03-31")) if level >= 3 else ""
    account = 3 if level >= 4 else 1
    purpose = {"M": "Lessons Nils", "K": "Lunch money", "T": "Donation"}[name[0]]
    until = f", for the last time on {day_text(last)}" if last else ""
    prompt = (
        f"Please set up a standing order to {name}, IBAN {grouped(iban)}: EUR {money(cents)} {every} from my"
        f" {_ACCOUNTS[account].lower()}, first on"
        f' {day_text(first)}{until}, purpose "{purpose}". File the errand as done when the bank has accepted it. {access("bank")}'
    )
    have = {
        "account": account,
        "name": name,
        "cents": cents,
        "purpose": purpose,
        "every": every,
        "day": first,
        "last": last,
        "status": "active",
    }
    want = added("bank", "standing", have, iban=iban)
    form = _form(start, want)
    form["Next date"] = form.pop("Execution date")
    plan = {"form": form | {"How often": every, "Last date, if any": last}}
    return Case(f"Standing order for {name}", prompt, start, [want], plan)


async def play_new_standing(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    await surf.sign_in("bank")
    await surf.menu("Services", "Standing orders")
    await surf.click("link", "New standing order")
    await surf.fill(plan["form"])
    await confirm(surf)
    return {}


def change_standing(rng: Random, level: int) -> Case:
    """Change or stop one of several standing orders; two go to the same recipient."""
    start = begin(rng)
    rows = start["bank"]["standing"]
    wants: list[Row] = []
    plan: dict[str, Any] = {"change": None, "stop": None}
    words: list[str] = []
    if level != 2:
        row = rows[1 if level in {1, 4} else 0]
        cents = row["cents"] + rng.randrange(2, 9) * 500
        wants.append(
            changed("bank", "standing", row["id"], cents=cents, day=row["day"], every=row["every"], purpose=row["purpose"])
        )
        plan["change"] = [f"{row['name']}, {row['purpose']}", money(cents)]
        what = "parking space" if row["id"] == 2 else "rent of the flat"
        words.append(
            f"from the next payment on, the standing order for the {what} is EUR {money(cents)}; everything else about it stays"
        )
    if level in {2, 4, 5}:
        row = rows[2 if level != 5 else 3]
        wants.append(changed("bank", "standing", row["id"], status="stopped"))
        plan["stop"] = f"{row['name']}, {row['purpose']}"
        words.append("stop the one for the climbing gym" if level != 5 else "stop the one for the household insurance")
    prompt = (
        f"About my standing orders at Northbank: {'; and '.join(words)}. File the errand as done when it is. {access('bank')}"
    )
    return Case("Standing orders", prompt, start, wants, plan)


async def play_change_standing(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    await surf.sign_in("bank", "/standing")
    if plan["stop"]:
        await surf.click("button", f"Stop {plan['stop']}")
        await surf.answer(accept=True)
    if plan["change"]:
        name, amount = plan["change"]
        await surf.click("link", f"Change {name}")
        await surf.fill({"Amount EUR": amount})
        await confirm(surf)
    return {}


# -- disputes ----------------------------------------------------------------------------------------------------------


def dispute_payment(rng: Random, level: int) -> Case:
    """Find the payment that is wrong among months of them and dispute it for the right reason."""
    start = begin(rng)
    day = f"2026-0{rng.choice((1, 2))}-{rng.randrange(5, 25):02}"
    cents = -rng.randrange(2_100, 14_900)
    reason = (
        "I was charged twice",
        "I do not know this payment",
        "The amount is wrong",
        "Goods were not delivered",
        "I was charged twice",
    )[level - 1]
    if reason == "I was charged twice":
        name, category = ("Baumarkt Ost", "Household") if level == 1 else ("Buchladen Lesart", "Leisure")
        purpose = f"Card payment {rng.randrange(10_000, 99_999)}"
        add_entry(start, day, name, cents, purpose, category)
        wrong = add_entry(start, day, name, cents, purpose, category)
        if level == 5:  # paid again on another day: a second purchase, not a double charge
            add_entry(start, days_after(day, 2), name, cents, f"Card payment {rng.randrange(10_000, 99_999)}", category)
        what = f"{name} charged me twice for the same purchase in {month_text(day[:7])}"
        what += "; of the two payments, the one with the higher number is wrong"
    elif reason == "I do not know this payment":
        wrong = add_entry(start, day, "QX Digital Ltd", cents, "SUBSCRIPTION 88-1", "Leisure")
        what = (
            f"there is a payment to a company abroad in {month_text(day[:7])} that I have never heard of, for some subscription"
        )
        what += "; I know Streamline Video, that one is fine"
    elif reason == "The amount is wrong":
        wrong = add_entry(start, day, "City Taxi Berlin", -48_500, "Card payment 40117", "Travel")
        what = f"a taxi ride in {month_text(day[:7])} was charged with ten times its price, it was under 50 euros"
    else:
        number = f"HH-{rng.randrange(1000, 9999)}"
        wrong = add_entry(start, day, "Haus & Hof", cents, f"Order {number}", "Household")
        add_entry(start, days_after(day, 1), "Haus & Hof", cents - 400, f"Order HH-{rng.randrange(1000, 9999)}", "Household")
        what = f"my order {number} from Haus & Hof was paid and never delivered"
    number_entries(start)
    prompt = (
        f"Please look through my current account at Northbank: {what}. Dispute that payment, with the reason that fits, and no"
        f" other. File the errand with"
        f" the number of the payment as reference and its amount. {access('bank')}"
    )
    want = added("bank", "dispute", {"reason": reason}, entry=wrong["id"])
    plan = {
        "month": day[:7],
        "name": wrong["name"],
        "number": str(wrong["id"]),
        "reason": reason,
        "amount": money(-wrong["cents"]),
    }
    outcome = {"result": "Done", "reference": str(wrong["id"]), "cents": -wrong["cents"]}
    return Case("Dispute a payment", prompt, start, [want], plan, outcome)


async def play_dispute(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    await surf.sign_in("bank")
    await surf.click("link", "Current account")
    await surf.fill({"Month": plan["month"], "Name or purpose contains": plan["name"]})
    await surf.click("button", "Show")
    await surf.open("bank", f"/entry/{plan['number']}")
    await surf.fill({"Reason": plan["reason"], "My statement is true": True})
    await surf.click("button", "Dispute payment")
    return {"reference": plan["number"], "amount": plan["amount"]}


# -- cards -------------------------------------------------------------------------------------------------------------


def change_card(rng: Random, level: int) -> Case:
    """Block a lost card or change what a card may do; two credit cards end in nearly the same digits."""
    start = begin(rng)
    cards = start["bank"]["card"]
    wants: list[Row] = []
    plan: dict[str, Any] = {"block": None, "settings": None}
    words: list[str] = []
    if level in {1, 3, 5}:
        card = cards[rng.choice((1, 2))]
        replacement = rng.choice(("home", "branch", "none"))
        wants.append(changed("bank", "card", card["id"], status="blocked", replacement=replacement))
        label = {"home": "Send to my address", "branch": "Collect at the branch", "none": "No replacement"}[replacement]
        plan["block"] = [f"{card['label']}, ending {card['digits']}", label]
        how = {
            "home": "have a new one sent to me",
            "branch": "I will collect a new one at the branch",
            "none": "I do not want a new one",
        }[replacement]
        words.append(f"my credit card ending {card['digits']} is lost: block it, and {how}")
    if level in {2, 3, 4, 5}:
        card = cards[0] if level in {3, 5} else cards[rng.choice((1, 2))]
        monthly = rng.choice((500, 800, 1200)) * 100
        flags = {"online": 1 if level != 4 else 0, "abroad": 0 if level >= 3 else card["abroad"]}
        wants.append(changed("bank", "card", card["id"], monthly=monthly, **flags))
        settings = {
            "Monthly limit EUR": money(monthly),
            "Payments on the internet": bool(flags["online"]),
            "Payments abroad": bool(flags["abroad"]),
        }
        plan["settings"] = [f"{card['label']}, ending {card['digits']}", settings]
        text = f"set the monthly limit of the {card['label'].lower()} ending {card['digits']} to EUR {money(monthly)}"
        text += " and switch off payments abroad" if level >= 3 else ""
        text += " and on the internet" if level == 4 else ""
        words.append(text)
    rest = "Nothing else about the cards changes. File the errand as done."
    prompt = f"Northbank, my cards: {'. Also, '.join(words)}. {rest} {access('bank')}"
    return Case("Cards", prompt, start, wants, plan)


async def play_card(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    await surf.sign_in("bank")
    if plan["block"]:
        await surf.menu("Services", "Cards")
        await surf.click("link", plan["block"][0])
        await surf.fill({"Replacement card": plan["block"][1]})
        await surf.click("button", "Block card")
        await surf.answer(accept=True)
    if plan["settings"]:
        await surf.menu("Services", "Cards")
        await surf.click("link", plan["settings"][0])
        await surf.fill(plan["settings"][1])
        await surf.click("button", "Save card settings")
    return {}


# -- figures from the statement ----------------------------------------------------------------------------------------


def prove_expenses(rng: Random, level: int) -> Case:
    """Add up a month of one category, without pending payments and less refunds, and enter it in a form."""
    start = begin(rng)
    month = rng.choice(("2025-12", "2026-01", "2026-02")) if level < 3 else TODAY[:7]  # only this month has pending payments
    category = ("Groceries", "Household", "Travel")[level % 3] if level > 1 else rng.choice(("Energy", "Insurance"))
    if level >= 3:
        shop = rng.choice(sorted(SHOPS[category]))
        add_entry(start, f"{month}-15", shop, -rng.randrange(900, 4000), "Card payment, reserved", category, "pending")
    if level >= 4:
        of_month = [row for row in start["bank"]["entry"] if row["day"].startswith(month) and row["status"] == "booked"]
        bought = min((row for row in of_month if row["category"] == category), key=lambda row: row["cents"])
        add_entry(start, f"{month}-14", bought["name"], -bought["cents"] // 2, f"Refund, {bought['purpose'].lower()}", category)
    rows = [
        row
        for row in start["bank"]["entry"]
        if row["day"].startswith(month) and row["category"] == category and row["account"] == 1 and row["status"] == "booked"
    ]
    paid = [row for row in rows if row["cents"] < 0]
    low = min(row["cents"] for row in paid)
    if sum(row["cents"] == low for row in paid) > 1:
        paid[0]["cents"] -= 5_000
    largest = min(paid, key=lambda row: row["cents"])
    total = -sum(row["cents"] for row in rows)
    so_far = " so far" if month == TODAY[:7] else ""
    prompt = (
        f"I need a proof of expenses from Northbank for {category} in {month_text(month)}{so_far}. Please take the figures"
        f" from the statement of the current account and issue it"
        f" with the form; read what it says about pending payments and refunds. File the total as the amount. {access('bank')}"
    )
    want = added(
        "bank", "proof", {"category": category, "total": total, "payments": len(paid), "largest": largest["name"]}, month=month
    )
    form = {
        "Month": month,
        "Category": category,
        "Total EUR": money(total),
        "Number of payments": str(len(paid)),
        "Name of the largest payment": largest["name"],
    }
    return Case(
        "Proof of expenses", prompt, start, [want], {"form": form, "amount": money(total)}, {"result": "Done", "cents": total}
    )


async def play_proof(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    await surf.sign_in("bank")
    await surf.click("link", "Current account")
    await surf.fill({"Month": plan["form"]["Month"], "Category": plan["form"]["Category"]})
    await surf.click("button", "Show")
    await surf.menu("Services", "Proof of expenses")
    await surf.fill(plan["form"])
    await surf.click("button", "Issue proof")
    return {"amount": plan["amount"]}


# -- limits ------------------------------------------------------------------------------------------------------------


def over_the_limit(rng: Random, level: int) -> Case:
    """A transfer above the daily limit: raise the limit, pay, and set it back."""
    start = begin(rng)
    name, iban = rng.choice(("Autohaus Falk", "Kuechenstudio Raab", "Reisebuero Welle")), iban_of(rng)
    cents = rng.randrange(24, 60) * 10_000 + rng.choice((0, 5_000))
    keep = level in {4, 5}
    daily = (cents // 10_000 + 1) * 10_000
    purpose = f"Contract {rng.randrange(1000, 9999)}"
    wants = [added("bank", "transfer", {"account": 1, "name": name, "purpose": purpose, "day": TODAY, "cents": cents}, iban=iban)]
    if keep:
        wants.append(changed("bank", "setting", 1, daily=300_000))
    after = "Afterwards set it to EUR 3,000.00." if keep else "Afterwards set it back to what it was."
    prompt = (
        f'Please transfer EUR {money(cents)} from my current account to {name}, IBAN {grouped(iban)}, purpose "{purpose}",'
        f" today, in one payment. It is above"
        f" my daily limit, so you may raise that for this payment. {after} File the amount. {access('bank')}"
    )
    plan = {
        "daily": money(daily),
        "back": "3,000.00" if keep else "2,000.00",
        "form": _form(start, wants[0]),
        "file": {"amount": money(cents)},
    }
    return Case(f"Payment to {name}", prompt, start, wants, plan, {"result": "Done", "cents": cents})


async def play_limit(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    await surf.sign_in("bank", "/settings")
    await surf.fill({"Daily limit for transfers EUR": plan["daily"]})
    await surf.click("button", "Save limit")
    await send_transfer(surf, plan)
    await surf.sign_in("bank", "/settings")
    await surf.fill({"Daily limit for transfers EUR": plan["back"]})
    await surf.click("button", "Save limit")
    return plan["file"]


# -- savings -----------------------------------------------------------------------------------------------------------


def save_the_rest(rng: Random, level: int) -> Case:
    """Move what is left after pending payments to the savings account."""
    start = begin(rng)
    pending = [
        add_entry(
            start,
            TODAY,
            rng.choice(("Regiobahn", "City Taxi Berlin")),
            -rng.randrange(900, 5_900),
            "Card payment, reserved",
            "Travel",
            "pending",
        )
        for _ in range(level - 1)
    ]
    keep = rng.randrange(8, 30) * 10_000
    cents = opening_balance(start, 1) + sum(row["cents"] for row in pending) - keep
    savings = start["bank"]["account"][1]["iban"]
    prompt = (
        f"Please move money from my current account to my savings account so that exactly EUR {money(keep)} stays on the"
        f" current account once all pending"
        f' payments are booked. Recipient Ada Quist, purpose "Savings", today. File the amount you moved. {access("bank")}'
    )
    want = added(
        "bank", "transfer", {"account": 1, "name": "Ada Quist", "purpose": "Savings", "day": TODAY, "cents": cents}, iban=savings
    )
    return Case(
        "Savings",
        prompt,
        start,
        [want],
        {"form": _form(start, want), "file": {"amount": money(cents)}},
        {"result": "Done", "cents": cents},
    )


FAMILIES = {
    "pay-known": (pay_known, play_transfer),
    "pay-invoice": (pay_invoice, play_invoice),
    "new-standing-order": (new_standing, play_new_standing),
    "change-standing-order": (change_standing, play_change_standing),
    "dispute-payment": (dispute_payment, play_dispute),
    "change-card": (change_card, play_card),
    "prove-expenses": (prove_expenses, play_proof),
    "over-the-limit": (over_the_limit, play_limit),
    "save-the-rest": (save_the_rest, play_transfer),
}

assert set(CATEGORIES) >= {"Groceries", "Household", "Travel", "Energy", "Insurance"}
