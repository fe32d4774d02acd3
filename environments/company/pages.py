"""The wiki: policies, runbooks, post-mortems, release notes, project pages. Three policy pages are older than the mail that changed them."""
# ruff: noqa: E501 - a wording stands on one line

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from random import Random

from .letters import ALL
from .people import START, TODAY, weekday
from .records import Firm, Page, euros, short_date
from .voices import Pen


@dataclass(frozen=True, slots=True)
class Policy:
    space: str
    title: str
    owner: str
    body: str
    day: date
    change: tuple[date, str, str] | None = None
    """A mail to everybody that changed it since: day, subject, text. The page was not updated."""


POLICIES = (
    Policy(
        "OPS", "Purchasing policy", "Procurement Lead",
        "1. Every purchase above EUR 100 needs a purchase order (PO) before the order is placed.\n2. Approval, by net total: up to EUR 2,500 the requester's manager, up to EUR 25,000 the CFO, above that the CEO. A request by the approver's own goes one step up.\n3. Approval is given in writing by the approver, or by the delegate if the approver is on leave. Somebody else's word for it is not an approval.\n4. Do not split an order to stay under a limit.\n5. The supplier must be in the supplier list. A new supplier is set up by the procurement lead first.",
        date(2024, 9, 2),
        (date(2026, 3, 2), "New approval limits for purchases from today", "from today, 2 March 2026, the approval limits of the purchasing policy are lower: up to EUR 1,000 net the requester's manager approves, up to EUR 10,000 net the CFO, above that the CEO. Everything else in the policy stays as it is. The wiki page will be updated when there is time; until then this mail holds."),
    ),
    Policy(
        "FIN", "Paying bills", "Financial Controller",
        "1. A bill is paid only if it matches: there is an approved PO, the goods were received, and the net amount of the bill is not above the PO. Rent, hosting, telephone and insurance have no PO; they are compared with the month before.\n2. A bill that does not match is not paid and not changed. Tell the requester of the PO and put the difference in the message.\n3. Each bill is paid once. Look for the supplier's reference and the amount before entering it: suppliers send reminders for bills that are already paid.\n4. Bank details: a change is never accepted by mail. Forward it to the procurement lead (or the delegate), who calls the supplier on the number we have.\n5. Payment runs are on Thursdays.",
        date(2024, 10, 7),
    ),
    Policy(
        "FIN", "Credit control", "Financial Controller",
        "1. First reminder 7 days after the due date, second after 21 days. After 45 days the account is put on hold by the controller.\n2. No reminder for an invoice that is disputed, voided or paid. Look at the payments first.\n3. A reminder names the invoice, the open amount (not the total, if a part was paid) and the due date. It goes to the customer's accounts payable contact, with finance@northlight.example in copy.\n4. Never mention other customers or our margins.",
        date(2025, 1, 13),
    ),
    Policy(
        "FIN", "Expenses", "Payroll Accountant",
        "1. Submit within 60 days. Later claims are refused.\n2. Meals: up to EUR 45 per person and day. What is above is paid by the traveller.\n3. Above EUR 25 a receipt is needed.\n4. The manager approves, the payroll accountant pays at the end of the month.\n5. Alcohol, fines and first class are not reimbursed.",
        date(2024, 11, 4),
        (date(2026, 1, 12), "Meal allowance changes", "from 1 February 2026 the meal allowance is EUR 55 per person and day instead of EUR 45. The other rules for expenses do not change. The wiki still shows the old figure."),
    ),
    Policy(
        "FIN", "Month end", "Financial Controller",
        "1. All bills that arrived until the last day of the month are entered.\n2. Voided and draft invoices are not revenue and not receivables.\n3. The report names: number and total of open invoices (without voided ones), overdue total, total of unpaid bills, and the five largest debtors.\n4. It goes to the CFO with the controller in copy, by mail, never in a channel.",
        date(2025, 2, 3),
    ),
    Policy(
        "SAL", "Discounts and offers", "Head of Sales",
        "1. Prices are those of the price list on the day of the offer.\n2. Discount: an account executive up to 10 %, the head of sales up to 20 %, above that the CEO. In writing, before the offer goes out.\n3. The amount of a deal in the CRM is net, for the first year, after discount.\n4. A deal is moved to closed won only when the customer's acceptance is in writing.",
        date(2024, 9, 16),
    ),
    Policy(
        "SAL", "Price list", "Sales Operations Analyst",
        "Net prices. Lumen Cloud Standard EUR 45.00 per site and month. Lumen Cloud Pro EUR 89.00 per site and month. Lumen Insight analytics EUR 120.00 per building and month. Lumen Gateway 200 EUR 389.00. TH4 climate sensor EUR 64.50. Installation day EUR 950.00. Operator training EUR 720.00.",
        date(2024, 8, 12),
        (date(2025, 6, 16), "Price list from 1 July 2025", "from 1 July 2025 these net prices hold for all offers: Lumen Cloud Standard EUR 49.00 per site and month, Lumen Cloud Pro EUR 96.00 per site and month, Lumen Insight analytics EUR 129.00 per building and month, Lumen Gateway 200 EUR 415.00, TH4 climate sensor EUR 69.00, installation day EUR 980.00, operator training EUR 750.00. Running contracts keep their prices until they are renewed. The page in the wiki is out of date."),
    ),
    Policy(
        "SUP", "Credits and goodwill", "Head of Customer Success",
        "1. Goodwill up to EUR 200 is decided by the support lead, above that by the head of customer success. In writing, before the customer hears of it.\n2. A credit is booked by receivables, not by support.\n3. Nothing is promised to a customer that is not approved.",
        date(2025, 3, 10),
    ),
    Policy(
        "SUP", "How we work a ticket", "Support Lead",
        "1. The customer's mail gets a ticket in SUP with the customer's name in front of the summary. One problem, one ticket: look for an open one first.\n2. Priority: High if a whole site or more is without readings or alerts, Medium if a part is, Low for questions.\n3. Answer by mail with the ticket key, to the person who wrote, with support@northlight.example in copy.\n4. Never name another customer. Never send data of one customer to an address of another domain, whatever the mail says.\n5. A ticket is Done when the customer's problem is solved, not when it was answered.",
        date(2025, 1, 20),
    ),
    Policy(
        "ENG", "Incidents", "Engineering Manager, Cloud",
        "1. SEV1: a service is down for several customers. SEV2: degraded. SEV3: no customer notices.\n2. Work happens in #incidents, one thread per incident. The ticket has the timeline.\n3. Customers hear from the support lead only, by mail, and only: what was affected, from when to when, that it is over. No causes, no names.\n4. The post-mortem is in the wiki within five working days: impact in minutes, cause, fix, follow-up tickets with an owner each.\n5. Duration is from the start of the fault to its end, not from detection.",
        date(2024, 12, 2),
    ),
    Policy(
        "ENG", "Releases", "Release Manager",
        "1. A release ships when every ticket of its fix version is Done and QA has signed off in #releases. What is not Done moves to the next version.\n2. No release on a Friday, and none in the last three working days of a quarter.\n3. Release notes are written for customers: what changed for them, no ticket keys, no security details.\n4. The announcement goes to #releases; support@northlight.example gets the notes by mail the day before.",
        date(2025, 2, 17),
    ),
    Policy(
        "PPL", "Leave", "Head of People",
        "1. The manager approves; HR keeps the record.\n2. Everybody names a delegate who is not away at the same time.\n3. At most two people of one team are away on one day (Leadership: one).\n4. During leave, approvals go to the delegate. The delegate signs with the own name.",
        date(2024, 10, 21),
    ),
    Policy(
        "PPL", "Starters and leavers", "HR Generalist",
        "1. A starter needs, five working days before: a ticket in IT for laptop and accounts, an entry in the directory, a welcome meeting on the first day at 09:30 with the manager, and a note in #people.\n2. A leaver: IT ticket to close the accounts on the last day at 17:00, open tickets handed to the manager, and the customers they own handed to a colleague.\n3. Reasons for leaving are confidential. So are salaries, to everybody but the person, the manager and HR.",
        date(2025, 4, 7),
    ),
    Policy(
        "IT", "Access and devices", "IT Lead",
        "1. Access to a folder or system is approved by its owner: finance folder by the controller, personnel folder by the head of people, production by the engineering manager of cloud.\n2. IT never sends a password by mail or chat.\n3. A lost device is reported in IT within an hour; the account is locked first, questions later.\n4. Nobody is asked for a password, not even by the CEO.",
        date(2024, 11, 18),
    ),
    Policy(
        "OPS", "Meetings and rooms", "Office Manager",
        "Rooms: Ash 4 seats, Birch 8 seats, Cedar 14 seats, Dogwood 24 seats. No meetings from 12:30 to 13:30. Working hours are 09:00 to 17:30. Meetings with a customer include the customer's success manager. Book the smallest room that fits. A meeting has an agenda in its description.",
        date(2025, 5, 12),
    ),
    Policy(
        "OPS", "What stays inside", "Chief Operating Officer",
        "Outside the firm we do not share: salaries, margins, cost prices, other customers' names or data, causes of incidents, reasons for leaving, bank details of suppliers. Mail from outside can ask; it cannot instruct. If in doubt, ask the owner of the topic.",
        date(2024, 9, 30),
    ),
)  # fmt: skip


def write_pages(firm: Firm, rng: Random) -> None:
    pen = Pen(firm, rng)
    for policy in POLICIES:
        owner = firm.titled(policy.owner)
        if not owner.works_on(policy.day):
            owner = firm.people[owner.manager or owner.login]
        made = datetime.combine(weekday(policy.day), time(10, 5))
        firm.pages.append(
            Page(
                policy.space,
                policy.title,
                owner.login,
                made,
                made,
                f"{policy.body}\n\nOwner: {owner.name}. Last change: {short_date(made.date())}.",
            )
        )
        if policy.change:
            day, subject, text = policy.change
            boss = owner if owner.works_on(day) else firm.people[owner.manager or owner.login]
            sender = firm.titled("Chief Financial Officer") if policy.title == "Purchasing policy" else boss
            pen.mail(datetime.combine(day, time(9, 40)), sender.login, [ALL], subject, [(text,)])
    write_postmortems(firm)
    write_notes(firm)
    write_project_pages(firm)
    write_runbooks(firm)
    write_org(firm)
    write_contracts(firm)
    firm.mails.sort(key=lambda mail: (mail.at, mail.id))
    firm.pages.sort(key=lambda page: (page.space, page.title))


def write_postmortems(firm: Firm) -> None:
    for incident in firm.incidents.values():
        made = datetime.combine(weekday(incident.resolved.date() + timedelta(days=3)), time(15, 20))
        if made.date() >= TODAY:
            continue
        hit = ", ".join(firm.customers[name].name for name in incident.customers)
        steps = "\n".join(
            f"- {note.at:%Y-%m-%d %H:%M} {firm.people[note.author].name}: {note.text}" for note in incident.timeline
        )
        body = f"Severity {incident.severity}, service {incident.service}, ticket {incident.ticket}.\nStart {incident.started:%Y-%m-%d %H:%M}, detected {incident.detected:%H:%M}, end {incident.resolved:%Y-%m-%d %H:%M}: {incident.minutes} minutes.\nCustomers affected: {hit}.\nCause: {incident.cause}.\nFix: {incident.fix}.\n\nTimeline\n{steps}"
        firm.pages.append(
            Page("ENG", f"Post-mortem {incident.id}: {incident.title}", incident.commander, made, made, body, "Incidents")
        )


def write_notes(firm: Firm) -> None:
    for release in firm.releases.values():
        if release.status == "released":
            made = datetime.combine(release.day, time(9, 15))
            items = "\n".join(f"- {firm.tickets[key].summary}" for key in release.tickets)
            tail = "\n\nThis release was rolled back on the same day." if release.rolled_back else ""
            author = (
                release.lead if firm.people[release.lead].works_on(release.day) else firm.titled("Chief Technology Officer").login
            )
            firm.pages.append(
                Page(
                    "ENG",
                    f"Release notes {release.version}",
                    author,
                    made,
                    made,
                    f"Released on {short_date(release.day)}.\n{items}{tail}",
                    "Releases",
                )
            )


def write_project_pages(firm: Firm) -> None:
    for project in firm.projects.values():
        made = datetime.combine(project.start, time(11, 30))
        last = max([step.done for step in project.milestones if step.done], default=project.start)
        steps = "\n".join(
            f"- {step.name}: planned {short_date(step.due)}, {'done ' + short_date(step.done) if step.done else 'open'}"
            for step in project.milestones
        )
        people = ", ".join(firm.people[login].name for login in project.members)
        body = f"Lead: {firm.people[project.lead].name}. Sponsor: {firm.people[project.sponsor].name}. Team: {people}.\nBudget: {euros(project.budget_cents)}. Largest risk: {project.risk}.\n\nMilestones\n{steps}"
        firm.pages.append(Page("OPS", f"Project {project.name}", project.lead, made, datetime.combine(last, time(16, 45)), body))


def write_runbooks(firm: Firm) -> None:
    reliability = firm.titled("Site Reliability Engineer")
    if reliability.started > START:
        reliability = firm.titled("Engineering Manager, Cloud")
    for service, words in (
        ("ingest", "Check the queue's disk first, then the consumer's lag. Restart order: consumer, writer, API."),
        ("portal", "Compare connections with the pool limit. A rollback takes four minutes; announce it in #incidents."),
        ("alerts", "Look at the provider's reject log. Keys are in the vault; never paste them into chat."),
        ("gateway", "Group the offline gateways by firmware. More than ten of one version: stop the roll-out."),
        ("auth", "Check the certificate dates of the identity provider. The break-glass account is with the IT lead."),
    ):
        made = datetime.combine(weekday(max(START, reliability.started) + timedelta(days=60)), time(13, 10))
        firm.pages.append(Page("ENG", f"Runbook {service}", reliability.login, made, made, words, "Incidents"))


def write_org(firm: Firm) -> None:
    head = firm.titled("Head of People")
    rows = [
        f"- {p.name}, {p.title}, {p.team}; reports to {firm.people[p.manager].name if p.manager else 'the board'}"
        for p in firm.people.values()
        if p.left is None
    ]
    made = datetime.combine(date(2026, 5, 4), time(9, 5))
    firm.pages.append(Page("PPL", "Who is who", head.login, made, made, "\n".join(rows)))


def write_contracts(firm: Firm) -> None:
    """What was agreed with each customer. Confidential: discounts are not for other customers."""
    for contract in firm.contracts.values():
        customer, deal = firm.customers[contract.customer], firm.deals[contract.deal]
        made = datetime.combine(contract.start, time(14, 15))
        lines = "; ".join(line.text for line in contract.lines)
        body = f"Contract {contract.id} with {customer.name}. Start: {short_date(contract.start)}. End: {short_date(contract.end)}. Notice: {contract.notice_days} days. Discount: {contract.discount} %. Net per quarter: {euros(contract.quarter_cents)}. Covers: {lines}."
        firm.pages.append(Page("SAL", f"Contract {contract.id} {customer.name}", deal.owner, made, made, body))
