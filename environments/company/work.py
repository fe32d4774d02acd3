"""What the teams did: incidents, releases, projects and the tickets of three queues (SUP support, ENG engineering, IT)."""
# ruff: noqa: E501 - a wording stands on one line

from datetime import date, datetime, time, timedelta
from random import Random

from .people import START, TODAY, weekday
from .records import Firm, Incident, Milestone, Note, Project, Release, Ticket

# service, title, cause, fix
TROUBLES = (
    ("ingest", "Readings arrive late", "the queue's disk filled up after the retention job stopped", "retention job restarted, alert on disk added"),
    ("portal", "Portal answers 502", "a deploy doubled the number of database connections", "connection pool limited to 40"),
    ("alerts", "Alert mails not sent", "the mail provider rejected an expired DKIM key", "key rotated, expiry added to the calendar"),
    ("gateway", "Gateways drop off the network", "firmware 4.2 does not renew its DHCP lease", "firmware 4.2.1 rolled out"),
    ("billing", "Usage export is empty", "a renamed column in the nightly export", "export reads the new column, test added"),
    ("auth", "Single sign-on fails", "the identity provider's certificate was replaced", "new certificate trusted"),
    ("ingest", "Duplicate readings", "the consumer restarted without committing its offsets", "offsets committed per batch"),
    ("portal", "Floor plans do not load", "the image cache was evicted by a backup", "cache moved to its own volume"),
    ("reports", "Monthly report has wrong totals", "summer time shifted the day boundary", "boundaries computed in the site's own zone"),
    ("alerts", "Alerts fire twice", "two schedulers ran after a failover", "leader lock with a lease"),
    ("gateway", "Sensors show 85 degrees", "a bad calibration table in batch 17", "table corrected over the air"),
    ("auth", "Password reset mails delayed", "rate limit at the mail provider", "limit raised, queue made visible"),
    ("portal", "Slow dashboards", "a missing index after the migration", "index added"),
    ("ingest", "Readings rejected from new sites", "site ids above 65,535 did not fit", "column widened"),
)  # fmt: skip
FEATURES = (
    "Export of readings as CSV", "Dark mode of the portal", "Alert rules by time of day", "Gateway health page", "Bulk rename of sensors",
    "Two-person approval of alert rules", "Report by cost centre", "API keys with expiry", "Heat map of a floor", "Maintenance windows",
    "Carbon report", "Offline mode of the installer app", "Webhooks for alerts", "Audit log of settings", "Tags for sites",
)  # fmt: skip
BUGS = (
    "Chart labels overlap on small screens", "Time zone of a new site is UTC", "CSV export cuts off after 65,000 rows", "Alert mail lacks the site name",
    "Search ignores accents", "Deleted sensor still shown in the report", "Login page loops with old cookies", "Battery level stuck at 100%",
    "Gateway page shows the wrong firmware", "Invite mail is sent twice", "Floor plan upload fails for large PNG", "Average includes rejected readings",
)  # fmt: skip
QUESTIONS = (
    ("Gateway offline since this morning", "One of our gateways has been offline since about 7 this morning. We already tried the power.", "power-cycled from the console and checked the SIM; the uplink cable was loose"),
    ("How do we add a second site?", "We open a second building next month. What do we need to order, and who sets it up?", "sent the guide and linked the account executive"),
    ("Readings look too high", "Two sensors show values that cannot be right, our own thermometer shows 4 degrees less.", "recalibrated both sensors remotely"),
    ("User cannot log in", "A colleague of mine gets `invalid credentials` although the password was reset yesterday.", "the account was locked after ten attempts; unlocked"),
    ("Wrong address on the account", "We moved office. Please change our address in the portal.", "address changed after the contact confirmed it"),
    ("Alert did not reach us", "On Sunday the plant room was above the limit for an hour and nobody got an alert.", "the rule had a quiet period at weekends; customer changed it"),
    ("Report for the auditors", "Our auditors ask for the readings of last year, by month. Can you help?", "exported the year and sent the link"),
    ("API returns 429", "Our nightly import gets 429 after a few hundred requests.", "explained the limit and the bulk endpoint"),
    ("Sensor battery empty after a month", "Three sensors that were installed a month ago already report an empty battery.", "replacement sent under warranty, returned units go to testing"),
    ("Remove a former employee", "Please remove the access of a colleague who left us.", "access removed, contact confirmed"),
)  # fmt: skip
PRIORITY = {
    "Gateway offline since this morning": "High",
    "Alert did not reach us": "High",
    "How do we add a second site?": "Low",
    "Report for the auditors": "Low",
    "Wrong address on the account": "Low",
    "Remove a former employee": "Low",
    "API returns 429": "Low",
}
"""As the page `How we work a ticket` says."""
CHORES = (
    ("Laptop for new starter", "A new colleague starts soon and needs a laptop, a badge and accounts."),
    ("VPN does not connect", "The VPN client says `no route` since the update."),
    ("Monitor flickers", "The left monitor at my desk flickers."),
    ("Access to the finance folder", "I need read access to the finance folder for the audit."),
    ("Printer on the second floor", "The printer eats every third page."),
    ("Mailbox full", "My mailbox is full and I cannot send."),
    ("Phone number for the hotline", "The hotline should ring at two more desks."),
    ("Software licence expires", "The licence of the drawing program expires this month."),
)
PROJECTS = (
    ("Beacon", "portal redesign", None, "Product Manager", "Chief Technology Officer"),
    ("Tern", "gateway revision 2.4", None, "Engineering Manager, Devices", "Chief Technology Officer"),
    (
        "Heron",
        "roll-out at Eastgate Retail Parks",
        "Eastgate Retail Parks",
        "Customer Success Manager",
        "Head of Customer Success",
    ),
    ("Plover", "ISO 27001 certificate", None, "IT Lead", "Chief Operating Officer"),
    ("Curlew", "new billing export", None, "Engineering Manager, Cloud", "Chief Financial Officer"),
    ("Dunlin", "cold chain pilot at Delmar Cold Storage", "Delmar Cold Storage", "Customer Success Manager", "Head of Sales"),
    ("Osprey", "move to the second hosting region", None, "Site Reliability Engineer", "Chief Technology Officer"),
    ("Wren", "supplier consolidation", None, "Procurement Lead", "Chief Operating Officer"),
)
STEPS = ("Scope agreed", "Design signed off", "First build", "Pilot running", "Acceptance", "Hand-over")
RISKS = (
    "supplier lead time",
    "one key person",
    "open security question",
    "customer's network team is slow to answer",
    "test rig is shared",
)


def at(day: date, rng: Random, low: int = 8, high: int = 17) -> datetime:
    return datetime.combine(day, time(rng.randrange(low, high), rng.randrange(60), rng.randrange(60)))


def add_work(firm: Firm, rng: Random) -> None:
    add_incidents(firm, rng)
    add_engineering(firm, rng)
    add_support(firm, rng)
    add_it(firm, rng)
    add_projects(firm, rng)


def responders(firm: Firm, day: date) -> list[str]:
    titles = {"Site Reliability Engineer", "Cloud Engineer", "Engineering Manager, Cloud", "Firmware Engineer"}
    return [person.login for person in firm.people.values() if person.title in titles and person.works_on(day)]


def add_incidents(firm: Firm, rng: Random) -> None:
    gap = (TODAY - START).days // len(TROUBLES)
    for index, (service, title, cause, fix) in enumerate(TROUBLES):
        day = weekday(START + timedelta(days=gap * index + rng.randrange(6, gap - 6)))
        started = at(day, rng, 6, 20)
        detected = started + timedelta(minutes=rng.randrange(2, 55))
        mitigated = detected + timedelta(minutes=rng.randrange(15, 120))
        resolved = mitigated + timedelta(minutes=rng.randrange(10, 200))
        on_call = responders(firm, day)
        commander = rng.choice(on_call)
        helper = rng.choice([login for login in on_call if login != commander] or on_call)
        known = [customer.id for customer in firm.customers.values() if customer.since <= day]
        hit = tuple(sorted(rng.sample(known, min(len(known), rng.randrange(2, 6)))))
        number = f"INC-{index + 11:03}"
        steps = (
            Note(detected, helper, f"{title.lower()}: alarm from {service}, looking"),
            Note(detected + timedelta(minutes=4), commander, f"I take {number}. Severity is SEV{1 + index % 3}."),
            Note(mitigated - timedelta(minutes=6), helper, f"cause found: {cause}"),
            Note(mitigated, commander, "mitigated, watching the graphs"),
            Note(resolved, commander, f"resolved. Fix: {fix}"),
        )
        ticket = f"ENG-{400 + index}"
        firm.incidents[number] = Incident(
            number, ticket, title, service, f"SEV{1 + index % 3}", started, detected, mitigated, resolved, commander, cause, fix, hit, steps
        )  # fmt: skip
        firm.tickets[ticket] = Ticket(
            ticket, "Incident", f"{number}: {title}", f"{title}. Service: {service}. Severity: SEV{1 + index % 3}.", helper, commander,
            detected, "Done", resolved, ("Highest", "High", "Medium")[index % 3], ("incident", service), None, None, steps,
        )  # fmt: skip


def add_engineering(firm: Firm, rng: Random) -> None:
    lead = firm.titled("Release Manager")
    owner = firm.titled("Product Manager")
    day, number, minor = weekday(START + timedelta(days=24)), 500, 1
    while day < TODAY + timedelta(days=40):
        version, keys = f"5.{minor}.0", []
        for _ in range(rng.randrange(4, 8)):
            number += 1
            bug = rng.random() < 0.55
            summary = rng.choice(BUGS if bug else FEATURES)
            created = at(weekday(day - timedelta(days=rng.randrange(26, 60))), rng)
            done = at(weekday(day - timedelta(days=rng.randrange(4, 12))), rng)
            finished = done.date() < TODAY
            makers = [
                p
                for p in firm.people.values()
                if p.title in {"Cloud Engineer", "Firmware Engineer"} and p.works_on(created.date())
            ]
            maker = rng.choice([p for p in makers if p.left is None or p.left > done.date()] or makers)
            reporter = owner if owner.works_on(created.date()) else firm.titled("Engineering Manager, Cloud")
            words = (
                f"in progress, {rng.choice(('the tests are green', 'one review comment left', 'waiting for QA', 'pushed to staging'))}",
                f"merged for {version}",
            )
            notes = (
                Note(created + timedelta(days=9, minutes=rng.randrange(200)), maker.login, words[0]),
                *((Note(done, maker.login, words[1]),) if finished else ()),
            )
            key = f"ENG-{number}"
            keys.append(key)
            status = "Done" if finished else rng.choice(("In Progress", "In Review", "To Do"))
            body = f"{summary}. {'Steps: open the page, compare with the raw readings.' if bug else 'Asked for by customers; see the product board.'}"
            firm.tickets[key] = Ticket(
                key, "Bug" if bug else "Story", summary, body, reporter.login, maker.login, created, status, done if finished else None,
                rng.choice(("High", "Medium", "Medium", "Low")), ("cloud",), None, version, tuple(note for note in notes if note.at.date() < TODAY),
            )  # fmt: skip
        status = "released" if day < TODAY else "planned"
        firm.releases[version] = Release(version, day, lead.login, tuple(keys), status, rolled_back=minor in {7, 16})
        minor += 1
        day = weekday(day + timedelta(days=28))


def add_support(firm: Firm, rng: Random) -> None:
    days = [START + timedelta(days=rng.randrange(4, (TODAY - START).days)) for _ in range(260)]
    days = sorted([*days, *(TODAY - timedelta(days=rng.randrange(2, 19)) for _ in range(28))])
    unsolved: set[tuple[str, str]] = set()
    for number, raw in enumerate(days, start=1201):
        day = weekday(raw)
        if day >= TODAY:
            day = TODAY - timedelta(days=1)
        known = [
            customer
            for customer in firm.customers.values()
            if customer.since <= day and not (customer.churned and customer.churned < day)
        ]
        if not known:
            continue
        customer = rng.choice(known)
        contact = rng.choice(customer.contacts[1:])
        subject, body, answer = rng.choice(QUESTIONS)
        made = at(day, rng)
        open_still = day > TODAY - timedelta(days=21) and rng.random() < 0.7 and (customer.id, subject) not in unsolved
        if open_still:
            unsolved.add((customer.id, subject))
        staff = [p for p in firm.team("Support", day) if p.title in {"Support Engineer", "Support Lead"}]
        agent = rng.choice([p for p in staff if p.left is None or p.left > day + timedelta(days=9)] or staff)
        closed = min(
            at(weekday(day + timedelta(days=rng.randrange(1, 7))), rng), datetime.combine(TODAY - timedelta(days=1), time(17))
        )
        first = min(made + timedelta(minutes=rng.randrange(12, 220)), closed - timedelta(minutes=1))
        notes = [
            Note(
                first,
                agent.login,
                rng.choice(
                    (
                        "taken, asked for the serial number",
                        "looking at the logs",
                        "called the contact, no answer yet",
                        "reproduced",
                        "asked for a screenshot",
                    )
                ),
            )
        ]
        if not open_still:
            notes.append(Note(max(closed, first + timedelta(minutes=1)), agent.login, f"solved: {answer}"))
        key = f"SUP-{number}"
        firm.tickets[key] = Ticket(
            key, "Support", f"{customer.name}: {subject}", body, contact.email, agent.login, made,
            rng.choice(("In Progress", "Waiting for customer", "To Do")) if open_still else "Done", None if open_still else max(closed, first + timedelta(minutes=1)),
            PRIORITY.get(subject, "Medium"), (customer.segment.lower().replace(" ", "-"),), customer.id, None, tuple(notes),
        )  # fmt: skip


def add_it(firm: Firm, rng: Random) -> None:
    days = sorted(weekday(START + timedelta(days=rng.randrange(4, (TODAY - START).days - 3))) for _ in range(90))
    for number, day in enumerate(days, start=301):
        asker = rng.choice([p for p in firm.people.values() if p.works_on(day) and p.team != "IT"])
        fixer = rng.choice(firm.team("IT", day))
        summary, body = rng.choice(CHORES)
        made = at(day, rng)
        done = min(
            at(weekday(day + timedelta(days=rng.randrange(1, 6))), rng), datetime.combine(TODAY - timedelta(days=1), time(16))
        )
        still = day > TODAY - timedelta(days=12)
        done = max(done, made + timedelta(minutes=30))
        notes = (
            ()
            if still
            else (
                Note(
                    done,
                    fixer.login,
                    rng.choice(
                        ("done", "fixed, please reopen if it comes back", "delivered to the desk", "sorted out with the supplier")
                    ),
                ),
            )
        )
        firm.tickets[f"IT-{number}"] = Ticket(
            f"IT-{number}", "Task", summary, f"{body} ({asker.name}, {asker.team})", asker.login, fixer.login, made,
            "To Do" if still else "Done", None if still else done, rng.choice(("Medium", "Low")), ("it",), None, None, notes,
        )  # fmt: skip


def add_projects(firm: Firm, rng: Random) -> None:
    for number, (name, what, customer, lead, sponsor) in enumerate(PROJECTS, start=1):
        head = firm.titled(lead)
        start = max(weekday(START + timedelta(days=rng.randrange(420, 600))), weekday(head.started + timedelta(days=20)))
        day, steps = start, []
        for step in STEPS:
            due = weekday(day)
            day = due + timedelta(days=rng.randrange(30, 75))
            slip = rng.choice((0, 0, 0, 4, 9))
            done = weekday(due + timedelta(days=slip))
            steps.append(Milestone(step, due, done if done < TODAY and (not steps or steps[-1].done) else None))
        others = [
            p.login
            for p in firm.people.values()
            if p.works_on(start)
            and p.left is None
            and p.login != head.login
            and p.team in {"Engineering", "Support", "IT", "Procurement"}
        ]
        members = (head.login, *sorted(rng.sample(others, 3)))
        found = firm.customer_named(customer).id if customer else None
        firm.projects[f"P-{number:02}"] = Project(
            f"P-{number:02}", f"{name}: {what}", found, head.login, firm.titled(sponsor).login, members, start, tuple(steps),
            rng.randrange(20, 180) * 100_000, rng.choice(RISKS),
        )  # fmt: skip
