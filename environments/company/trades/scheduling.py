"""Scheduling: a free slot, a customer's visit, somebody on leave, a room that is closed, a double booking."""
# ruff: noqa: E501 - a wording stands on one line

import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from random import Random
from typing import Any

from ..casework import Draft, Family
from ..diary import ROOMS
from ..hands import Hands
from ..people import TODAY
from ..records import Firm, Meeting, short_date
from .support import address

SLOTS = [time(hour, minute) for hour in range(9, 17) for minute in (0, 30)]


def busy(firm: Firm, who: str, start: datetime, end: datetime, more: list[Meeting] | None = None) -> bool:
    return any(
        who in meeting.guests and meeting.start < end and start < meeting.end for meeting in [*firm.meetings, *(more or [])]
    )


def taken(firm: Firm, room: str, start: datetime, end: datetime) -> bool:
    return any(meeting.room == room and meeting.start < end and start < meeting.end for meeting in firm.meetings)


def fits_rules(start: datetime, end: datetime) -> bool:
    lunch, after = datetime.combine(start.date(), time(12, 30)), datetime.combine(start.date(), time(13, 30))
    return end <= datetime.combine(start.date(), time(17, 30)) and not (start < after and lunch < end)


def first_slot(
    firm: Firm, people: list[str], days: list[date], minutes: int, seats: int
) -> tuple[datetime, datetime, str] | None:
    """The first half hour at which all are free and a room is; with the smallest room that fits."""
    for day in days:
        for slot in SLOTS:
            start = datetime.combine(day, slot)
            end = start + timedelta(minutes=minutes)
            if not fits_rules(start, end) or any(busy(firm, each, start, end) or firm.away(each, day) for each in people):
                continue
            for room, size in sorted(ROOMS.items(), key=lambda each: each[1]):
                if size >= seats and not taken(firm, room, start, end):
                    return start, end, room
    return None


def free_people(firm: Firm, rng: Random, count: int, *, days: tuple[date, ...]) -> list[str]:
    there = [
        p.login
        for p in firm.people.values()
        if p.left is None and p.started < TODAY and not any(firm.away(p.login, day) for day in days)
    ]
    return rng.sample(there, count)


def event(
    sheet: Any, name: str, title: str, start: datetime, end: datetime, guests: list[str], room: str = "", agenda: str = ""
) -> None:
    """An event that must be made: once, with exactly these people, at this time."""
    where = {"summary": {"has": title}}
    fields: dict[str, Any] = {"start": start.isoformat(), "end": end.isoformat(), "attendees": sorted(guests)}
    if room:
        fields["location"] = {"has": room}
    if agenda:
        fields["description"] = {"fact": f"word:{agenda}"}
    sheet.made(name, "calendar", "event", where, fields)


# -- a slot for several people -----------------------------------------------------------------------------------------

TOPICS = (
    ("Pricing workshop", "new price list"),
    ("Gateway field returns", "batch 17"),
    ("Audit preparation", "open findings"),
    ("Trade fair plan", "stand and travel"),
    ("Support rota", "summer weeks"),
)


def draft_slot(firm: Firm, rng: Random) -> Iterator[Draft]:
    days = [date(2026, 6, 10), date(2026, 6, 11), date(2026, 6, 12)]
    for number, (title, agenda) in enumerate(TOPICS):
        count = (3, 4, 5, 6, 7)[number]
        minutes = (60, 60, 90, 60, 90)[number]
        people = free_people(firm, rng, count, days=tuple(days))
        found = first_slot(firm, people, days, minutes, count)
        while found is None:
            people = free_people(firm, rng, count, days=tuple(days))
            found = first_slot(firm, people, days, minutes, count)
        start, end, room = found
        names = [firm.people[login].name for login in people]
        draft = Draft(
            f"Please set up `{title}`, {minutes} minutes, with {', '.join(names)}: from the first full or half hour from tomorrow (Wednesday 10 June) to Friday at which all of them and a room are free for the whole time, by our meeting rules. The agenda is: {agenda}. Do not invite anybody else (you need not be there yourself).",
            "easy" if number == 0 else "medium" if number < 3 else "hard",
        )
        sheet = draft.sheet
        event(sheet, "event", title, start, end, [firm.people[login].email for login in people], room, agenda)
        for label, fact in (
            ("the day", f"date:{start.date()}"),
            ("the time", f"time:{start:%H:%M}"),
            ("the room", f"word:{room}"),
        ):
            sheet.add(f"report: {label}", "answer_says", 1, ("event", "event: start"), fact=fact)
        for other in [name for name in ROOMS if name != room]:
            sheet.harm(
                f"booked {other} instead",
                {"made": "event", "where": {"summary": {"has": title}, "location": {"has": other}}},
                points=1,
            )
        sheet.harm("somebody's meeting was moved or removed", {"changed": "event"}, points=5)
        draft.key = {
            "title": title,
            "agenda": agenda,
            "people": [firm.people[login].email for login in people],
            "minutes": minutes,
            "days": [str(day) for day in days],
        }
        yield draft


async def solve_slot(hands: Hands, key: dict[str, Any]) -> None:
    await hands.page("Meetings and rooms", "OPS")
    day_events: dict[str, list[dict[str, Any]]] = {}
    for day in key["days"]:
        rows = []
        for email in key["people"]:
            rows += [row | {"who": email} for row in await hands.events(email, day)]
        day_events[day] = rows
    rooms = {day: await hands.rooms(day) for day in key["days"]}
    for day in key["days"]:
        for slot in SLOTS:
            start = datetime.combine(date.fromisoformat(day), slot)
            end = start + timedelta(minutes=key["minutes"])
            if not fits_rules(start, end) or any(clash(row, start, end) for row in day_events[day]):
                continue
            free = [
                room
                for room, size in sorted(ROOMS.items(), key=lambda each: each[1])
                if size >= len(key["people"])
                and not any(row["location"] == room and clash(row, start, end) for row in rooms[day])
            ]
            if free:
                await hands.new_event(
                    key["title"], start, end, key["people"], location=free[0], description=f"Agenda: {key['agenda']}"
                )
                await hands.say(f"`{key['title']}` is set for {short_date(start.date())} at {start:%H:%M} in room {free[0]}.")
                return
    raise AssertionError("no slot")


def clash(row: dict[str, Any], start: datetime, end: datetime) -> bool:
    return row["start"] < end and start < row["end"]


# -- a customer's visit ------------------------------------------------------------------------------------------------


def draft_visit(firm: Firm, rng: Random) -> Iterator[Draft]:
    customers = [
        c for c in firm.customers.values() if not c.churned and not firm.away(c.csm, TODAY) and not firm.away(c.owner, TODAY)
    ]
    made = 0
    for customer in rng.sample(customers, len(customers)):
        options = [
            datetime.combine(TODAY + timedelta(days=days), slot)
            for days in (1, 2, 3, 6, 7, 8)
            for slot in (time(9, 0), time(10, 30), time(11, 0), time(14, 0), time(15, 30))
        ]
        theirs = [meeting for meeting in firm.meetings if not {customer.csm, customer.owner}.isdisjoint(meeting.guests)]
        full = [
            start for start in options if any(each.start < start + timedelta(hours=1) and start < each.end for each in theirs)
        ]
        free = [start for start in options if start not in full and fits_rules(start, start + timedelta(hours=1))]
        if len(free) < 1 or len(full) < 2 or made == 4:
            continue
        made += 1
        good, bad = rng.choice(free), rng.sample(full, 2)
        offered = sorted([good, *bad])
        contact, csm, owner = customer.user, firm.people[customer.csm], firm.people[customer.owner]
        topic = rng.choice(("renewal of the contract", "plans for the new wing", "results of the pilot"))
        draft = Draft(
            f"{contact.name} of {customer.name} wants an hour with {owner.name} and offers three times by mail. Please take the one that works for everybody our rules say must be there, put it into the calendar as `{customer.name}: {topic}` with the customer invited (no room, it is a call; the topic is the agenda), and answer {contact.name.split()[0]}, with {owner.first} in copy.",
            "medium" if made < 3 else "hard",
        )
        times = "\n".join(
            f"- {start:%A} {short_date(start.date())}, {start:%H:%M} to {start + timedelta(hours=1):%H:%M} UTC"
            for start in offered
        )
        draft.mail(
            contact.email,
            owner.email,
            f"Call about the {topic}",
            f"Hello {owner.first},\n\nI would like to talk about the {topic}, one hour. I could do:\n{times}\n\n{contact.name}",
            name=contact.name,
            cc=("sales@northlight.example",),
        )
        sheet = draft.sheet
        event(sheet, "event", customer.name, good, good + timedelta(hours=1), [contact.email, csm.email, owner.email], "", topic)
        wrong = [f"{start:%H:%M}" for start in bad if start.time() != good.time()]
        sheet.mail(
            "answer",
            contact.email,
            says={"the day": f"date:{good.date()}", "the time": f"time:{good:%H:%M}"},
            cc=(owner.email,),
            omits={
                "another time": [f"time:{each}" for each in wrong if each != f"{good + timedelta(hours=1):%H:%M}"]
                or ["word:no such thing"]
            },
            extra_to=(csm.email,),
        )
        sheet.outsiders.append(contact.email)
        sheet.harm("a meeting was moved for it", {"changed": "event"}, points=5)
        for place, start in enumerate(bad):
            sheet.harm(
                f"a time at which somebody is busy ({place + 1})",
                {"made": "event", "where": {"start": start.isoformat()}},
                points=4,
            )
        sheet.add("report: the day", "answer_says", 1, ("event", "event: start"), fact=f"date:{good.date()}")
        draft.key = {"contact": contact.email, "customer": customer.name, "topic": topic, "people": [csm.email, owner.email]}
        yield draft


async def solve_visit(hands: Hands, key: dict[str, Any]) -> None:
    mail = await hands.mail(f"from:{key['contact']} subject:call in:inbox is:unread")
    await hands.page("Meetings and rooms", "OPS")
    for day, clock in re.findall(r"- \w+ (\d+ \w+ \d{4}), (\d\d:\d\d) to", mail):
        start = datetime.strptime(f"{day} {clock}", "%d %B %Y %H:%M")  # noqa: DTZ007 - all in UTC
        end = start + timedelta(hours=1)
        rows = [row for email in key["people"] for row in await hands.events(email, str(start.date()))]
        if fits_rules(start, end) and not any(clash(row, start, end) for row in rows):
            await hands.new_event(
                f"{key['customer']}: {key['topic']}",
                start,
                end,
                [*key["people"], key["contact"]],
                description=f"Agenda: {key['topic']}",
            )
            await hands.reply(
                mail, f"Thank you. {day} at {clock} UTC suits us; the invitation is on its way.", cc=(key["people"][1],)
            )
            await hands.say(f"Set for {day} at {clock}; the customer knows.")
            return
    raise AssertionError("no time fits")


# -- somebody is on leave ----------------------------------------------------------------------------------------------


def draft_cover(firm: Firm, rng: Random) -> Iterator[Draft]:
    for number, title in enumerate(("Procurement Lead", "Product Manager", "IT Lead", "Accounts Receivable Specialist")):
        person = firm.titled(title)
        leave = firm.away(person.login, TODAY)
        cover = firm.people[leave.delegate]
        first, last = datetime.combine(TODAY + timedelta(days=1), time(0)), datetime.combine(leave.last, time(23))
        own = [m for m in firm.meetings if person.login in m.guests and first <= m.start <= last]
        pairs = [m for m in own if m.title.startswith("1:1")]
        team = [m for m in own if m not in pairs and m.title != "All hands"]
        if len(own) < 2:
            continue
        draft = Draft(
            f"{person.name} is on leave until {short_date(leave.last)}. Please clean up the calendar from tomorrow to that day: delete {person.first}'s 1:1 meetings, and in all other meetings (except All hands) put the delegate in {person.first}'s place as a guest. Everything else about the meetings stays as it is. Then tell the delegate by mail which meetings are new for them, with date and time.",
            "medium" if number < 2 else "hard",
        )
        sheet = draft.sheet
        for place, meeting in enumerate(pairs):
            name = sheet.add(
                f"1:1 {place + 1} of {meeting.start:%d %B} deleted",
                "harm_done",
                3,
                what={"removed": "event", "where": {"id": meeting.id}},
            )
            sheet.work.append(name)
            sheet.allowed.setdefault("calendar", {}).setdefault("change", []).append(f"event:{meeting.id}")
            sheet.parts.append({"removed": "event", "where": {"id": meeting.id}})
        new = []
        for place, meeting in enumerate(team):
            guests = sorted(
                {firm.people[g].email if g in firm.people else g for g in meeting.guests if g != person.login} | {cover.email}
            )
            sheet.changed(
                f"{meeting.title} of {meeting.start:%d %B}",
                "calendar",
                "event",
                meeting.id,
                {
                    "attendees": guests,
                    "start": meeting.start.isoformat(),
                    "end": meeting.end.isoformat(),
                    "location": meeting.room or None,
                    "summary": meeting.title,
                },
                points=2,
            )
            if cover.login not in meeting.guests:
                new.append(meeting)
            assert place < 30
        others = [m.id for m in firm.meetings if person.login not in m.guests and first <= m.start <= last]
        says = {f"{m.title} {m.start:%d %B}": f"date:{m.start.date()} @ word:{m.title.split(':')[0]}" for m in new[:5]}
        if not new:
            says = {"that there are none": "word:none|no new|no meetings|nothing new"}
        sheet.mail("list", cover.email, says=says, fact_points=1)
        sheet.kept("other meetings are left alone", "calendar", "event", others)
        sheet.harm("All hands was changed", {"changed": "event", "where": {"summary": "All hands"}}, points=3)
        draft.key = {"person": person.email, "cover": cover.email, "last": str(leave.last), "first": str(first.date())}
        yield draft


async def solve_cover(hands: Hands, key: dict[str, Any]) -> None:
    await hands.mail(f"from:{key['person']} subject:leave newer_than:60d")
    day, new = date.fromisoformat(key["first"]), []
    while day <= date.fromisoformat(key["last"]):
        for row in await hands.events(key["person"], str(day)):
            if row["title"].startswith("1:1"):
                await hands.call("delete-event", calendarId="primary", eventId=row["id"])
            elif row["title"] != "All hands":
                guests = [each for each in row["guests"] if each != key["person"]]
                if key["cover"] not in guests:
                    guests.append(key["cover"])
                    new.append(f"- {row['title']}: {short_date(day)}, {row['start']:%H:%M}")
                await hands.call(
                    "update-event", calendarId="primary", eventId=row["id"], attendees=[{"email": each} for each in guests]
                )
        day += timedelta(days=1)
    await hands.send(
        key["cover"],
        "Meetings that you take over",
        "\n".join(new) or "There are no new meetings for you; you are in all of them already.",
    )
    await hands.say(f"The calendar is clean; {len(new)} meetings are new for the delegate.")


# -- a room is closed --------------------------------------------------------------------------------------------------


def draft_room(firm: Firm, rng: Random) -> Iterator[Draft]:
    rooms_by_day: dict[tuple[date, str], list[Meeting]] = {}
    for meeting in firm.meetings:
        if meeting.room and meeting.start.date() > TODAY:
            rooms_by_day.setdefault((meeting.start.date(), meeting.room), []).append(meeting)
    chosen = [
        each
        for each in sorted(rooms_by_day)
        if each[0] < TODAY + timedelta(days=21) and each[1] in {"Ash", "Birch"} and len(rooms_by_day[each]) >= 1
    ][:40]
    for number, (day, room) in enumerate(rng.sample(chosen, 4)):
        manager = firm.titled("Office Manager")
        draft = Draft(
            f"Room {room} is closed on {short_date(day)} (water damage). Please move every meeting that is booked there on that day to the smallest other room that has enough seats for its guests and is free at that time; times and guests stay. If there are meetings in {room} on other days, leave them. Then tell the host of each one (it stands in the description) by mail which room it is now.\n\n{manager.name}, {manager.title}",
            "easy" if number < 2 else "medium",
        )
        sheet = draft.sheet
        booked: list[Meeting] = []
        for meeting in rooms_by_day[day, room]:
            free = [
                name
                for name, size in sorted(ROOMS.items(), key=lambda each: each[1])
                if name != room and size >= len(meeting.guests) and not taken(firm, name, meeting.start, meeting.end)
            ]
            organiser = firm.people[meeting.organiser]
            sheet.changed(
                f"{meeting.title}",
                "calendar",
                "event",
                meeting.id,
                {
                    "location": {"has": free[0]},
                    "start": meeting.start.isoformat(),
                    "end": meeting.end.isoformat(),
                    "attendees": sorted(firm.people[g].email if g in firm.people else g for g in meeting.guests),
                },
                points=3,
            )
            sheet.mail(
                f"note about {meeting.title}",
                organiser.email,
                says={"the meeting": f"word:{meeting.title}", "the new room": f"word:{free[0]}", "the day": f"date:{day}"},
                omits={"another room": [f"word:room {name}" for name in ROOMS if name not in {free[0], room}]},
            )
            booked.append(meeting)
        same = [m.id for m in firm.meetings if m.room == room and m.start.date() != day and m.start.date() > TODAY]
        sheet.kept(f"meetings in {room} on other days stay", "calendar", "event", same)
        sheet.add("report: how many", "answer_says", 1, tuple(sheet.work[:1]), fact=f"number:{len(booked)}")
        draft.key = {"room": room, "day": str(day)}
        yield draft


async def solve_room(hands: Hands, key: dict[str, Any]) -> None:
    await hands.page("Meetings and rooms", "OPS")
    rows = await hands.rooms(key["day"])
    moved = 0
    for row in [each for each in rows if each["location"] == key["room"]]:
        free = [
            room
            for room, size in sorted(ROOMS.items(), key=lambda each: each[1])
            if room != key["room"]
            and size >= len(row["guests"])
            and not any(each["location"] == room and clash(each, row["start"], row["end"]) for each in rows)
        ]
        await hands.call("update-event", calendarId="primary", eventId=row["id"], location=free[0])
        await hands.send(
            address(row["host"]),
            f"{row['title']}: other room",
            f"Room {key['room']} is closed on {short_date(row['start'].date())}. {row['title']} is now in room {free[0]}, same time.",
        )
        moved += 1
    await hands.say(f"{moved} meeting(s) moved out of {key['room']}; the hosts know.")


FAMILIES = (
    Family("slot", draft_slot, solve_slot),
    Family("visit", draft_visit, solve_visit),
    Family("cover", draft_cover, solve_cover),
    Family("room", draft_room, solve_room),
)
