"""The records of the firm: what is true. Everything that people wrote about it is made from these."""

from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Person:
    login: str
    name: str
    title: str
    team: str
    manager: str | None
    started: date
    left: date | None
    voice: int
    """Which greeting, closing and habits the person writes with."""

    @property
    def email(self) -> str:
        return f"{self.login}@northlight.example"

    @property
    def first(self) -> str:
        return self.name.split()[0]

    def works_on(self, day: date) -> bool:
        return self.started <= day and (self.left is None or day <= self.left)


@dataclass(frozen=True, slots=True)
class Leave:
    id: str
    person: str
    first: date
    last: date
    kind: str
    delegate: str
    asked: date
    approver: str

    def covers(self, day: date) -> bool:
        return self.first <= day <= self.last


@dataclass(frozen=True, slots=True)
class Contact:
    name: str
    email: str
    role: str


@dataclass(frozen=True, slots=True)
class Customer:
    id: str
    name: str
    domain: str
    country: str
    segment: str
    owner: str
    csm: str
    since: date
    contacts: tuple[Contact, ...]
    terms_days: int
    vat_rate: int
    """Per cent: 23 in Ireland, 0 elsewhere in the EU (reverse charge)."""
    churned: date | None = None

    @property
    def payer(self) -> Contact:
        return next(contact for contact in self.contacts if contact.role == "accounts payable")

    @property
    def user(self) -> Contact:
        return next(contact for contact in self.contacts if contact.role != "accounts payable")


@dataclass(frozen=True, slots=True)
class Product:
    sku: str
    name: str
    kind: str
    prices: tuple[tuple[date, int], ...]
    """From this day, this price in cents."""
    unit: str

    def price_on(self, day: date) -> int:
        return [cents for start, cents in self.prices if start <= day][-1]


@dataclass(frozen=True, slots=True)
class Line:
    sku: str
    text: str
    quantity: int
    unit_cents: int
    account: str

    @property
    def cents(self) -> int:
        return self.quantity * self.unit_cents


@dataclass(frozen=True, slots=True)
class Deal:
    id: str
    customer: str
    name: str
    stage: str
    amount_cents: int
    opened: date
    close: date
    """The day it was won or lost; of an open deal, the day it is expected."""
    owner: str
    reason: str = ""

    @property
    def is_open(self) -> bool:
        return self.stage not in {"closedwon", "closedlost"}


@dataclass(frozen=True, slots=True)
class Contract:
    id: str
    customer: str
    deal: str
    start: date
    end: date
    lines: tuple[Line, ...]
    discount: int
    notice_days: int

    @property
    def quarter_cents(self) -> int:
        return sum(line.cents for line in self.lines)


@dataclass(frozen=True, slots=True)
class Payment:
    id: str
    day: date
    cents: int
    reference: str


@dataclass(frozen=True, slots=True)
class Invoice:
    number: str
    customer: str
    day: date
    due: date
    lines: tuple[Line, ...]
    vat_cents: int
    payments: tuple[Payment, ...]
    order: str
    """The customer's own order number."""
    about: str
    voided: date | None = None
    void_reason: str = ""
    disputed: str = ""

    @property
    def net_cents(self) -> int:
        return sum(line.cents for line in self.lines)

    @property
    def total_cents(self) -> int:
        return self.net_cents + self.vat_cents

    @property
    def paid_cents(self) -> int:
        return sum(payment.cents for payment in self.payments)

    @property
    def open_cents(self) -> int:
        return 0 if self.voided else self.total_cents - self.paid_cents

    @property
    def status(self) -> str:
        return "VOIDED" if self.voided else "PAID" if self.open_cents == 0 else "AUTHORISED"


@dataclass(frozen=True, slots=True)
class Supplier:
    id: str
    name: str
    domain: str
    category: str
    contact: Contact
    terms_days: int
    iban: str
    account: str
    vat_rate: int


@dataclass(frozen=True, slots=True)
class Order:
    """A purchase order."""

    number: str
    supplier: str
    requester: str
    approver: str
    day: date
    approved: date | None
    lines: tuple[Line, ...]
    status: str
    received: date | None
    reason: str

    @property
    def cents(self) -> int:
        return sum(line.cents for line in self.lines)


@dataclass(frozen=True, slots=True)
class Bill:
    number: str
    """Ours."""
    reference: str
    """The supplier's."""
    supplier: str
    order: str | None
    day: date
    due: date
    lines: tuple[Line, ...]
    vat_cents: int
    payments: tuple[Payment, ...]

    @property
    def net_cents(self) -> int:
        return sum(line.cents for line in self.lines)

    @property
    def total_cents(self) -> int:
        return self.net_cents + self.vat_cents

    @property
    def open_cents(self) -> int:
        return self.total_cents - sum(payment.cents for payment in self.payments)

    @property
    def status(self) -> str:
        return "PAID" if self.open_cents == 0 else "AUTHORISED"


@dataclass(frozen=True, slots=True)
class Expense:
    id: str
    person: str
    day: date
    merchant: str
    category: str
    cents: int
    purpose: str
    approver: str
    approved: date | None
    paid: date | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One journal entry of the books: cents by account, debits positive."""

    day: date
    memo: str
    source: str
    lines: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Note:
    at: datetime
    author: str
    text: str


@dataclass(frozen=True, slots=True)
class Incident:
    id: str
    ticket: str
    title: str
    service: str
    severity: str
    started: datetime
    detected: datetime
    mitigated: datetime
    resolved: datetime
    commander: str
    cause: str
    fix: str
    customers: tuple[str, ...]
    timeline: tuple[Note, ...]

    @property
    def minutes(self) -> int:
        return round((self.resolved - self.started).total_seconds() / 60)


@dataclass(frozen=True, slots=True)
class Release:
    version: str
    day: date
    lead: str
    tickets: tuple[str, ...]
    status: str
    rolled_back: bool = False


@dataclass(frozen=True, slots=True)
class Milestone:
    name: str
    due: date
    done: date | None


@dataclass(frozen=True, slots=True)
class Project:
    id: str
    name: str
    customer: str | None
    lead: str
    sponsor: str
    members: tuple[str, ...]
    start: date
    milestones: tuple[Milestone, ...]
    budget_cents: int
    risk: str


@dataclass(frozen=True, slots=True)
class Ticket:
    key: str
    kind: str
    summary: str
    body: str
    reporter: str
    """A login, or the address of a customer's contact."""
    assignee: str | None
    created: datetime
    status: str
    closed: datetime | None
    priority: str
    labels: tuple[str, ...] = ()
    customer: str | None = None
    version: str | None = None
    comments: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Mail:
    id: str
    thread: str
    at: datetime
    sender: str
    to: tuple[str, ...]
    cc: tuple[str, ...]
    subject: str
    body: str


@dataclass(frozen=True, slots=True)
class Post:
    """A message in a channel of the chat; `thread` names the post that it answers."""

    id: str
    channel: str
    at: datetime
    who: str
    text: str
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    space: str
    title: str
    author: str
    created: datetime
    updated: datetime
    body: str
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Meeting:
    id: str
    title: str
    start: datetime
    end: datetime
    organiser: str
    guests: tuple[str, ...]
    room: str = ""
    note: str = ""


@dataclass(slots=True)
class Firm:
    """Everything that is true, and everything that was written."""

    seed: int
    people: dict[str, Person] = field(default_factory=dict)
    leaves: list[Leave] = field(default_factory=list)
    products: dict[str, Product] = field(default_factory=dict)
    customers: dict[str, Customer] = field(default_factory=dict)
    deals: dict[str, Deal] = field(default_factory=dict)
    contracts: dict[str, Contract] = field(default_factory=dict)
    invoices: dict[str, Invoice] = field(default_factory=dict)
    suppliers: dict[str, Supplier] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    bills: dict[str, Bill] = field(default_factory=dict)
    expenses: dict[str, Expense] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    incidents: dict[str, Incident] = field(default_factory=dict)
    releases: dict[str, Release] = field(default_factory=dict)
    projects: dict[str, Project] = field(default_factory=dict)
    tickets: dict[str, Ticket] = field(default_factory=dict)
    mails: list[Mail] = field(default_factory=list)
    posts: list[Post] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)
    meetings: list[Meeting] = field(default_factory=list)

    def titled(self, title: str) -> Person:
        """The person who has this title now."""
        return next(person for person in self.people.values() if person.title == title and person.left is None)

    def team(self, name: str, day: date) -> list[Person]:
        return [person for person in self.people.values() if person.team == name and person.works_on(day)]

    def away(self, login: str, day: date) -> Leave | None:
        return next((leave for leave in self.leaves if leave.person == login and leave.covers(day)), None)

    def customer_named(self, name: str) -> Customer:
        return next(customer for customer in self.customers.values() if customer.name == name)

    def supplier_named(self, name: str) -> Supplier:
        return next(supplier for supplier in self.suppliers.values() if supplier.name == name)


def euros(cents: int) -> str:
    """1234567 -> `€12,345.67`."""
    return f"{'-' if cents < 0 else ''}€{abs(cents) // 100:,}.{abs(cents) % 100:02}"


def short_date(day: date) -> str:
    """`3 June 2026`."""
    return f"{day.day} {day:%B %Y}"


def strictly_rising(values: list[datetime]) -> bool:
    return all(a < b for a, b in pairwise(values))
