"""Customers who want to send something back: what they say by themselves, what they know, and what they are owed."""

from dataclasses import dataclass
from random import Random

FEE_CENTS = 490
DAYS = 30

THINGS = {
    "kettle": ("The handle came off the first time I used it.", "They sent me a toaster, and I ordered a kettle."),
    "desk lamp": ("It flickers and then goes dark.", "I ordered the white one and this one is green."),
    "rain jacket": ("One seam is torn open all the way down.", "It is a size S, and I ordered an L."),
    "headphones": ("Only the left side makes any sound.", "These have a cable, and I ordered wireless ones."),
    "frying pan": ("The coating flakes off into the food.", "This is a lid. There is no pan in the box."),
    "suitcase": ("A wheel broke off before I was out of the door.", "I ordered one large case and got two small bags."),
    "alarm clock": ("It stops every night at three.", "It is a kitchen timer, not an alarm clock."),
    "backpack": ("The zip does not close any more.", "It is the one for children, and I ordered the one for hikers."),
}
REGRETS = (
    "Nothing is wrong with it, I just do not need it any more.",
    "It works, but I found one I like better.",
    "It is fine. I bought it in a hurry and changed my mind.",
    "There is no fault, it was a present and she has one already.",
)
NAMES = ("Ada", "Bruno", "Chidi", "Dalia", "Emre", "Freya", "Goran", "Hana", "Ines", "Jonas", "Kofi", "Lin", "Mira", "Nils")
OPENINGS = (
    "Hello, {name} here. I would like to send back the {thing} I bought from you.",
    "hi, i want to return a {thing}. - {name}",
    "Good morning. My name is {name} and I am not happy with my {thing}. Can I get my money back?",
    "{name} speaking. It's about the {thing}. I want a refund.",
)


@dataclass
class Order:
    number: str
    thing: str
    price_cents: int
    days: int  # since it was delivered


@dataclass
class Case:
    opening: str
    name: str
    story: str
    reason: str
    order: Order
    others: list[Order]

    @property
    def owed_cents(self) -> int:
        if self.reason != "regret":
            return self.order.price_cents
        return self.order.price_cents - FEE_CENTS if self.order.days <= DAYS else 0


def make_case(rng: Random) -> Case:
    thing, name = rng.choice(list(THINGS)), rng.choice(NAMES)
    broken, wrong = THINGS[thing]
    reason = rng.choice(["broken", "wrong", "regret", "regret"])
    story = {"broken": broken, "wrong": wrong, "regret": rng.choice(REGRETS)}[reason]
    orders = [make_order(rng, thing) for _ in range(4)]
    others = [*orders[1:], *(make_order(rng, rng.choice(list(THINGS))) for _ in range(4))]
    opening = rng.choice(OPENINGS).format(name=name, thing=thing)
    return Case(opening=opening, name=name, story=story, reason=reason, order=orders[0], others=others)


def make_order(rng: Random, thing: str) -> Order:
    days = rng.choice([rng.randint(2, DAYS), rng.randint(DAYS + 1, 90)])
    return Order(number=str(rng.randint(100_000, 999_999)), thing=thing, price_cents=rng.randint(1200, 18000), days=days)


def euros(cents: int) -> str:
    return f"{cents / 100:.2f}"
