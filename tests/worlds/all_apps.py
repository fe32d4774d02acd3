"""Every bundled app, filled with a small firm, for calls with hostile arguments."""

from sandlot.apps import CALENDAR, CHAT, MAIL, WAITING, LiveApps, load_calendar, load_chat, load_mail
from worlds.office_suite import ADA, BOB, EVE, NAMES, SUITE, fill_suite

ALL_APPS = [*SUITE, MAIL, CHAT, CALENDAR, WAITING]
REAL = {
    "project_key": "OPS",
    "jql": "order by created",
    "issue_key": "OPS-1",
    "query": "type = page",
    "page_id": "1",
    "board_id": "1",
    "sprint_id": "1",
    "calendarId": ADA,
    "path": "/files/finance/plan.txt",
    "objectType": "deals",
}
"""Arguments that name something there is."""


def fill(apps: LiveApps) -> None:
    fill_suite(apps)
    people = {email: " ".join(name) for email, name in NAMES.items()}
    letter = {"sender": BOB, "to": [ADA], "subject": "Budget", "body": "The draft.", "at": "2026-01-02T10:00:00Z"}
    load_mail(apps.mail, accounts=people, messages=[letter])
    fair = {"calendar": EVE, "summary": "Fair", "start": "2026-01-07", "end": "2026-01-09", "id": "fair12345"}
    load_calendar(apps.calendar, owners=people, time_zone="Europe/Berlin", events=[fair])
    load_chat(
        apps.chat,
        members=[{"email": email, "real_name": name, "id": f"U{number}"} for number, (email, name) in enumerate(people.items())],
        channels=[{"name": "general", "members": [*people], "id": "CGENERAL"}],
        messages=[{"sender": BOB, "channel": "#general", "text": "Who is on call?", "at": "2026-01-02T10:00:00Z"}],
    )
