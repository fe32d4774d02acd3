"""The firm's history put into the apps: the base state that every task starts from."""
# ruff: noqa: E501 - records, wordings and tables stand on one line

import json
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from sandlot.apps import load_calendar, load_chat, load_crm, load_directory, load_wiki

from .chatter import CHANNELS
from .hands import DESK
from .people import START, TODAY
from .records import Firm, euros
from .supply import ACCOUNTS
from .trades.hr import pay_of

NOW = datetime.combine(TODAY, time(9, 0))
LISTS = ("finance", "support", "sales", "people", "it", "purchasing", "everyone")
PROJECTS = {
    "SUP": "Support",
    "ENG": "Engineering",
    "IT": "IT service desk",
    "PO": "Purchase orders",
    "EXP": "Expenses",
}
ORDER_STEPS = ("Awaiting approval", "Approved", "Ordered", "Received", "Rejected")


def stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds") + "Z"


def fill_apps(firm: Firm, apps: Any) -> None:
    apps.clock.set(stamp(NOW))
    apps.actor = DESK
    for name, fill in FILLERS.items():
        if name in apps:
            fill(firm, apps[name])


# -- mail --------------------------------------------------------------------------------------------------------------


def fill_mail(firm: Firm, app: Any) -> None:
    app.insert("account", email=DESK, name="Operations Desk")
    for name in LISTS:
        app.insert("account", email=f"{name}@northlight.example", name=f"{name.capitalize()} (list)")
    for person in firm.people.values():
        if person.left is None:
            app.insert("account", email=person.email, name=person.name)
    names = {person.email: person.name for person in firm.people.values()}
    names |= {contact.email: contact.name for customer in firm.customers.values() for contact in customer.contacts}
    names |= {supplier.contact.email: supplier.contact.name for supplier in firm.suppliers.values()}
    last: dict[str, str] = {}
    for mail in firm.mails:
        header = f"<{mail.id}@northlight.example>"
        content = app.insert(
            "content", header_id=header, in_reply_to=last.get(mail.thread), sender=mail.sender, sender_name=names.get(mail.sender, ""),
            to_list=", ".join(mail.to), cc_list=", ".join(mail.cc), bcc_list="", subject=mail.subject, body=mail.body, html=None, at=stamp(mail.at),
        )  # fmt: skip
        last[mail.thread] = header
        app.insert(
            "message", id=f"18f{int(mail.id[1:]):013x}", owner=DESK, thread=f"18f{int(mail.thread[1:]):013x}", content=content
        )
        if mail.at > NOW - timedelta(days=10):
            app.insert("message_label", message=f"18f{int(mail.id[1:]):013x}", label="INBOX")


# -- tickets -----------------------------------------------------------------------------------------------------------


def fill_tickets(firm: Firm, app: Any) -> None:
    app.insert("person", account_id="desk", display_name="Operations Desk", email=DESK, active=1)
    for person in firm.people.values():
        app.insert(
            "person", account_id=person.login, display_name=person.name, email=person.email, active=int(person.left is None)
        )
    for number, (key, name) in enumerate(PROJECTS.items(), start=10000):
        app.insert("project", key=key, id=str(number), name=name, next_number=1)
    for number, name in enumerate(ORDER_STEPS, start=10100):
        category = "Done" if name in {"Received", "Rejected"} else "To Do" if name == "Awaiting approval" else "In Progress"
        app.insert("status", id=str(number), name=name, category=category, color="green" if category == "Done" else "yellow")
        app.insert("transition", id=str(number - 10000), project="PO", name=name, to_status=name)
    for version in firm.releases.values():
        app.insert(
            "version",
            id=f"v{version.version}",
            project="ENG",
            name=version.version,
            release_date=str(version.day),
            released=int(version.status == "released"),
        )
    for ticket in firm.tickets.values():
        who = "" if ticket.reporter in firm.people else f"\n\nReported by {ticket.reporter} by mail."
        fields = {
            "type": ticket.kind if ticket.kind in {"Bug", "Story", "Task", "Incident"} else "Service Request", "summary": ticket.summary,
            "description": ticket.body + who, "status": ticket.status, "priority": ticket.priority, "assignee": ticket.assignee,
            "reporter": ticket.reporter if ticket.reporter in firm.people else None, "created": stamp(ticket.created),
            "resolved": stamp(ticket.closed) if ticket.closed else None, "resolution": "Done" if ticket.closed else None,
        }  # fmt: skip
        add_issue(app, ticket.key, fields, [(note.author, note.text, stamp(note.at)) for note in ticket.comments])
        for label in ticket.labels:
            app.insert("issue_label", issue=ticket.key, label=label)
        if ticket.version:
            app.insert("issue_version", issue=ticket.key, version=ticket.version, kind="fix")
    fill_orders(firm, app)
    for key in PROJECTS:
        app.run("UPDATE project SET next_number = 1 + (SELECT max(number) FROM issue WHERE project = ?) WHERE key = ?", key, key)


def add_issue(app: Any, key: str, fields: dict[str, Any], comments: list[tuple[str, str, str]]) -> None:
    project, number = key.split("-")
    updated = comments[-1][2] if comments else fields["created"]
    app.insert("issue", key=key, project=project, number=int(number), updated=updated, **fields)
    for author, text, when in comments:
        app.insert("comment", issue=key, author=author, body=text, created=when, updated=when)


def fill_orders(firm: Firm, app: Any) -> None:
    """Purchase orders and expenses are tickets too."""
    for order in firm.orders.values():
        supplier = firm.suppliers[order.supplier]
        lines = "\n".join(f"- {line.quantity} x {line.text} at {euros(line.unit_cents)}" for line in order.lines)
        text = f"Supplier: {supplier.name} ({supplier.id})\n{lines}\nNet total: {euros(order.cents)}\nRequester: {firm.people[order.requester].name}\nReason: {order.reason}"
        status = {"received": "Received", "ordered": "Ordered", "rejected": "Rejected"}.get(order.status, "Awaiting approval")
        notes = []
        if order.approved:
            notes.append(
                (order.approver, f"Approved, {euros(order.cents)} net.", stamp(datetime.combine(order.approved, time(16, 30))))
            )
        if order.received:
            notes.append(
                (
                    firm.titled("Warehouse Coordinator").login,
                    f"Received complete on {order.received}.",
                    stamp(datetime.combine(order.received, time(11, 0))),
                )
            )
        fields = {
            "type": "Task", "summary": f"{supplier.name}: {order.lines[0].text}", "description": text, "status": status, "priority": "Medium",
            "assignee": order.approver if status == "Awaiting approval" else order.requester, "reporter": order.requester,
            "created": stamp(datetime.combine(order.day, time(9, 30))), "resolved": None, "resolution": None,
        }  # fmt: skip
        add_issue(app, order.number, fields, notes)
    for expense in firm.expenses.values():
        text = f"Merchant: {expense.merchant}\nCategory: {expense.category}\nDate: {expense.day}\nAmount: {euros(expense.cents)}\nPurpose: {expense.purpose}"
        status = "Done" if expense.paid else "In Progress" if expense.approved else "To Do"
        notes = (
            [(expense.approver, "Approved.", stamp(datetime.combine(expense.approved, time(10, 0))))] if expense.approved else []
        )
        fields = {
            "type": "Task", "summary": f"{expense.merchant}, {expense.category}, {euros(expense.cents)}", "description": text, "status": status,
            "priority": "Low", "assignee": expense.approver, "reporter": expense.person, "created": stamp(datetime.combine(expense.day, time(15, 45))),
            "resolved": None, "resolution": None,
        }  # fmt: skip
        add_issue(app, expense.id, fields, notes)


# -- books -------------------------------------------------------------------------------------------------------------


def guid(kind: int, number: int) -> str:
    return f"{kind:08x}-0000-4000-8000-{number:012x}"


BANK = guid(9, 90)


def fill_accounting(firm: Firm, app: Any) -> None:
    app.run(
        "UPDATE organisation SET name = 'Northlight Systems', legal_name = 'Northlight Systems Ltd', short_code = '!north', country = 'IE'"
    )
    app.run("UPDATE organisation SET next_invoice = ?, created = '2020-01-06'", 1 + max(int(name[4:]) for name in firm.invoices))
    for code, (name, kind) in ACCOUNTS.items():
        if code not in {"610", "800", "820"}:
            app.insert("account", id=BANK if code == "090" else guid(9, int(code)), code=code, name=name, type=kind)
    app.insert("tax_rate", type="OUTPUT23", name="23% (VAT on Income)", rate="23")
    app.insert("tax_rate", type="INPUT23", name="23% (VAT on Expenses)", rate="23")
    updated = stamp(datetime.combine(START, time(8)))
    for customer in firm.customers.values():
        add_contact(app, customer.name, customer.payer.name, customer.payer.email, "is_customer", updated)
    for supplier in firm.suppliers.values():
        add_contact(app, supplier.name, supplier.contact.name, supplier.contact.email, "is_supplier", updated)
    documents = [(invoice.day, "ACCREC", invoice) for invoice in firm.invoices.values()] + [
        (bill.day, "ACCPAY", bill) for bill in firm.bills.values()
    ]
    for _, kind, document in sorted(documents, key=lambda each: (each[0], each[2].number)):
        add_document(firm, app, kind, document)


def add_contact(app: Any, name: str, person: str, email: str, kind: str, updated: str) -> None:
    first, last = person.split()
    number = 1 + app.value("SELECT count(*) FROM contact")
    app.insert(
        "contact", id=guid(3, number), name=name, first_name=first, last_name=last, email=email, updated=updated, **{kind: 1}
    )


def add_document(firm: Firm, app: Any, kind: str, document: Any) -> None:
    sale = kind == "ACCREC"
    party = firm.customers[document.customer] if sale else firm.suppliers[document.supplier]
    contact = app.value("SELECT id FROM contact WHERE name = ?", party.name)
    tax = ("OUTPUT23" if sale else "INPUT23") if party.vat_rate else "NONE"
    number = document.number if sale else document.reference
    name = guid(1 if sale else 2, int(document.number.split("-")[1]))
    paid = sum(payment.cents for payment in document.payments)
    moments = [
        document.day,
        *(payment.day for payment in document.payments),
        *([document.voided] if sale and document.voided else []),
    ]
    app.insert(
        "invoice", id=name, number=number, type=kind, contact=contact, date=str(document.day), due_date=str(document.due), status=document.status,
        reference=document.order if sale else document.order or document.number, subtotal=document.net_cents, tax=document.vat_cents, total=document.total_cents,
        paid=paid, fully_paid_on=str(document.payments[-1].day) if document.status == "PAID" else None, updated=stamp(datetime.combine(max(moments), time(17))),
    )  # fmt: skip
    left = document.vat_cents
    for place, line in enumerate(document.lines):
        own = left if place == len(document.lines) - 1 else (line.cents * party.vat_rate + 50) // 100
        left -= own
        app.insert(
            "line",
            document=name,
            position=place,
            description=line.text,
            quantity=str(line.quantity),
            unit_amount=f"{line.unit_cents / 100:.2f}",
            account=line.account,
            tax_type=tax,
            amount=line.cents,
            tax=own,
        )
    if document.status != "VOIDED":
        sign = 1 if sale else -1
        entries = [
            ("610" if sale else "800", sign * document.total_cents),
            ("820", -sign * document.vat_cents),
            *((line.account, -sign * line.cents) for line in document.lines),
        ]
        for account, cents in entries:
            if cents:
                app.insert(
                    "ledger_entry",
                    source=name,
                    kind="invoice",
                    date=str(document.day),
                    account=account,
                    amount=cents,
                    contact=contact,
                )
    for place, payment in enumerate(document.payments):
        own_id = guid(5 if sale else 6, int(document.number.split("-")[1]) * 10 + place)
        app.insert(
            "payment",
            id=own_id,
            invoice=name,
            account=BANK,
            amount=payment.cents,
            date=str(payment.day),
            reference=payment.reference,
            status="AUTHORISED",
            updated=stamp(datetime.combine(payment.day, time(17))),
        )
        sign = 1 if sale else -1
        for account, cents in (("090", sign * payment.cents), ("610" if sale else "800", -sign * payment.cents)):
            app.insert(
                "ledger_entry",
                source=own_id,
                kind="payment",
                date=str(payment.day),
                account=account,
                amount=cents,
                contact=contact,
            )


def add_bill(app: Any, bill: dict[str, Any], number: int) -> None:
    """A bill that a case adds."""
    contact = app.value("SELECT id FROM contact WHERE name = ?", bill["supplier"])
    name = guid(7, number)
    app.insert(
        "invoice",
        id=name,
        number=bill["number"],
        type="ACCPAY",
        contact=contact,
        date=bill["date"],
        due_date=bill["due"],
        status="AUTHORISED",
        reference=bill["order"],
        subtotal=bill["net"],
        tax=bill["vat"],
        total=bill["net"] + bill["vat"],
        updated=stamp(NOW - timedelta(hours=20)),
    )
    app.insert(
        "line",
        document=name,
        position=0,
        description=f"Delivery on {bill['order']}",
        quantity="1",
        unit_amount=f"{bill['net'] / 100:.2f}",
        account="310",
        tax_type="INPUT23" if bill["vat"] else "NONE",
        amount=bill["net"],
        tax=bill["vat"],
    )
    for account, cents in (("800", -bill["net"] - bill["vat"]), ("820", bill["vat"]), ("310", bill["net"])):
        if cents:
            app.insert(
                "ledger_entry", source=name, kind="invoice", date=bill["date"], account=account, amount=cents, contact=contact
            )


# -- chat --------------------------------------------------------------------------------------------------------------


def fill_chat(firm: Firm, app: Any) -> None:
    staff = [{"email": person.email, "real_name": person.name, "title": person.title} for person in firm.people.values()]
    emails = [DESK, *(person["email"] for person in staff)]
    load_chat(
        app,
        members=[{"email": DESK, "real_name": "Operations Desk", "title": "Operations"}, *staff],
        channels=[{"name": name, "members": emails, "purpose": purpose} for name, purpose in CHANNELS.items()],
        messages=[
            {
                "sender": firm.people[post.who].email,
                "channel": f"#{post.channel}",
                "text": post.text,
                "at": stamp(post.at),
                "key": post.id,
                "thread": post.thread or "",
            }
            for post in firm.posts
        ],
    )
    founded = datetime(2024, 5, 6, 9, 0, tzinfo=UTC)  # before the first message
    app.run("UPDATE channel SET created = ?", int(founded.timestamp()))


def add_posts(app: Any, posts: list[dict[str, Any]]) -> None:
    messages = []
    for number, post in enumerate(posts):
        thread = f"t{post['thread']}" if post["thread"] is not None else ""
        messages.append(
            {
                "sender": f"{post['who']}@northlight.example",
                "channel": f"#{post['channel']}",
                "text": post["text"],
                "at": post["at"],
                "key": f"t{number}",
                "thread": thread,
            }
        )
    load_chat(app, members=(), messages=messages)


# -- calendar ----------------------------------------------------------------------------------------------------------


def fill_calendar(firm: Firm, app: Any) -> None:
    """The desk keeps the firm's calendar: it organises all meetings, and each shows in the calendars of its guests."""
    owners = {DESK: "Operations Desk"} | {person.email: person.name for person in firm.people.values() if person.left is None}
    events = []
    for meeting in firm.meetings:
        guests = [firm.people[each].email if each in firm.people else each for each in meeting.guests]
        host = firm.people[meeting.organiser].name
        times = {"start": stamp(meeting.start), "end": stamp(meeting.end)}
        answer = "accepted" if meeting.start < NOW else "needsAction"
        events.append(
            {
                "calendar": DESK,
                "id": meeting.id,
                "summary": meeting.title,
                "attendees": [{"email": each, "responseStatus": answer} for each in guests],
                "location": meeting.room or None,
                "description": f"Host: {host}",
                **times,
            }
        )
    for leave in firm.leaves:
        if leave.last >= TODAY - timedelta(days=60):
            person = firm.people[leave.person]
            if person.left is None:
                events.append(
                    {
                        "calendar": person.email,
                        "summary": f"On leave, delegate: {firm.people[leave.delegate].name}",
                        "start": str(leave.first),
                        "end": str(leave.last + timedelta(days=1)),
                    }
                )
    load_calendar(app, owners=owners, events=events)
    made = "min(strftime('%Y-%m-%dT10:00:00Z', start, '-14 days'), ?)"
    app.run(f"UPDATE event SET created = {made}, updated = {made}", *[stamp(NOW - timedelta(days=1))] * 2)  # noqa: S608 - no value of others
    for email in owners:
        if email != DESK:
            app.run("INSERT OR REPLACE INTO access VALUES (?, ?, 'writer')", email, DESK)


# -- directory ---------------------------------------------------------------------------------------------------------


def fill_directory(firm: Firm, app: Any) -> None:
    people = [
        {
            "email": person.email, "first_name": person.name.split()[0], "last_name": person.name.split()[1], "title": person.title, "department": person.team,
            "manager": firm.people[person.manager].email if person.manager else None, "hired": str(person.started), "is_hr": person.team == "People", "pay": float(pay_of(firm, person)),
        }
        for person in firm.people.values() if person.left is None
    ]  # fmt: skip
    desk = {
        "email": DESK,
        "first_name": "Operations",
        "last_name": "Desk",
        "title": "Operations desk",
        "department": "Operations",
        "hired": str(START),
        "is_hr": True,
    }
    away = [
        {"employee": firm.people[leave.person].email, "kind": "Vacation", "start": str(leave.first), "end": str(leave.last), "status": "approved", "note": f"Delegate: {firm.people[leave.delegate].name}"}
        for leave in firm.leaves if leave.last >= TODAY - timedelta(days=200) and firm.people[leave.person].left is None
    ]  # fmt: skip
    load_directory(app, employees=[desk, *people], time_off=away)


def add_person_rows(app: Any, row: dict[str, Any]) -> None:
    """A request for leave, or a new employee."""
    if "leave" in row:
        leave = row["leave"]
        first, last = date.fromisoformat(leave["start"]), date.fromisoformat(leave["end"])
        days = sum((first + timedelta(days=number)).weekday() < 5 for number in range((last - first).days + 1))
        person = app.value("SELECT id FROM employee WHERE email = ?", leave["person"])
        app.insert(
            "time_off",
            employee=person,
            kind="Vacation",
            start=leave["start"],
            end=leave["end"],
            days=days,
            status=leave["status"],
            note=leave["note"],
            created=stamp(NOW - timedelta(days=1)),
        )
    else:
        app.insert("employee", title="", location="", phone="", manager=None, **row["employee"])


# -- CRM ---------------------------------------------------------------------------------------------------------------


def fill_crm(firm: Firm, app: Any) -> None:
    sellers = {DESK: ("Operations", "Desk")} | {
        person.email: tuple(person.name.split()) for person in firm.people.values() if person.team in {"Sales", "Support"}
    }
    sellers |= {firm.people[deal.owner].email: tuple(firm.people[deal.owner].name.split()) for deal in firm.deals.values()}
    owners = [
        {"email": email, "first_name": first, "last_name": last, "id": 7_200_000 + number}
        for number, (email, (first, last)) in enumerate(sorted(sellers.items()))
    ]
    companies, contacts, deals = [], [], []
    for customer in firm.customers.values():
        made = stamp(datetime.combine(customer.since - timedelta(days=100), time(10)))
        stage = "other" if customer.churned else "customer"
        companies.append(
            {
                "ref": customer.id,
                "name": customer.name,
                "domain": customer.domain,
                "country": customer.country,
                "lifecyclestage": stage,
                "owner": firm.people[customer.owner].email,
                "created": made,
                "description": f"{customer.id}. Segment: {customer.segment}. Success manager: {firm.people[customer.csm].name}.",
            }
        )
        for contact in customer.contacts:
            first, last = contact.name.split()
            contacts.append(
                {
                    "firstname": first,
                    "lastname": last,
                    "email": contact.email,
                    "company": customer.name,
                    "jobtitle": contact.role,
                    "primary": customer.id,
                    "created": made,
                }
            )
    for deal in firm.deals.values():
        customer = firm.customers[deal.customer]
        made, closed = datetime.combine(deal.opened, time(11)), datetime.combine(deal.close, time(0))
        deals.append(
            {
                "ref": deal.id,
                "dealname": f"{deal.id} {deal.name} ({customer.name})",
                "amount": f"{deal.amount_cents / 100:.2f}",
                "dealstage": deal.stage,
                "closedate": stamp(closed),
                "closed_lost_reason": deal.reason or None,
                "owner": firm.people[deal.owner].email,
                "primary": customer.id,
                "created": stamp(made),
            }
        )
    load_crm(app, {"owners": owners, "companies": companies, "contacts": contacts, "deals": deals})


def change_deal(app: Any, row: dict[str, Any]) -> None:
    number = app.value("SELECT object FROM property_value WHERE name = 'dealname' AND value LIKE ?", f"{row['deal']} %")
    app.run("UPDATE property_value SET value = ? WHERE object = ? AND name = ?", row["value"], number, row["property"])


# -- wiki --------------------------------------------------------------------------------------------------------------

SPACES = {
    "OPS": "Operations",
    "FIN": "Finance",
    "SAL": "Sales",
    "SUP": "Support",
    "ENG": "Engineering",
    "PPL": "People",
    "IT": "IT",
}


def fill_wiki(firm: Firm, app: Any) -> None:
    people = [{"display_name": "Operations Desk", "email": DESK, "account_id": "desk"}]
    people += [
        {"display_name": person.name, "email": person.email, "account_id": person.login} for person in firm.people.values()
    ]
    load_wiki(
        app,
        {
            "people": people,
            "spaces": [{"key": key, "name": name} for key, name in SPACES.items()],
            "pages": [
                {
                    "space": page.space,
                    "title": page.title,
                    "content": page.body,
                    "author": firm.people[page.author].email,
                    "created": stamp(page.updated),
                }
                for page in sorted(firm.pages, key=lambda page: (page.space, page.created, page.title))
            ],
        },
    )


FILLERS = {
    "wiki": fill_wiki,
    "crm": fill_crm,
    "directory": fill_directory,
    "calendar": fill_calendar,
    "mail": fill_mail,
    "tickets": fill_tickets,
    "accounting": fill_accounting,
    "chat": fill_chat,
}


# -- what a task adds --------------------------------------------------------------------------------------------------


def add_arrivals(apps: Any, data: dict[str, Any]) -> None:
    """What came in this morning: mails, and rows of other apps."""
    for number, mail in enumerate(data.get("mails", ()), start=1):
        add_mail(apps["mail"], number, mail)
    for issue in data.get("issues", ()):
        fields = dict(issue["fields"])
        labels, versions = fields.pop("labels", ()), fields.pop("versions", ())
        add_issue(apps["tickets"], issue["key"], fields, [tuple(each) for each in issue["comments"]])
        for label in labels:
            apps["tickets"].insert("issue_label", issue=issue["key"], label=label)
        for version in versions:
            apps["tickets"].insert("issue_version", issue=issue["key"], version=version, kind="fix")
        project = issue["key"].split("-")[0]
        apps["tickets"].run(
            "UPDATE project SET next_number = 1 + (SELECT max(number) FROM issue WHERE project = ?) WHERE key = ?",
            project,
            project,
        )
    for number, bill in enumerate(data.get("bills", ()), start=1):
        add_bill(apps["accounting"], bill, number)
    if data.get("posts"):
        add_posts(apps["chat"], data["posts"])
    for row in data.get("rows", ()):
        if row["app"] == "directory":
            add_person_rows(apps["directory"], row)
        elif row["app"] == "crm":
            change_deal(apps["crm"], row)
        else:
            apps[row["app"]].insert(row["table"], **row["values"])
    for change in data.get("updates", ()):
        names = ", ".join(f"{name} = ?" for name in change["set"])
        where = " AND ".join(f"{name} = ?" for name in change["where"])
        sql = f"UPDATE {change['table']} SET {names} WHERE {where}"  # noqa: S608 - tables and columns are ours
        done = apps[change["app"]].run(sql, *change["set"].values(), *change["where"].values())
        assert done, f"nothing fits {json.dumps(change)}"


def add_mail(app: Any, number: int, mail: dict[str, Any]) -> None:
    content = app.insert(
        "content", header_id=f"<new{number}@{mail['sender'].partition('@')[2]}>", in_reply_to=None, sender=mail["sender"], sender_name=mail.get("name", ""),
        to_list=", ".join(mail["to"]), cc_list=", ".join(mail.get("cc", ())), bcc_list="", subject=mail["subject"], body=mail["body"], html=None,
        at=mail.get("at") or stamp(NOW - timedelta(minutes=90 - number)),
    )  # fmt: skip
    name = f"19a{number:013x}"
    app.insert("message", id=name, owner=DESK, thread=name, content=content)
    for label in ("INBOX", "UNREAD"):
        app.insert("message_label", message=name, label=label)
