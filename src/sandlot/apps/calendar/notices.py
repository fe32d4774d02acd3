"""What others learn of a change in a calendar: a mail to those invited, and colleagues who accept or decline."""

from typing import Any

from sandlot.apps.calendar.calendars import CALENDAR, attendees_of, busy_in, end_of, start_of
from sandlot.apps.live import LiveApp

_SENDER = "calendar-notification@google.com"


def notify(app: LiveApp, row: dict[str, Any], what: str, updates: str | None) -> None:
    """Mail those invited, if the world has mail and the change was to be sent; and let colleagues answer an invitation."""
    guests = [each for each in attendees_of(app, row) if each["email"] != row["organizer"]]
    if updates == "all" and "mail" in app.apps:
        from sandlot.apps.mail.mailbox import Letter, send_from_outside  # noqa: PLC0415 - only in worlds that have mail

        start = start_of(row).shown()
        when = start.get("dateTime") or start["date"]
        subject = f"{what}: {row['summary']} @ {when} ({row['organizer']})"
        body = "\n".join(
            filter(None, [row["summary"], when, row["location"], row["description"], f"Organizer: {row['organizer']}"])
        )
        for each in guests:
            letter = Letter(sender=_SENDER, to=(each["email"],), subject=subject[:500], body=body)
            send_from_outside(app.apps["mail"], letter)
    colleagues = {each.email: each for each in app.apps.colleagues if app.name in each.apps}
    for each in guests:
        if each["email"] in colleagues and each["response"] == "needsAction":
            app.schedule("colleague_responds", colleagues[each["email"]].minutes * 60, event=row["id"], email=each["email"])


@CALENDAR.event
def colleague_responds(app: LiveApp, *, event: str, email: str) -> None:
    """A colleague accepts an invitation, or declines it if that time is taken."""
    row = app.one("SELECT * FROM event WHERE id = ?", event)
    calendar = app.one("SELECT * FROM calendar WHERE owner = ? AND is_main", email)
    if row is None:
        return
    taken = calendar and busy_in(app, calendar, start_of(row).moment, end_of(row).moment, without=event)
    response = "declined" if taken else "accepted"
    app.run("UPDATE attendee SET response = ? WHERE event = ? AND email = ?", response, event, email)
