"""Two years of chat, made from the facts: incidents as they happened, releases, deals won, deliveries, who is away, and small talk."""
# ruff: noqa: E501 - a wording stands on one line

from datetime import datetime, time, timedelta
from random import Random

from .people import START, TODAY, weekday
from .records import Firm, euros, short_date
from .voices import Pen
from .work import at

CHANNELS = {
    "general": "Everything for everybody",
    "incidents": "Incidents while they happen. One thread per incident.",
    "releases": "What ships when",
    "sales": "Deals, offers, customers",
    "support": "Tickets and hand-overs",
    "finance": "Invoices, bills, month end",
    "purchasing": "Orders and deliveries",
    "people": "Leave, new starters, policies",
    "it-help": "Laptops, accounts, printers",
    "engineering": "Cloud and devices",
    "projects": "Milestones",
    "random": "Everything else",
}
TALK = (
    "The coffee machine on the second floor is back.", "Who took the label printer?", "Lunch at the market today?", "It is raining into bike shed number {n}.",
    "Found: a grey scarf in room Ash.", "Quiz night on Thursday, {n} places left.", "The lift is out of order again.", "Cake in the kitchen, first come first served.",
    "Anyone up for a run at six? {n} of us so far.", "Parking space {n} is free next week.", "Does anybody have an adapter for the big screen?", "The plants in room Birch need water.",
    "Lost my badge, number {n}. Please keep an eye open.", "We have {n} spare umbrellas at the front desk.", "Window in room Cedar stays open, facilities know.",
)  # fmt: skip


def write_chatter(firm: Firm, rng: Random) -> None:
    pen = Pen(firm, rng)
    chat_incidents(firm, pen)
    chat_releases(firm, pen)
    chat_deals(firm, pen)
    chat_orders(firm, pen)
    chat_support(firm, pen)
    chat_people(firm, pen)
    chat_money(firm, pen)
    chat_projects(firm, pen)
    small_talk(firm, pen)
    firm.posts.sort(key=lambda post: (post.at, post.id))


def chat_incidents(firm: Firm, pen: Pen) -> None:
    for incident in firm.incidents.values():
        first = None
        for number, note in enumerate(incident.timeline):
            text = f"{incident.id} {note.text}" if number == 0 else note.text
            post = pen.post(
                "incidents", note.at, note.author, text, f"{text} ({note.at:%H:%M})", f"[{note.at:%H:%M}] {text}", thread=first
            )
            first = first or post.id
        pen.post(
            "incidents",
            incident.resolved + timedelta(minutes=5),
            incident.commander,
            f"{incident.id} lasted {incident.minutes} minutes. Ticket: {incident.ticket}.",
            f"{incident.minutes} minutes from start to end; post-mortem will be linked in {incident.ticket} ({incident.id}).",
            thread=first,
        )


def chat_releases(firm: Firm, pen: Pen) -> None:
    qa, lead = firm.titled("QA Engineer"), firm.titled("Release Manager")
    for release in firm.releases.values():
        if release.status != "released":
            continue
        if qa.works_on(release.day - timedelta(days=3)):
            pen.post(
                "releases",
                at(weekday(release.day - timedelta(days=2)), pen.rng, 10, 16),
                qa.login,
                f"QA sign-off for {release.version}, {len(release.tickets)} tickets tested.",
                f"{release.version}: all {len(release.tickets)} tickets pass. Sign-off from me.",
            )
        if lead.works_on(release.day):
            pen.post(
                "releases",
                at(release.day, pen.rng, 8, 11),
                lead.login,
                f"{release.version} is going out now; {', '.join(release.tickets)}.",
                f"Shipping {release.version} today: {', '.join(release.tickets)}.",
            )
            if release.rolled_back:
                pen.post(
                    "releases",
                    at(release.day, pen.rng, 13, 17),
                    lead.login,
                    f"We had to roll {release.version} back; next try with the next train.",
                    f"Rolled back {release.version}. Support knows.",
                )


def chat_deals(firm: Firm, pen: Pen) -> None:
    for deal in firm.deals.values():
        name = firm.customers[deal.customer].name
        what = deal.name if deal.name.startswith("Lumen") else deal.name[0].lower() + deal.name[1:]
        if deal.stage == "closedwon":
            pen.post(
                "sales",
                at(deal.close, pen.rng),
                deal.owner,
                f"Won: {name}, {what}, {euros(deal.amount_cents)} ({deal.id})!",
                f"{name} signed {deal.id}; {euros(deal.amount_cents)}.",
                f"{deal.id} is ours. {name}, {euros(deal.amount_cents)}, {what}.",
            )
        elif deal.stage == "closedlost":
            pen.post(
                "sales",
                at(deal.close, pen.rng),
                deal.owner,
                f"Lost {deal.id} at {name}: {deal.reason}.",
                f"{name} said no to {deal.id}; {deal.reason}.",
            )


def chat_orders(firm: Firm, pen: Pen) -> None:
    keeper = firm.titled("Warehouse Coordinator")
    for order in firm.orders.values():
        if order.received:
            who = keeper.login if keeper.works_on(order.received) else firm.titled("Procurement Lead").login
            supplier = firm.suppliers[order.supplier].name
            pen.post(
                "purchasing",
                at(order.received, pen.rng),
                who,
                f"{order.number} from {supplier} is here, complete.",
                f"Delivery from {supplier} ({order.number}); counted, all there.",
                f"{order.number} received and booked in ({supplier}).",
            )


def chat_support(firm: Firm, pen: Pen) -> None:
    for ticket in firm.tickets.values():
        if ticket.customer and ticket.assignee and pen.rng.random() < 0.45:
            name = firm.customers[ticket.customer].name
            subject = ticket.summary.partition(": ")[2].lower()
            pen.post(
                "support",
                ticket.created + timedelta(minutes=4),
                ticket.assignee,
                f"Taking {ticket.key}, {name}: {subject}.",
                f"{ticket.key} is mine ({name}, {subject}).",
                f"New from {name}: {subject}; {ticket.key}, I am on it.",
            )
            if ticket.closed:
                pen.post(
                    "support",
                    ticket.closed + timedelta(minutes=6),
                    ticket.assignee,
                    f"{ticket.key} closed.",
                    f"Done with {ticket.key}, {name} is happy.",
                    f"{ticket.key}: solved.",
                )


def chat_people(firm: Firm, pen: Pen) -> None:
    for leave in firm.leaves:
        person, cover = firm.people[leave.person], firm.people[leave.delegate]
        day = weekday(leave.first - timedelta(days=3))
        if person.works_on(day) and day < TODAY:
            pen.post(
                "people",
                at(day, pen.rng, 14, 17),
                leave.person,
                f"I am away from {short_date(leave.first)} to {short_date(leave.last)}; {cover.name} covers.",
                f"Out of office {short_date(leave.first)} until {short_date(leave.last)}. Please go to {cover.name}.",
                f"Away {short_date(leave.first)} - {short_date(leave.last)}, delegate: {cover.name}.",
            )
    head = firm.titled("Head of People")
    for person in firm.people.values():
        if person.started > START:
            pen.post(
                "people",
                at(person.started, pen.rng, 8, 10),
                head.login,
                f"Please welcome {person.name}, our new {person.title.lower()}, in {person.team}.",
                f"{person.name} starts today as {person.title.lower()} ({person.team}). Welcome!",
            )
        if person.left:
            pen.post(
                "people",
                at(person.left, pen.rng, 14, 16),
                head.login,
                f"Today is the last day of {person.name}. Thank you for everything!",
                f"{person.name} leaves us today; all the best.",
            )


def chat_money(firm: Firm, pen: Pen) -> None:
    controller = firm.titled("Financial Controller")
    day = datetime.combine(START, time(9))
    while day.date() < TODAY - timedelta(days=5):
        month = day.replace(day=1)
        last = (month - timedelta(days=1)).date()
        if last > START:
            open_cents = sum(
                invoice.total_cents
                for invoice in firm.invoices.values()
                if invoice.day <= last and (invoice.voided is None or invoice.voided > last)
            ) - sum(payment.cents for invoice in firm.invoices.values() for payment in invoice.payments if payment.day <= last)
            pen.post(
                "finance",
                at(weekday(month.date() + timedelta(days=4)), pen.rng),
                controller.login,
                f"{last:%B %Y} is closed. Open receivables at month end: {euros(open_cents)}.",
                f"Closed {last:%B %Y}; receivables stand at {euros(open_cents)}.",
            )
        day = (month + timedelta(days=40)).replace(day=1)
    for bill in firm.bills.values():
        for payment in bill.payments:
            if pen.rng.random() < 0.3:
                clerk = next(
                    p
                    for p in firm.people.values()
                    if p.title in {"Accounts Payable Specialist", "Financial Controller"} and p.works_on(payment.day)
                )
                pen.post(
                    "finance",
                    at(payment.day, pen.rng),
                    clerk.login,
                    f"{bill.number} ({firm.suppliers[bill.supplier].name}) is in today's run, {euros(payment.cents)}.",
                    f"Paid {bill.number}, {euros(payment.cents)} to {firm.suppliers[bill.supplier].name}.",
                )


def chat_projects(firm: Firm, pen: Pen) -> None:
    for project in firm.projects.values():
        for step in project.milestones:
            if step.done:
                pen.post(
                    "projects",
                    at(step.done, pen.rng, 14, 18),
                    project.lead,
                    f"{project.name.split(':')[0]}: `{step.name}` done.",
                    f"{step.name} reached for {project.name.split(':')[0]}.",
                )


def small_talk(firm: Firm, pen: Pen) -> None:
    day = START
    while day < TODAY:
        away = {leave.person for leave in firm.leaves if leave.covers(day)}
        people = [person.login for person in firm.people.values() if person.works_on(day) and person.login not in away]
        dated_on = f"({day:%a %d %b %Y})"
        for _ in range(pen.rng.choice((0, 1, 1, 2))):
            words = tuple(text.format(n=pen.rng.randrange(2, 60)) for text in TALK)
            dated = tuple(f"{text} {dated_on}" for text in words)
            pen.post(pen.rng.choice(("random", "general", "random")), at(day, pen.rng), pen.rng.choice(people), *words, *dated)
        day = weekday(day + timedelta(days=1))
