"""The desk as the tools see it and the checks find it: customers, orders, tickets, and everything that was done, in order."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Customer:
    id: str
    name: str
    email: str
    postcode: str
    orders: list[str] = field(default_factory=list)


@dataclass
class Order:
    id: str
    items: dict[str, int]  # name -> price in cents
    address: str
    status: str = "processing"  # processing, shipped, delivered
    shipped: str | None = None
    delivered: str | None = None
    tracking: str | None = None
    refunded_cents: int = 0

    @property
    def total_cents(self) -> int:
        return sum(self.items.values())


@dataclass
class Ticket:
    id: str
    customer: str
    subject: str
    text: str
    status: str = "open"


@dataclass
class Deed:
    """Something the agent did to a ticket. The log of deeds is what the checks trust: a status is only a word."""

    tool: str
    ticket: str
    arguments: dict[str, Any]


@dataclass
class Desk:
    today: str = ""
    customers: dict[str, Customer] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    tickets: dict[str, Ticket] = field(default_factory=dict)
    log: list[Deed] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        return asdict(self)
