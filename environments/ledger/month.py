"""A month of true bookkeeping from a seed: what happened, how it should be posted, and what the bank says about it.

Everything here is right. `trouble.py` spoils a copy of it, so the answer to every task is known by construction.
"""

import unicodedata
from calendar import monthrange
from dataclasses import dataclass, field
from random import Random

CUSTOMERS = [
    "Bäckerei Grünwald",
    "Café Olé S.L.",
    "Škoda & Synové",
    "Œuvre Collective",
    "Πλατεία",
    "Ærø Havn ApS",
    "李氏茶行",
    "O'Neill Bros.",
]
SUPPLIERS = [
    ("Müller & Söhne GmbH", "5000", "goods", 20),
    ("Żabka Hurtownia", "5000", "goods", 10),
    ("Papeterie Crème", "6100", "paper and toner", 20),
    ("Ferrovia d'Italia", "6200", "train tickets", 10),
    ("Gerätehaus Nord", "1300", "laptop, 1 piece", 20),
    ("Software Kontor", "6300", "licence", 20),
]
FOREIGN = [("Ünïcode Inc.", "USD"), ("Cloud & Sons Ltd.", "GBP"), ("Zürisoft AG", "CHF")]


@dataclass(eq=False)
class Entry:
    date: str
    party: str
    reference: str
    memo: str
    lines: dict[str, int]


@dataclass(eq=False)
class BankLine:
    date: str
    text: str
    cents: int
    entry: Entry


@dataclass
class Month:
    name: str
    rng: Random
    rates: dict[str, dict[str, int]]  # month -> currency -> micros
    entries: list[Entry] = field(default_factory=list)
    bank: list[BankLine] = field(default_factory=list)
    nets: set[int] = field(default_factory=set)

    @property
    def last_day(self) -> int:
        return monthrange(int(self.name[:4]), int(self.name[5:]))[1]

    def day(self, number: int) -> str:
        return f"{self.name}-{min(number, self.last_day):02}"

    def post(self, day: int, party: str, reference: str, memo: str, lines: dict[str, int]) -> Entry:
        entry = Entry(self.day(day), party, reference, memo, lines)
        self.entries.append(entry)
        return entry

    def bank_says(self, entry: Entry, note: str = "") -> None:
        words = [plain(entry.party).upper(), note or self.rng.choice([entry.reference, entry.reference.replace("-", " "), ""])]
        self.bank.append(BankLine(entry.date, " ".join(filter(None, words)), entry.lines["1000"], entry))

    def net(self, low: int = 40, high: int = 700) -> int:
        """A net amount in cents no other invoice of the month has, so that a gross amount names its invoice."""
        while (cents := self.rng.randrange(low * 100, high * 100, 10)) in self.nets:
            pass
        self.nets.add(cents)
        return cents


def plain(name: str) -> str:
    """A name as a bank prints it: no accents, and question marks for what it cannot print."""
    return unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().strip() or "?" * len(name)


def money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"


def make_month(rng: Random, name: str) -> Month:
    """Sales, purchases, a foreign invoice, a refund, rent, fee and interest; one payment the bank has yet to carry out."""
    currencies = {currency for _, currency in FOREIGN}
    before = f"{name[:5]}{int(name[5:]) - 1:02}"
    rates = {each: {currency: rng.randrange(800_000, 1_250_000) for currency in sorted(currencies)} for each in (before, name)}
    month = Month(name, rng, rates)
    open_balances(month, before)
    for number, customer in enumerate(rng.sample(CUSTOMERS, 5)):
        sell(month, customer, paid=number > 0)
    for supplier, account, what, rate in SUPPLIERS:
        buy(month, supplier, account, what, rate)
    buy_two_alike(month)
    buy_abroad(month)
    refund(month)
    small_things(month)
    month.entries.sort(key=lambda entry: entry.date)
    month.bank.sort(key=lambda line: line.date)
    return month


def open_balances(month: Month, before: str) -> None:
    bank, owed, owing = (month.rng.randrange(low, 3 * low) for low in (2_000_000, 100_000, 100_000))
    lines = {"1000": bank, "1100": owed, "2000": -owing, "3000": owing - bank - owed}
    entry = Entry(f"{before}-28", "", "OPEN", "opening balances", lines)
    month.entries.append(entry)
    month.bank.append(BankLine(entry.date, "OPENING BALANCE", bank, entry))


def sell(month: Month, customer: str, *, paid: bool) -> None:
    rate = month.rng.choice([20, 20, 10])
    net, day = month.net(), month.rng.randint(1, 15)
    vat = net * rate // 100
    number = f"{month.name}-{month.rng.randrange(100, 999)}"
    lines = {"1100": net + vat, "4000": -net, output_vat(rate): -vat}
    month.post(day, customer, number, f"sale, net {money(net)} + {rate} % VAT", lines)
    if paid:
        when = day + month.rng.randint(3, 12)
        month.bank_says(month.post(when, customer, number, "received", {"1000": net + vat, "1100": -net - vat}))


def buy(month: Month, supplier: str, account: str, what: str, rate: int) -> None:
    net = month.net(810, 1900) if account == "1300" else month.net()
    vat = net * rate // 100
    number, day = f"RE-{month.rng.randrange(10_000, 99_999)}", month.rng.randint(1, 15)
    lines = {account: net, input_vat(rate): vat, "2000": -net - vat}
    month.post(day, supplier, number, f"{what}, net {money(net)} + {rate} % VAT", lines)
    payment = {"2000": net + vat, "1000": -net - vat}
    if what == "train tickets":  # paid on the last day: the bank has not carried it out yet
        month.post(month.last_day, supplier, number, "ordered at the bank", payment)
    else:
        month.bank_says(month.post(day + month.rng.randint(2, 12), supplier, number, "paid", payment))


def buy_two_alike(month: Month) -> None:
    """Two seats of the same licence, bought and paid on the same day: alike, and both right."""
    net, day = month.net(), month.rng.randint(2, 20)
    for seat in (1, 2):
        number = f"SK-{month.rng.randrange(10_000, 99_999)}"
        lines = {"6300": net, "1400": net // 5, "2000": -net - net // 5}
        month.post(day, "Software Kontor", number, f"licence, seat {seat}, net {money(net)} + 20 % VAT", lines)
        paid = month.post(day, "Software Kontor", number, "paid", {"2000": net + net // 5, "1000": -net - net // 5})
        month.bank_says(paid, number)


def buy_abroad(month: Month) -> None:
    """A foreign invoice at the month's rate; the bank takes a little more, and the difference has its own account."""
    supplier, currency = month.rng.choice(FOREIGN)
    foreign, day = month.net(100, 900), month.rng.randint(1, 20)
    cents, fee = converted(foreign, month.rates[month.name][currency]), month.rng.randrange(11, 299)
    number = f"INV {month.rng.randrange(1000, 9999)}"
    month.post(day, supplier, number, f"subscription, {currency} {money(foreign)}", {"6300": cents, "2000": -cents})
    paid = month.post(day + 4, supplier, number, "paid", {"2000": cents, "6500": fee, "1000": -cents - fee})
    month.bank_says(paid, f"{currency} {money(foreign)}")


def refund(month: Month) -> None:
    net, customer = month.net(10, 90), month.rng.choice(CUSTOMERS)
    lines = {"4100": net, "2200": net // 5, "1000": -net - net // 5}
    entry = month.post(month.rng.randint(10, 25), customer, "", "refund to customer", lines)
    month.bank_says(entry, f"REFUND NET {money(net)} PLUS 20% VAT")


def small_things(month: Month) -> None:
    fee, interest, rent = (month.rng.randrange(low, 3 * low) for low in (701, 307, 90_000))
    month.bank_says(month.post(3, "Hausverwaltung Groß", "", "rent", {"6000": rent, "1000": -rent}), "RENT")
    month.bank_says(month.post(27, "Bank", "", "account fee", {"6400": fee, "1000": -fee}), "ACCOUNT FEE")
    month.bank_says(month.post(28, "Bank", "", "interest", {"1000": interest, "7000": -interest}), "INTEREST")


def converted(foreign: int, micros: int) -> int:
    return (foreign * micros + 500_000) // 1_000_000


def output_vat(rate: int) -> str:
    return "2200" if rate == 20 else "2210"


def input_vat(rate: int) -> str:
    return "1400" if rate == 20 else "1410"
