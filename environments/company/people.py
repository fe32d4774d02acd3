"""The forty people who work here, those who left, who reports to whom, and when they were away."""
# ruff: noqa: E501, SIM905 - names and wordings stand on one line

from datetime import date, timedelta
from random import Random

from .records import Firm, Leave, Person

FIRST = (
    "Aoife Bram Chiara Dmitri Elif Farah Gareth Hanne Ines Joris Katya Liam Maren Niall Oona Pavel Qadir Rosa Sven Tomasz Una Viktor "
    "Wiebke Xenia Yusuf Zofia Anselm Brigid Cormac Delphine Eoin Fenna Giulia Henrik Imogen Jarek Klara Lorcan Milena Nadia Orla Piotr "
    "Roisin Stefan Thandi Ulrike Vera Wouter"
).split()
LAST = (
    "Ahearn Bakker Castellano Doyle Eriksen Farouk Gallagher Hendriks Iversen Janssen Kowalski Lindgren Moriarty Nowak Olsen Petrov "
    "Quigley Rahman Sorensen Tierney Ueda Varga Wolski Xavier Yilmaz Zeller Brennan Carvalho Devlin Esposito Finnegan Grabowski Hartmann "
    "Ionescu Jankovic Keane Larsson McNamara Novak Okafor Papadakis Reilly Schuster Tanaka Ulrich Vasquez Whelan Zimmer"
).split()

# title, team, the manager's title, how many
ROLES = (
    ("Chief Executive Officer", "Leadership", None, 1),
    ("Chief Operating Officer", "Leadership", "Chief Executive Officer", 1),
    ("Chief Financial Officer", "Leadership", "Chief Executive Officer", 1),
    ("Chief Technology Officer", "Leadership", "Chief Executive Officer", 1),
    ("Head of Sales", "Sales", "Chief Executive Officer", 1),
    ("Head of People", "People", "Chief Operating Officer", 1),
    ("Head of Customer Success", "Support", "Chief Operating Officer", 1),
    ("Financial Controller", "Finance", "Chief Financial Officer", 1),
    ("Accounts Payable Specialist", "Finance", "Financial Controller", 1),
    ("Accounts Receivable Specialist", "Finance", "Financial Controller", 1),
    ("Payroll Accountant", "Finance", "Financial Controller", 1),
    ("Procurement Lead", "Procurement", "Chief Operating Officer", 1),
    ("Buyer", "Procurement", "Procurement Lead", 1),
    ("Warehouse Coordinator", "Procurement", "Procurement Lead", 1),
    ("HR Generalist", "People", "Head of People", 1),
    ("Recruiter", "People", "Head of People", 1),
    ("Office Manager", "People", "Head of People", 1),
    ("IT Lead", "IT", "Chief Technology Officer", 1),
    ("Systems Administrator", "IT", "IT Lead", 1),
    ("IT Support Technician", "IT", "IT Lead", 1),
    ("Sales Operations Analyst", "Sales", "Head of Sales", 1),
    ("Account Executive", "Sales", "Head of Sales", 3),
    ("Marketing Manager", "Sales", "Head of Sales", 1),
    ("Support Lead", "Support", "Head of Customer Success", 1),
    ("Support Engineer", "Support", "Support Lead", 2),
    ("Customer Success Manager", "Support", "Head of Customer Success", 2),
    ("Engineering Manager, Cloud", "Engineering", "Chief Technology Officer", 1),
    ("Cloud Engineer", "Engineering", "Engineering Manager, Cloud", 2),
    ("Site Reliability Engineer", "Engineering", "Engineering Manager, Cloud", 1),
    ("Engineering Manager, Devices", "Engineering", "Chief Technology Officer", 1),
    ("Firmware Engineer", "Engineering", "Engineering Manager, Devices", 2),
    ("Release Manager", "Engineering", "Chief Technology Officer", 1),
    ("QA Engineer", "Engineering", "Release Manager", 1),
    ("Product Manager", "Engineering", "Chief Technology Officer", 1),
)
LEAVERS = (
    ("Account Executive", "Sales", "Head of Sales"),
    ("Support Engineer", "Support", "Support Lead"),
    ("Cloud Engineer", "Engineering", "Engineering Manager, Cloud"),
    ("Buyer", "Procurement", "Procurement Lead"),
    ("Accounts Payable Specialist", "Finance", "Financial Controller"),
)
START, TODAY = date(2024, 6, 3), date(2026, 6, 9)
DELEGATES = {
    "Financial Controller": "Chief Financial Officer",
    "Accounts Payable Specialist": "Payroll Accountant",
    "Accounts Receivable Specialist": "Payroll Accountant",
    "Procurement Lead": "Chief Operating Officer",
    "Head of People": "HR Generalist",
    "Head of Sales": "Sales Operations Analyst",
    "IT Lead": "Systems Administrator",
    "Support Lead": "Head of Customer Success",
    "Release Manager": "QA Engineer",
    "Product Manager": "Engineering Manager, Cloud",
    "Chief Technology Officer": "Engineering Manager, Cloud",
    "Engineering Manager, Devices": "Engineering Manager, Cloud",
    "Head of Customer Success": "Support Lead",
    "Marketing Manager": "Head of Sales",
}


def add_people(firm: Firm, rng: Random) -> None:
    first, last = rng.sample(FIRST, len(FIRST)), rng.sample(LAST, len(LAST))
    logins: dict[str, str] = {}

    def hire(title: str, team: str, boss: str | None, started: date, left: date | None) -> str:
        name = f"{first.pop()} {last.pop()}"
        login = f"{name.split(maxsplit=1)[0][0]}{name.split()[1]}".lower()
        firm.people[login] = Person(
            login, name, title, team, logins[boss] if boss else None, started, left, rng.randrange(10_000)
        )
        return login

    for title, team, boss, count in ROLES:
        for number in range(count):
            early = team == "Leadership" or number == 0
            day = START - timedelta(days=rng.randrange(60, 1400)) if early else START + timedelta(days=rng.randrange(30, 500))
            logins.setdefault(title, hire(title, team, boss, weekday(day), None))
    for title, team, boss in LEAVERS:
        left = weekday(START + timedelta(days=rng.randrange(200, 620)))
        hire(title, team, boss, weekday(START - timedelta(days=rng.randrange(100, 900))), left)
    # the one who follows a leaver in a role that only one person has starts after them
    for title in ("Buyer", "Accounts Payable Specialist"):
        gone = next(person for person in firm.people.values() if person.title == title and person.left)
        now = firm.titled(title)
        firm.people[now.login] = replaced(now, weekday(gone.left + timedelta(days=14)))
    add_leaves(firm, rng)


def replaced(person: Person, started: date) -> Person:
    return Person(person.login, person.name, person.title, person.team, person.manager, started, person.left, person.voice)


def add_leaves(firm: Firm, rng: Random) -> None:
    number = 0
    for person in firm.people.values():
        for year, month in ((2024, 8), (2024, 12), (2025, 4), (2025, 7), (2025, 12), (2026, 2), (2026, 4)):
            day = weekday(date(year, month, rng.randrange(1, 24)))
            length = rng.choice((2, 4, 4, 9, 11))
            if rng.random() < 0.55 and person.works_on(day - timedelta(days=60)) and person.works_on(day + timedelta(days=30)):
                number += 1
                firm.leaves.append(leave(firm, rng, number, person, day, day + timedelta(days=length)))
    # who is away while the tasks are played
    for title, first, last in (
        ("Procurement Lead", date(2026, 6, 4), date(2026, 6, 19)),
        ("Accounts Receivable Specialist", date(2026, 6, 8), date(2026, 6, 12)),
        ("Product Manager", date(2026, 6, 8), date(2026, 6, 26)),
        ("IT Lead", date(2026, 6, 9), date(2026, 6, 16)),
    ):
        number += 1
        firm.leaves.append(leave(firm, rng, number, firm.titled(title), first, last))


def leave(firm: Firm, rng: Random, number: int, person: Person, first: date, last: date) -> Leave:
    manager = firm.people[person.manager].login if person.manager else person.login
    day = first
    delegate = firm.titled(DELEGATES[person.title]).login if person.title in DELEGATES else None
    if delegate is None or not firm.people[delegate].works_on(day):
        mates = [mate.login for mate in firm.team(person.team, day) if mate.login != person.login]
        delegate = rng.choice(mates) if mates else manager
    kind = "study leave" if rng.random() < 0.12 else "annual leave"
    asked = weekday(first - timedelta(days=rng.randrange(14, 45)))
    return Leave(f"LV-{number:03}", person.login, first, last, kind, delegate, asked, manager)


def weekday(day: date) -> date:
    """The day itself, or the Monday after a weekend."""
    return day + timedelta(days=(7 - day.weekday()) % 7) if day.weekday() >= 5 else day
