"""The calendar: the weekly meetings of the teams, customer calls, reviews. From eight weeks ago to four weeks ahead."""

from datetime import date, datetime, time, timedelta
from random import Random

from .people import TODAY, weekday
from .records import Firm, Meeting

WEEKLY = (
    ("Leadership meeting", 0, time(9, 30), 90, ("Leadership",), "Birch"),
    ("Finance stand-up", 1, time(9, 15), 15, ("Finance",), "Ash"),
    ("Sales pipeline", 1, time(10, 0), 60, ("Sales",), "Birch"),
    ("Support hand-over", 2, time(9, 0), 30, ("Support",), "Birch"),
    ("Engineering planning", 2, time(14, 0), 60, ("Engineering",), "Cedar"),
    ("Purchasing review", 3, time(11, 0), 30, ("Procurement",), "Ash"),
    ("People team", 3, time(15, 0), 45, ("People",), "Ash"),
    ("IT round", 4, time(10, 30), 30, ("IT",), "Ash"),
    ("All hands", 4, time(16, 0), 45, (), "Dogwood"),
)
ROOMS = {"Ash": 4, "Birch": 8, "Cedar": 14, "Dogwood": 24}


def write_diary(firm: Firm, rng: Random) -> None:
    monday = TODAY - timedelta(days=TODAY.weekday() + 56)
    for week in range(13):
        for title, day, start, minutes, teams, room in WEEKLY:
            when = monday + timedelta(days=7 * week + day)
            if title == "All hands" and week % 4:
                continue
            staff = [p for p in firm.people.values() if p.works_on(when) and (not teams or p.team in teams) and p.left is None]
            add(firm, when, start, minutes, title, [p.login for p in staff], room)
    customers = list(firm.customers.values())
    for week in range(13):
        for _ in range(9):
            when = weekday(monday + timedelta(days=7 * week + rng.randrange(5)))
            customer = rng.choice([each for each in customers if not each.churned])
            slot = time(rng.choice((9, 10, 11, 14, 15, 16)), rng.choice((0, 30)))
            guests = [customer.csm, customer.owner, customer.user.email]
            if not clashes(firm, when, slot, 45, guests):
                add(firm, when, slot, 45, f"{customer.name}: review", guests, "")
        managers = [p for p in firm.people.values() if p.manager and p.left is None and p.works_on(monday)]
        for person in rng.sample(managers, 16):
            when = monday + timedelta(days=7 * week + rng.randrange(5))
            slot = time(rng.choice((9, 10, 11, 13, 14, 15, 16)), rng.choice((0, 30)))
            slot = time(14, 0) if slot == time(13, 0) else slot
            pair = [person.manager, person.login]
            if not clashes(firm, when, slot, 30, pair):
                add(firm, when, slot, 30, f"1:1 {person.first}", pair, "")
    firm.meetings.sort(key=lambda meeting: (meeting.start, meeting.id))


def clashes(firm: Firm, day: date, start: time, minutes: int, guests: list[str]) -> bool:
    begin = datetime.combine(day, start)
    end = begin + timedelta(minutes=minutes)
    return any(
        meeting.start < end and begin < meeting.end and set(guests) & set(meeting.guests) for meeting in firm.meetings
    ) or any(firm.away(guest, day) for guest in guests)


def add(firm: Firm, day: date, start: time, minutes: int, title: str, guests: list[str], room: str) -> None:
    begin = datetime.combine(day, start)
    name = f"ev{len(firm.meetings) + 1:04}"
    firm.meetings.append(Meeting(name, title, begin, begin + timedelta(minutes=minutes), guests[0], tuple(guests), room))
