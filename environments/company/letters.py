"""The mail of two years, made from the facts: invoices, orders, bills, support, leave, sales, releases, policies."""
# ruff: noqa: E501 - a wording stands on one line

from datetime import datetime, time, timedelta
from random import Random

from .people import TODAY, weekday
from .records import Firm, Invoice, Ticket, euros, short_date
from .voices import Pen
from .work import at

FINANCE, SUPPORT, SALES, PEOPLE, IT, BUYING, ALL = (
    f"{name}@northlight.example" for name in ("finance", "support", "sales", "people", "it", "purchasing", "everyone")
)


def write_letters(firm: Firm, rng: Random) -> None:
    pen = Pen(firm, rng)
    for invoice in firm.invoices.values():
        write_invoice(firm, pen, invoice)
    write_orders(firm, pen)
    write_bills(firm, pen)
    for ticket in firm.tickets.values():
        if ticket.customer:
            write_support(firm, pen, ticket)
    write_leaves(firm, pen)
    write_deals(firm, pen)
    write_projects(firm, pen)
    write_incidents(firm, pen)
    write_expenses(firm, pen)
    firm.mails.sort(key=lambda mail: (mail.at, mail.id))


def billing_clerk(firm: Firm, day) -> str:
    """Who writes for receivables on a day: the specialist, or the delegate while the specialist is away."""
    clerk = firm.titled("Accounts Receivable Specialist")
    if not clerk.works_on(day):
        return firm.titled("Financial Controller").login
    leave = firm.away(clerk.login, day)
    if leave is None:
        return clerk.login
    return leave.delegate if firm.people[leave.delegate].works_on(day) else firm.titled("Financial Controller").login


def write_invoice(firm: Firm, pen: Pen, invoice: Invoice) -> None:
    customer = firm.customers[invoice.customer]
    number, total, due = invoice.number, euros(invoice.total_cents), short_date(invoice.due)
    first = pen.mail(
        at(invoice.day, pen.rng), billing_clerk(firm, invoice.day), [customer.payer.email], f"Invoice {number} from Northlight Systems",
        [
            (f"please find attached invoice {number} for {total}.", f"attached is our invoice {number} over {total}.", f"here is invoice {number}, total {total}.", f"your invoice {number} is attached; the total is {total}."),
            (f"It is for {invoice.about} and carries your order {invoice.order}.", f"Your reference is {invoice.order}, ours {invoice.about}.", f"It covers {invoice.about} (your order {invoice.order})."),
            (f"It is due on {due}.", f"Please pay by {due}.", f"Payment is due on {due}, {customer.terms_days} days from the invoice date."),
        ],
        cc=(FINANCE,),
    )  # fmt: skip
    if invoice.voided:
        pen.mail(
            at(invoice.voided, pen.rng), billing_clerk(firm, invoice.voided), [customer.payer.email], f"Re: {first.subject}",
            [(f"please disregard {number}: it is a {invoice.void_reason}, and we have voided it.", f"{number} was issued by mistake ({invoice.void_reason}). It is void, please do not pay it."), ("The other invoice stands.", "Only the original is to be paid.", "Sorry for the confusion.")],
            cc=(FINANCE,), thread=first.thread,
        )  # fmt: skip
        return
    chase_invoice(firm, pen, invoice, first.thread, first.subject)
    for payment in invoice.payments:
        paid = euros(payment.cents)
        pen.mail(
            at(payment.day, pen.rng), customer.payer.email, [FINANCE], f"Remittance {invoice.order}",
            [
                (f"we have paid {paid} for {number} today.", f"our payment of {paid} for your {number} left this morning.", f"remittance advice: {paid}, your {number}.", f"{paid} for {number} is on its way to your account."),
                (f"Our reference is {invoice.order}.", f"The transfer carries {invoice.order}.", f"You will see it under {payment.reference}."),
            ],
        )  # fmt: skip


def chase_invoice(firm: Firm, pen: Pen, invoice: Invoice, thread: str, subject: str) -> None:
    settled = invoice.payments[-1].day if invoice.payments and not invoice.open_cents else TODAY
    owed = invoice.total_cents if not invoice.payments else None
    payer = firm.customers[invoice.customer].payer.email
    for round_number, days in enumerate((7, 21), start=1):
        day = weekday(invoice.due + timedelta(days=days))
        if day >= settled or day >= TODAY or owed is None:
            return
        pen.mail(
            at(day, pen.rng), billing_clerk(firm, day), [payer], f"Re: {subject}",
            [
                (f"our invoice {invoice.number} over {euros(owed)} was due on {short_date(invoice.due)} and is still open.", f"we have not seen a payment for {invoice.number} ({euros(owed)}), which was due on {short_date(invoice.due)}.", f"{invoice.number} for {euros(owed)} is overdue since {short_date(invoice.due)}."),
                ("Could you let us know when we can expect it?", "Is anything missing on your side?", "Please arrange the transfer this week.") if round_number == 1 else ("This is our second reminder.", "We wrote about this two weeks ago.", "After 45 days we have to put the account on hold."),
            ],
            cc=(FINANCE,), thread=thread,
        )  # fmt: skip


def write_orders(firm: Firm, pen: Pen) -> None:
    for order in firm.orders.values():
        supplier = firm.suppliers[order.supplier]
        goods = ", ".join(f"{line.quantity} x {line.text}" for line in order.lines)
        first = pen.mail(
            at(order.day, pen.rng, 8, 14), order.requester, [order.approver], f"Approval needed: {order.number} {supplier.name}",
            [
                (f"please approve {order.number} to {supplier.name}, {euros(order.cents)} before VAT.", f"I need your approval for {order.number}: {supplier.name}, {euros(order.cents)} net.", f"{order.number} is waiting for you: {euros(order.cents)} net to {supplier.name}."),
                (f"It is for {goods}.", f"Items: {goods}.", f"We would order {goods}."),
                (f"Reason: {order.reason}.", f"Why now: {order.reason}.", f"Background: {order.reason}."),
            ],
            cc=(BUYING,),
        )  # fmt: skip
        if order.status == "rejected":
            pen.mail(at(weekday(order.day + timedelta(days=1)), pen.rng), order.approver, [order.requester], f"Re: {first.subject}", [(f"not this one: {order.number} is rejected.", f"I do not approve {order.number}."), ("The budget for this quarter is used up.", "Please get a second quote first.", "Let us talk about it in the next one-to-one.")], cc=(BUYING,), thread=first.thread)  # fmt: skip
        elif order.approved:
            moment = max(at(order.approved, pen.rng, 14, 18), first.at + timedelta(minutes=20))
            pen.mail(moment, order.approver, [order.requester], f"Re: {first.subject}", [(f"approved: {order.number}, {euros(order.cents)}.", f"fine with me, go ahead with {order.number}.", f"{order.number} is approved.", f"yes, please order ({order.number})."), ("Please tell me when it arrives.", "Keep an eye on the delivery date.", "Thanks for the details.", "Ask them about a volume discount next time.")], cc=(BUYING,), thread=first.thread)  # fmt: skip


def write_bills(firm: Firm, pen: Pen) -> None:
    for bill in firm.bills.values():
        supplier = firm.suppliers[bill.supplier]
        about = f"order {bill.order}" if bill.order else bill.lines[0].text
        pen.mail(
            at(bill.day, pen.rng), supplier.contact.email, [FINANCE], f"{supplier.name}: invoice {bill.reference}",
            [
                (f"our invoice {bill.reference} for {about} is attached, {euros(bill.total_cents)} in total.", f"please find our invoice {bill.reference} ({about}): {euros(bill.total_cents)}.", f"invoice {bill.reference}, {about}, {euros(bill.total_cents)} including VAT."),
                (f"It is due on {short_date(bill.due)}.", f"Terms: {supplier.terms_days} days, so {short_date(bill.due)}.", f"Payable by {short_date(bill.due)}."),
            ],
        )  # fmt: skip


def write_support(firm: Firm, pen: Pen, ticket: Ticket) -> None:
    subject = ticket.summary.partition(": ")[2]
    first = pen.mail(
        ticket.created, ticket.reporter, [SUPPORT], subject,
        [(ticket.body,), ("Can you have a look?", "It is rather urgent for us.", "No hurry, but this week would be good.", "What should we do?", "Please call me if you need more.", "We depend on it for the audit.")],
    )  # fmt: skip
    for note in ticket.comments:
        if note.text.startswith("solved: "):
            words = note.text.removeprefix("solved: ")
            pen.mail(note.at + timedelta(minutes=2), note.author, [ticket.reporter], f"Re: [{ticket.key}] {subject}", [(f"good news on {ticket.key}: {words}.", f"{ticket.key} should be settled now: {words}.", f"we have found it ({ticket.key}): {words}."), ("Please tell us if you still see it.", "I close the ticket; an answer reopens it.", "Thank you for your patience.")], cc=(SUPPORT,), thread=first.thread)  # fmt: skip
        else:
            pen.mail(note.at + timedelta(minutes=1), note.author, [ticket.reporter], f"Re: [{ticket.key}] {subject}", [(f"thank you for writing; your ticket is {ticket.key}.", f"I have opened {ticket.key} for this.", f"this is {ticket.key} on our side, and I am looking at it."), ("I come back to you today.", "Which site is it?", "Could you send a screenshot?", "We look at the logs first.")], cc=(SUPPORT,), thread=first.thread)  # fmt: skip


def write_leaves(firm: Firm, pen: Pen) -> None:
    for leave in firm.leaves:
        person, cover = firm.people[leave.person], firm.people[leave.delegate]
        if not person.works_on(leave.asked) or leave.person == leave.approver:
            continue
        first = pen.mail(
            at(leave.asked, pen.rng, 8, 13), leave.person, [leave.approver], f"{leave.kind.capitalize()} {leave.first:%d.%m.} to {leave.last:%d.%m.%Y}",
            [
                (f"I would like to take {leave.kind} from {short_date(leave.first)} to {short_date(leave.last)}.", f"could I be away from {short_date(leave.first)} until {short_date(leave.last)} ({leave.kind})?", f"request for {leave.kind}: {short_date(leave.first)} to {short_date(leave.last)}."),
                (f"{cover.name} covers for me.", f"My delegate is {cover.name}.", f"{cover.name} has agreed to stand in."),
            ],
            cc=(PEOPLE,),
        )  # fmt: skip
        pen.mail(first.at + timedelta(hours=3, minutes=pen.rng.randrange(50)), leave.approver, [leave.person], f"Re: {first.subject}", [(f"approved, {leave.id}.", f"that works, enjoy ({leave.id}).", f"fine. HR has it as {leave.id}."), (f"Please hand over to {cover.first} before you go.", f"Make sure {cover.first} has access to what is needed.", "Put it in the calendar, please.")], cc=(PEOPLE,), thread=first.thread)  # fmt: skip


def write_deals(firm: Firm, pen: Pen) -> None:
    for deal in firm.deals.values():
        customer = firm.customers[deal.customer]
        amount = euros(deal.amount_cents)
        what = deal.name if deal.name.startswith("Lumen") else deal.name[0].lower() + deal.name[1:]
        first = pen.mail(
            at(deal.opened, pen.rng), deal.owner, [customer.user.email], f"{deal.name} - our offer {deal.id}",
            [
                (f"as discussed, our offer {deal.id} for {what} comes to {amount} net.", f"here is the offer for {what}: {amount} before VAT, reference {deal.id}.", f"attached is {deal.id}, {what}, {amount} net."),
                ("It is valid for thirty days.", "Shall we go through it on Thursday?", "I am glad to explain the options.", "Let me know who else should see it."),
            ],
            cc=(SALES,),
        )  # fmt: skip
        if deal.stage == "closedwon":
            pen.mail(at(deal.close, pen.rng), customer.user.email, [firm.people[deal.owner].email], f"Re: {first.subject}", [(f"we accept {deal.id}. Please go ahead.", f"good news, {deal.id} is signed on our side.", f"the board agreed to {deal.id}."), ("Who is our contact for the installation?", "Please send the invoice to accounts payable.", "When can you start?")], cc=(SALES,), thread=first.thread)  # fmt: skip
        elif deal.stage == "closedlost":
            pen.mail(at(deal.close, pen.rng), customer.user.email, [firm.people[deal.owner].email], f"Re: {first.subject}", [(f"we will not go ahead with {deal.id}.", f"I am sorry, the answer on {deal.id} is no."), (f"The reason is simple: {deal.reason}.", f"In short: {deal.reason}.")], cc=(SALES,), thread=first.thread)  # fmt: skip


def write_projects(firm: Firm, pen: Pen) -> None:
    for project in firm.projects.values():
        for step in project.milestones:
            if step.done:
                late = (step.done - step.due).days
                when = f"{late} days late" if late > 0 else "on time"
                pen.mail(
                    at(step.done, pen.rng, 15, 18), project.lead, [project.sponsor], f"Status {project.name.split(':')[0]}: {step.name}",
                    [
                        (f"{step.name} is done, {when} (planned {short_date(step.due)}, done {short_date(step.done)}).", f"we reached `{step.name}` on {short_date(step.done)}, {when}.", f"milestone `{step.name}`: done on {short_date(step.done)}, {when}."),
                        (f"The budget is {euros(project.budget_cents)}, no change.", f"Largest risk at the moment: {project.risk}.", f"We watch one thing: {project.risk}."),
                    ],
                    cc=tuple(project.members[1:]),
                )  # fmt: skip


def write_incidents(firm: Firm, pen: Pen) -> None:
    lead = firm.titled("Support Lead")
    for incident in firm.incidents.values():
        if incident.severity == "SEV3":
            continue
        for name in incident.customers:
            pen.mail(
                incident.resolved + timedelta(minutes=30 + pen.rng.randrange(60)), lead.login, [firm.customers[name].user.email], f"Service notice {incident.id}",
                [
                    (f"on {short_date(incident.started.date())} our service `{incident.service}` was disturbed for {incident.minutes} minutes.", f"our service `{incident.service}` did not work as it should for {incident.minutes} minutes on {short_date(incident.started.date())}."),
                    ("It works again, and no readings were lost.", "The cause is removed.", "All systems are back to normal."),
                    ("We are sorry for the trouble.", "A report follows on request.", "Thank you for your patience."),
                ],
                cc=(SUPPORT,),
            )  # fmt: skip


def write_expenses(firm: Firm, pen: Pen) -> None:
    for expense in firm.expenses.values():
        first = pen.mail(at(expense.day, pen.rng, 15, 18), expense.person, [expense.approver], f"Expense {expense.id}", [(f"{expense.id}: {expense.merchant}, {euros(expense.cents)}, {expense.purpose}.", f"please approve {expense.id}, {euros(expense.cents)} for {expense.merchant} ({expense.purpose}).", f"one expense from me, {expense.id}: {euros(expense.cents)}, {expense.merchant}, {expense.purpose}."), ("The receipt is attached.", "Receipt is in the tool.", "I have the paper receipt here.")], cc=(FINANCE,))  # fmt: skip
        if expense.approved:
            moment = max(
                at(expense.approved, pen.rng), first.at + timedelta(minutes=30), datetime.combine(expense.approved, time(8))
            )
            pen.mail(moment, expense.approver, [expense.person], f"Re: {first.subject}", [(f"ok, {expense.id} is approved.", f"approved ({expense.id}).", f"{expense.id}: fine."), ("It goes out with the next run.", "Payroll pays it at the end of the month.", "Thanks.")], cc=(FINANCE,), thread=first.thread)  # fmt: skip
