"""Report writing: figures from several systems, on a wiki page or in a mail, and right."""
# ruff: noqa: E501 - a wording stands on one line

import re
from collections.abc import Iterator
from datetime import date, datetime
from random import Random
from typing import Any

from ..casework import Draft, Family
from ..hands import Hands
from ..people import TODAY
from ..records import Firm, euros
from .finance import of, open_of
from .support import active, open_tickets

# -- account brief -----------------------------------------------------------------------------------------------------


def draft_brief(firm: Firm, rng: Random) -> Iterator[Draft]:
    fit = [c for c in active(firm) if open_of(firm, c) and any(t.customer == c.id for t in open_tickets(firm))]
    twins = [c for c in fit if c.name.split()[0] in {"Harbour", "Harbor", "Kestrel", "Aldermoor", "Brightwater", "Brightwell"}]
    for number in range(4):
        customer = rng.choice(twins) if twins and number % 2 == 0 else rng.choice([c for c in fit if c not in twins])
        owner = firm.people[customer.owner]
        contract = next(c for c in firm.contracts.values() if c.customer == customer.id)
        invoices = open_of(firm, customer)
        total = sum(invoice.open_cents for invoice in invoices)
        tickets = [t for t in open_tickets(firm) if t.customer == customer.id]
        hit = [i for i in firm.incidents.values() if customer.id in i.customers and i.started.year >= 2025]
        draft = Draft(
            f"{owner.name} visits {customer.name} tomorrow. Please write a brief as a wiki page in SAL with the title `Brief {customer.name} June 2026`: the contract (number, end, discount), the open invoices with their open amounts and the total, the open support tickets, and the incidents since January 2025 that affected them, with the minutes. Then send {owner.first} a mail with the open total and the number of open tickets, and the name of the page.",
            "hard" if number % 2 == 0 else "medium",
        )
        sheet = draft.sheet
        page = {"title": {"has": f"Brief {customer.name}"}, "space": "SAL"}
        sheet.made("page", "wiki", "page", page, {"body": {"fact": f"money:{total}"}})
        facts = {"contract": f"id:{contract.id}", "end": f"date:{contract.end}", "discount": f"number:{contract.discount}"}
        facts |= {invoice.number: f"id:{invoice.number}" for invoice in invoices} | {
            f"amount of {invoice.number}": f"money:{invoice.open_cents}" for invoice in invoices
        }
        facts |= (
            {ticket.key: f"id:{ticket.key}" for ticket in tickets}
            | {incident.id: f"id:{incident.id}" for incident in hit}
            | {f"minutes of {incident.id}": f"number:{incident.minutes}" for incident in hit}
        )
        for label, fact in facts.items():
            sheet.add(
                f"page: {label}",
                "record_has",
                1,
                ("page",),
                ("wiki",),
                kind="page",
                where=page,
                field="body",
                value={"fact": fact},
            )
        others = [t.key for t in firm.tickets.values() if t.customer == customer.id and t.status == "Done"][-6:] + [
            i.number for i in of(firm, customer) if i.voided or i.status == "PAID"
        ][-6:]
        sheet.add(
            "page: nothing closed, paid or voided",
            "record_has",
            2,
            ("page",),
            ("trap",),
            kind="page",
            where=page,
            field="body",
            value={"all": [{"lacks": name} for name in others]},
        )
        sheet.mail(
            "note",
            owner.email,
            says={
                "the total": f"money:{total}",
                "how many tickets": f"number:{len(tickets)}",
                "the page": f"word:Brief {customer.name}",
            },
            amounts=[total],
        )
        draft.key = {"customer": customer.name, "owner": owner.email, "contract": contract.id}
        yield draft


async def solve_brief(hands: Hands, key: dict[str, Any]) -> None:
    contract = await hands.page(f"Contract {key['contract']} {key['customer']}", "SAL")
    end, discount = hands.find(r"End: (\d+ \w+ \d{4})", contract), hands.find(r"Discount: (\d+) %", contract)
    rows = [row for row in await hands.invoices(key["customer"]) if row["status"] == "AUTHORISED" and row["open"] > 0]
    tickets = [
        each
        for each in await hands.issues(f'project = SUP AND summary ~ "{key["customer"]}" AND status != Done')
        if each["summary"].startswith(key["customer"] + ":")
    ]
    incidents = []
    for title in await hands.titles("Post-mortem", "ENG"):
        text = await hands.page(title, "ENG")
        hit, minutes, start = (
            hands.find(r"Customers affected: (.*?)\.", text),
            hands.find(r": (\d+) minutes", text),
            hands.find(r"Start (\d{4})", text),
        )
        if key["customer"] in hit.split(", ") and int(start) >= 2025:
            incidents.append(f"- {hands.find(r'INC-[0-9]+', title)}: {minutes} minutes")
    total = euros(sum(row["open"] for row in rows))
    body = (
        f"Contract {key['contract']}, until {end}, discount {discount} %.\n\nOpen invoices ({total}):\n"
        + "\n".join(f"- {row['number']}: {euros(row['open'])}" for row in rows)
        + "\n\nOpen tickets:\n"
        + "\n".join(f"- {each['key']} {each['summary'].partition(': ')[2]}" for each in tickets)
        + "\n\nIncidents since January 2025:\n"
        + ("\n".join(incidents) or "none")
    )
    title = f"Brief {key['customer']} June 2026"
    await hands.new_page("SAL", title, body)
    await hands.send(
        key["owner"], title, f"The page `{title}` is in the wiki (SAL). Open: {total}. Open tickets: {len(tickets)}."
    )
    await hands.say(f"The brief is written: {total} open, {len(tickets)} tickets.")


# -- project status ----------------------------------------------------------------------------------------------------


def draft_project(firm: Firm, rng: Random) -> Iterator[Draft]:
    running = [
        p
        for p in firm.projects.values()
        if any(step.done for step in p.milestones) and any(not step.done for step in p.milestones)
    ]
    for number, project in enumerate(running[:4]):
        sponsor, lead = firm.people[project.sponsor], firm.people[project.lead]
        answerer = lead if not firm.away(lead.login, TODAY) else firm.people[firm.away(lead.login, TODAY).delegate]
        done = [step for step in project.milestones if step.done]
        late = [step for step in done if step.done > step.due]
        following = next(step for step in project.milestones if not step.done)
        spent = project.budget_cents * rng.randrange(35, 80) // 100
        name = project.name.split(":")[0]
        draft = Draft(
            f"Please send {sponsor.name} the status of project {name} by mail: how many of the milestones are done, which were late and by how many days, the next milestone with its planned date, the largest risk, the budget and what is spent so far. The page has most of it; what is spent only {lead.first} knows (or the delegate, if {lead.first} is away). {lead.first} gets a copy.",
            "medium" if number % 2 else "hard",
        )
        draft.knows(
            answerer.email,
            (name, "spent|spend|cost|budget"),
            f"On {name} we have spent {euros(spent)} so far.",
            unsure="Which project, and which figure do you need?",
        )
        sheet = draft.sheet
        sheet.asked(answerer.name, answerer.email, [name, "spent"])
        says = {
            "how many are done": f"number:{len(done)}",
            "the next milestone": f"word:{following.name}",
            "its date": f"date:{following.due}",
            "the risk": f"word:{project.risk}",
            "the budget": f"money:{project.budget_cents}",
            "what is spent": f"money:{spent}",
        }
        for step in late:
            says |= {f"{step.name} was late": f"number:{(step.done - step.due).days} @ word:{step.name}"}
        on_time = [step for step in done if step not in late]
        sheet.mail(
            "status",
            sponsor.email,
            says=says,
            cc=(lead.email,),
            amounts=[project.budget_cents, spent, project.budget_cents - spent],
            after={"heard": answerer.email, "words": ["spent"]},
            fact_points=2,
        )
        sheet.kept("the page is left alone", "wiki", "page", [f"Project {project.name}"])
        sheet.add("report: what is spent", "answer_says", 1, ("status: sent",), fact=f"money:{spent}")
        assert on_time is not None
        draft.key = {
            "page": f"Project {project.name}",
            "name": name,
            "sponsor": sponsor.email,
            "lead": lead.email,
            "answerer": answerer.email,
        }
        yield draft


async def solve_project(hands: Hands, key: dict[str, Any]) -> None:
    page = await hands.page(key["page"], "OPS")
    await hands.history("people", 40)
    steps = re.findall(r"- ([A-Z][\w -]+): planned (\d+ \w+ \d{4}), (?:done (\d+ \w+ \d{4})|open)", page.replace("\\n", "\n"))
    done = [step for step in steps if step[2]]
    late = []
    for name, due, end in done:
        days = (datetime.strptime(end, "%d %B %Y") - datetime.strptime(due, "%d %B %Y")).days  # noqa: DTZ007 - days
        if days > 0:
            late.append(f"{name} was {days} days late")
    following = next(step for step in steps if not step[2])
    risk, budget = hands.find(r"Largest risk: (.*?)\.", page), hands.find(r"Budget: (€[\d,.]+\d)", page)
    answer = await hands.ask(
        key["answerer"], f"{key['name']}: spent so far", f"How much of the budget of {key['name']} is spent so far?"
    )
    spent = hands.find(r"€[\d,.]+\d", answer)
    text = f"Status of {key['name']}: {len(done)} milestones are done. {'; '.join(late) or 'None was late'}.\nNext: {following[0]}, planned for {following[1]}.\nLargest risk: {risk}.\nBudget: {budget}; spent so far: {spent}."
    await hands.send(key["sponsor"], f"Status {key['name']}", text, cc=(key["lead"],))
    await hands.say(f"The status is sent; spent so far: {spent}.")


# -- incidents of a period ---------------------------------------------------------------------------------------------


def draft_incidents(firm: Firm, rng: Random) -> Iterator[Draft]:
    chief = firm.titled("Chief Technology Officer")
    for number, (first, last, name) in enumerate(
        (
            (date(2025, 1, 1), date(2025, 6, 30), "first half of 2025"),
            (date(2025, 7, 1), date(2025, 12, 31), "second half of 2025"),
            (date(2024, 7, 1), date(2025, 6, 30), "year from July 2024 to June 2025"),
            (date(2025, 7, 1), date(2026, 5, 31), "eleven months from July 2025 to May 2026"),
        )
    ):
        found = [i for i in firm.incidents.values() if first <= i.started.date() <= last]
        total, worst = sum(i.minutes for i in found), max(found, key=lambda i: i.minutes)
        draft = Draft(
            f"Please write a wiki page in ENG, `Incident report {name}`: one line per incident that began in that time (number, severity, service, minutes), how many there were, how many of them SEV1, and the sum of the minutes. The post-mortems have the figures. Then send {chief.name} a mail with the number, the sum, and the longest one.",
            "medium" if number < 2 else "hard",
        )
        sheet = draft.sheet
        page = {"title": {"has": "Incident report"}, "space": "ENG"}
        sheet.made("page", "wiki", "page", page, {"body": {"fact": f"number:{total}"}})
        facts = {"how many": f"number:{len(found)}", "SEV1": f"number:{sum(i.severity == 'SEV1' for i in found)}"}
        for incident in found:
            facts |= {incident.id: f"id:{incident.id}", f"minutes of {incident.id}": f"number:{incident.minutes}"}
        for label, fact in facts.items():
            sheet.add(
                f"page: {label}",
                "record_has",
                1,
                ("page",),
                ("wiki",),
                kind="page",
                where=page,
                field="body",
                value={"fact": fact},
            )
        outside = [i.id for i in firm.incidents.values() if i not in found]
        sheet.add(
            "page: no incident of another time",
            "record_has",
            2,
            ("page",),
            ("trap",),
            kind="page",
            where=page,
            field="body",
            value={"all": [{"lacks": name} for name in outside]},
        )
        sheet.mail(
            "note",
            chief.email,
            says={
                "how many": f"number:{len(found)}",
                "the sum": f"number:{total}",
                "the longest": f"id:{worst.id}",
                "its minutes": f"number:{worst.minutes} @ id:{worst.id}",
            },
            ids={"INC": [worst.id]},
        )
        draft.key = {"first": str(first), "last": str(last), "name": name, "chief": chief.email}
        yield draft


async def solve_incidents(hands: Hands, key: dict[str, Any]) -> None:
    rows = []
    for title in await hands.titles("Post-mortem", "ENG"):
        text = await hands.page(title, "ENG")
        day = hands.find(r"Start (\d{4}-\d\d-\d\d)", text)
        if key["first"] <= day <= key["last"]:
            rows.append(
                (
                    hands.find(r"INC-\d+", title),
                    hands.find(r"Severity (SEV\d)", text),
                    hands.find(r"service (\w+)", text),
                    int(hands.find(r": (\d+) minutes", text)),
                )
            )
    total, worst = sum(row[3] for row in rows), max(rows, key=lambda row: row[3])
    body = "\n".join(f"- {name}, {severity}, {service}: {minutes} minutes" for name, severity, service, minutes in rows)
    body += f"\n\nIncidents: {len(rows)}, of them SEV1: {sum(row[1] == 'SEV1' for row in rows)}. Sum: {total} minutes."
    await hands.new_page("ENG", f"Incident report {key['name']}", body)
    await hands.send(
        key["chief"],
        f"Incident report {key['name']}",
        f"{len(rows)} incidents, {total} minutes in all. The longest was {worst[0]} with {worst[3]} minutes.",
    )
    await hands.say(f"The report is written: {len(rows)} incidents, {total} minutes.")


# -- spend -------------------------------------------------------------------------------------------------------------


def draft_spend(firm: Firm, rng: Random) -> Iterator[Draft]:
    chief = firm.titled("Chief Operating Officer")
    for number, (first, last, name) in enumerate(
        (
            (date(2026, 1, 1), date(2026, 3, 31), "the first quarter of 2026"),
            (date(2025, 10, 1), date(2025, 12, 31), "the last quarter of 2025"),
            (date(2026, 4, 1), date(2026, 5, 31), "April and May 2026"),
            (date(2025, 7, 1), date(2025, 9, 30), "the third quarter of 2025"),
        )
    ):
        sums = {
            s.name: sum(b.net_cents for b in firm.bills.values() if b.supplier == s.id and first <= b.day <= last)
            for s in firm.suppliers.values()
        }
        chosen = rng.sample([name for name, cents in sums.items() if cents], min(5, sum(cents > 0 for cents in sums.values())))
        twin = "Vernier Compliance" if "Vernier Components" in chosen else "Vernier Components"
        total = sum(sums[each] for each in chosen)
        draft = Draft(
            f"What did we buy from {', '.join(chosen)} in {name}? I need the net sum of the bills dated in that time for each of them, largest first, and the total, by mail. Paid or not does not matter.\n\n{chief.name}, {chief.title}",
            "easy" if number < 2 else "medium",
        )
        sheet = draft.sheet
        ranked = sorted(chosen, key=lambda each: -sums[each])
        gross = {
            each: sum(
                b.total_cents
                for b in firm.bills.values()
                if b.supplier == firm.supplier_named(each).id and first <= b.day <= last
            )
            for each in chosen
        }
        sheet.mail(
            "figures",
            chief.email,
            says={each: f"money:{sums[each]} @ word:{each}" for each in ranked} | {"the total": f"money:{total}"},
            amounts=[
                total,
                *(sums[each] for each in chosen),
                *(b.net_cents for b in firm.bills.values() if firm.suppliers[b.supplier].name in chosen),
            ],
            omits={
                "gross sums": [
                    f"money:{gross[each]}" for each in chosen if gross[each] != sums[each] and gross[each] not in sums.values()
                ]
                or ["word:no such thing"],
                "a supplier that was not asked for": [f"word:{twin}"] if twin not in chosen else ["word:no such thing"],
            },
            fact_points=3,
        )
        for place, each in enumerate(ranked[:3]):
            sheet.add(f"report: {each}", "answer_says", 1, ("figures: sent", f"figures: says {each}"), fact=f"money:{sums[each]}")
            assert place < 3
        sheet.kept("the books are left alone", "accounting", "bill", [b.reference for b in firm.bills.values()][:150])
        draft.key = {"names": chosen, "first": str(first), "last": str(last), "chief": chief.email}
        yield draft


async def solve_spend(hands: Hands, key: dict[str, Any]) -> None:
    sums = {}
    for name in key["names"]:
        rows = await hands.invoices(name)
        sums[name] = sum(row["net"] for row in rows if row["type"] == "ACCPAY" and key["first"] <= row["date"] <= key["last"])
    lines = "\n".join(f"- {name}: {euros(cents)}" for name, cents in sorted(sums.items(), key=lambda each: -each[1]))
    text = f"Net, by date of the bill:\n{lines}\nTotal: {euros(sum(sums.values()))}"
    await hands.send(key["chief"], "What we bought", text)
    await hands.say(text)


# -- support figures ---------------------------------------------------------------------------------------------------


def draft_queue(firm: Firm, rng: Random) -> Iterator[Draft]:
    head = firm.titled("Head of Customer Success")
    for _number, (year, month) in enumerate(((2026, 4), (2026, 3), (2026, 5), (2025, 11))):
        found = [
            t for t in firm.tickets.values() if t.key.startswith("SUP") and (t.created.year, t.created.month) == (year, month)
        ]
        top = {}
        for ticket in found:
            top[ticket.customer] = top.get(ticket.customer, 0) + 1
        most = max(top.values())
        leaders = [firm.customers[name].name for name, count in top.items() if count == most]
        high = sum(t.priority == "High" for t in found)
        still = sum(t.status != "Done" for t in found)
        label = f"{date(year, month, 1):%B %Y}"
        draft = Draft(
            f"For the review I need the support figures of {label}: how many tickets were opened in SUP in that month, how many of them have priority High, how many are not Done today, and which customer opened the most (all of them, if several are level) and how many. By mail to me, and the first two numbers in #support.\n\n{head.name}, {head.title}",
            "medium",
        )
        sheet = draft.sheet
        says = {
            "how many": f"number:{len(found)}",
            "how many High": f"number:{high}",
            "how many are open": f"number:{still}",
            "the most": f"number:{most}",
        } | {name: f"word:{name}" for name in leaders}
        runner_up = [firm.customers[name].name for name, count in top.items() if count < most][:12]
        sheet.mail(
            "figures",
            head.email,
            says=says,
            fact_points=3,
            omits={
                "customers that did not lead": [
                    f"word:{name}" for name in runner_up if not any(name in leader for leader in leaders)
                ]
            },
        )
        sheet.post(
            "post",
            "support",
            says={"how many": f"number:{len(found)}", "how many High": f"number:{high}"},
            omits={"names of customers": [f"word:{name}" for name in leaders]},
        )
        sheet.kept("the tickets are left alone", "tickets", "ticket", [t.key for t in found])
        draft.key = {
            "from": f"{year}-{month:02}-01",
            "to": f"{year + month // 12}-{month % 12 + 1:02}-01",
            "label": label,
            "head": head.email,
        }
        yield draft


async def solve_queue(hands: Hands, key: dict[str, Any]) -> None:
    found = await hands.issues(f'project = SUP AND created >= "{key["from"]}" AND created < "{key["to"]}" ORDER BY key', limit=50)
    names: dict[str, int] = {}
    for ticket in found:
        name = ticket["summary"].split(":")[0]
        names[name] = names.get(name, 0) + 1
    most = max(names.values())
    high, still = sum(t["priority"]["name"] == "High" for t in found), sum(t["status"]["name"] != "Done" for t in found)
    leaders = ", ".join(name for name, count in names.items() if count == most)
    await hands.send(
        key["head"],
        f"Support figures {key['label']}",
        f"Opened: {len(found)}\nPriority High: {high}\nNot Done today: {still}\nMost tickets: {leaders} ({most} each)",
    )
    await hands.post("support", f"{key['label']}: {len(found)} tickets opened, {high} of them High.")
    await hands.say(f"{len(found)} tickets, {high} High, {still} open; most: {leaders} ({most}).")


FAMILIES = (
    Family("brief", draft_brief, solve_brief),
    Family("project", draft_project, solve_project),
    Family("incidents", draft_incidents, solve_incidents),
    Family("spend", draft_spend, solve_spend),
    Family("queue", draft_queue, solve_queue),
)
