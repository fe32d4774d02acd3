"""The calendar: what the tools of the public Google Calendar server do here."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.apps.calendar.load import load_calendar, load_ics
from sandlot.apps.calendar.recurrence import starts_of
from sandlot.apps.calendar.times import EventTime
from sandlot.apps.calendar.tools import CALENDAR
from sandlot.apps.colleague import Colleague
from sandlot.apps.live import LiveApps
from sandlot.apps.mail.load import load_mail
from sandlot.apps.mail.tools import MAIL
from sandlot.apps.waiting import WAITING
from sandlot.core.errors import AuthorError
from worlds.apps import AppWorld

INVALID = "MCP error -32602: Input validation error: Invalid arguments for tool "
ADA, BOB, EVE = "ada@corp.example", "bob@corp.example", "eve@corp.example"
OWNERS = {ADA: "Ada Hale", BOB: "Bob Ward", EVE: "Eve Lin"}


def fill(apps: LiveApps) -> None:
    load_mail(apps.mail, accounts=OWNERS)
    load_calendar(
        apps.calendar,
        owners=OWNERS,
        time_zone="Europe/Berlin",
        events=[
            {
                "calendar": ADA,
                "summary": "Standup",
                "start": "2026-01-05T09:30:00",
                "end": "2026-01-05T09:45:00",
                "attendees": [BOB, EVE],
                "recurrence": ["RRULE:FREQ=DAILY;COUNT=5"],
                "id": "standup1",
            },
            {
                "calendar": BOB,
                "summary": "Dentist",
                "start": "2026-01-06T10:00:00",
                "end": "2026-01-06T11:00:00",
                "visibility": "private",
                "id": "dentist1",
            },
            {
                "calendar": EVE,
                "summary": "Fair",
                "start": "2026-01-07",
                "end": "2026-01-09",
                "location": "Hall 4",
                "id": "fair12345",
            },
        ],
    )


@pytest.fixture
def world() -> AppWorld:
    return AppWorld([CALENDAR, MAIL, WAITING], fill, actor=ADA)


async def ask(world: AppWorld, tool: str, **arguments: Any) -> Any:
    result = await world.result(tool, **arguments)
    assert not result.error, result.text
    return json.loads(result.text)


async def refused(world: AppWorld, tool: str, **arguments: Any) -> str:
    result = await world.result(tool, **arguments)
    assert result.error, result.text
    return result.text


async def test_events_are_listed_as_the_public_server_does(world: AppWorld):
    listed = await ask(world, "list-events", calendarId="primary", timeMin="2026-01-05T00:00:00", timeMax="2026-01-07T00:00:00")
    assert listed["totalCount"] == 2
    first = listed["events"][0]
    assert first["id"] == "standup1_20260105T083000Z"
    assert first["start"] == {"dateTime": "2026-01-05T09:30:00+01:00", "timeZone": "Europe/Berlin"}
    assert first["startDayOfWeek"] == "Monday"
    assert first["recurringEventId"] == "standup1"
    assert [each["responseStatus"] for each in first["attendees"]] == ["accepted", "needsAction", "needsAction"]
    assert first["attendees"][0] == {"email": ADA, "responseStatus": "accepted", "organizer": True, "self": True}
    short = await ask(world, "list-events", calendarId=["Bob Ward", EVE], fields=["description"])
    assert {each["calendarId"] for each in short["events"]} == {BOB, EVE}
    assert "organizer" not in short["events"][0]
    assert short["calendars"] == [BOB, EVE]


async def test_a_private_event_of_another_shows_only_its_time(world: AppWorld):
    listed = await ask(world, "list-events", calendarId=BOB, timeMin="2026-01-06T10:00:00", timeMax="2026-01-06T12:00:00")
    (dentist,) = listed["events"]
    assert dentist["visibility"] == "private"
    assert "Dentist" not in json.dumps(listed)
    assert (
        await ask(
            world, "search-events", calendarId=BOB, query="dentist", timeMin="2026-01-01T00:00:00", timeMax="2026-02-01T00:00:00"
        )
    )["totalCount"] == 0
    world.apps.actor = BOB
    assert (await ask(world, "get-event", calendarId="primary", eventId="dentist1"))["event"]["summary"] == "Dentist"


async def test_calendars_that_are_not_shared_do_not_exist_for_others():
    def alone(apps: LiveApps) -> None:
        load_calendar(apps.calendar, owners={ADA: "Ada", BOB: "Bob"}, shared=False, events=[
            {"calendar": BOB, "summary": "Secret", "start": "2026-01-05T10:00:00", "end": "2026-01-05T11:00:00", "id": "secret1"}
        ])  # fmt: skip

    world = AppWorld([CALENDAR], alone, actor=ADA)
    assert [each["id"] for each in (await ask(world, "list-calendars"))["calendars"]] == [ADA]
    for tool, more in (("list-events", {}), ("get-event", {"eventId": "secret1"}), ("delete-event", {"eventId": "secret1"})):
        assert await refused(world, tool, calendarId=BOB, **more) == "MCP error -32600: Resource not found: Not Found"
    busy = await ask(
        world,
        "get-freebusy",
        calendars=[{"id": BOB}, {"id": "x@corp.example"}],
        timeMin="2026-01-05T00:00:00Z",
        timeMax="2026-01-06T00:00:00Z",
    )
    assert busy["calendars"] == {
        BOB: {"busy": [{"start": "2026-01-05T10:00:00Z", "end": "2026-01-05T11:00:00Z"}]},
        "x@corp.example": {"busy": [], "errors": [{"domain": "global", "reason": "notFound"}]},
    }


async def test_creating_finds_conflicts_blocks_duplicates_and_invites(world: AppWorld):
    times = {"start": "2026-01-06T09:30:00", "end": "2026-01-06T10:30:00"}
    made = await ask(
        world, "create-event", calendarId="primary", summary="Review", attendees=[{"email": BOB}], sendUpdates="all", **times
    )
    assert made["conflicts"][0]["overlap"] == {"duration": "15 minutes", "percentage": "25%"}
    assert made["warnings"] == ["Found 1 scheduling conflict(s)"]
    again = await refused(world, "create-event", calendarId="primary", summary="review", **times)
    assert again.startswith('Duplicate event detected (95% similar). Event "Review" already exists.')
    await ask(world, "create-event", calendarId="primary", summary="review", allowDuplicates=True, **times)
    assert "Invitation: Review @" in world.apps.mail.value("SELECT subject FROM content")
    world.apps.actor = BOB
    assert (await ask(world, "get-event", calendarId="primary", eventId=made["event"]["id"]))["event"]["organizer"] == {
        "email": ADA
    }


async def test_only_the_organizer_changes_an_event_and_guests_answer(world: AppWorld):
    made = await ask(
        world,
        "create-event",
        calendarId="primary",
        summary="Plan",
        start="2026-01-08T14:00:00",
        end="2026-01-08T15:00:00",
        attendees=[{"email": BOB}],
    )
    event = made["event"]["id"]
    world.apps.actor = BOB
    assert "can only be changed by the organizer" in await refused(
        world, "update-event", calendarId="primary", eventId=event, summary="Party"
    )
    assert "writer access" in await refused(world, "update-event", calendarId=ADA, eventId=event, summary="Party")
    answer = await ask(world, "respond-to-event", calendarId="primary", eventId=event, response="declined", comment="ill")
    assert answer["message"] == 'Your response has been set to "declined" with note: "ill"'
    world.apps.actor = ADA
    seen = (await ask(world, "get-event", calendarId="primary", eventId=event))["event"]["attendees"]
    assert [(each["email"], each["responseStatus"]) for each in seen] == [(ADA, "accepted"), (BOB, "declined")]
    assert "You are the organizer" in await refused(
        world, "respond-to-event", calendarId="primary", eventId=event, response="accepted"
    )
    await ask(world, "delete-event", calendarId="primary", eventId=event)
    assert "not found in calendar" in await refused(world, "get-event", calendarId="primary", eventId=event)


async def test_one_instance_of_a_series_is_changed_alone(world: AppWorld):
    span = {"timeMin": "2026-01-05T00:00:00", "timeMax": "2026-01-10T00:00:00"}
    await ask(
        world, "update-event", calendarId="primary", eventId="standup1", modificationScope="thisEventOnly",
        originalStartTime="2026-01-06T09:30:00", start="2026-01-06T11:00:00", end="2026-01-06T11:15:00",
    )  # fmt: skip
    await ask(world, "delete-event", calendarId="primary", eventId="standup1_20260107T083000Z")
    listed = await ask(world, "list-events", calendarId="primary", **span)
    assert [each["start"]["dateTime"][5:16] for each in listed["events"]] == [
        "01-05T09:30",
        "01-06T11:00",
        "01-08T09:30",
        "01-09T09:30",
    ]
    await ask(
        world, "update-event", calendarId="primary", eventId="standup1", modificationScope="thisAndFollowing",
        futureStartDate="2026-01-09T10:00:00", summary="Late standup",
    )  # fmt: skip
    listed = await ask(world, "list-events", calendarId="primary", **span)
    assert [each["summary"] for each in listed["events"]][-1] == "Late standup"


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        (
            "get-event",
            {},
            (INVALID + "get-event: Invalid input: expected string, received"
            " undefined at calendarId\nInvalid input: expected string, received undefined at eventId"),
        ),
        (
            "list-events",
            {"calendarId": "primary", "timeMin": "garbage"},
            (INVALID + "list-events: Must be ISO 8601 format:"
            " '2026-01-01T00:00:00' at timeMin"),
        ),
        (
            "create-events",
            {"events": []},
            (INVALID + "create-events: Too small: expected array to have"
            " >=1 items at events"),
        ),
        (
            "create-event",
            {
                "calendarId": "primary", "summary": "x", "start": "2026-01-01T10:00:00", "end": "2026-01-01T10:00:00",
                "attendees": [{"email": "zz"}], "duplicateSimilarityThreshold": 3,
            },
            (INVALID + "create-event: Invalid email address at"
            " attendees[0].email\nToo big: expected number to be <=1 at duplicateSimilarityThreshold"),
        ),
        (
            "respond-to-event",
            {"calendarId": "primary", "eventId": "x", "response": "yes"},
            (INVALID + "respond-to-event: Invalid option: expected one of"
            ' "needsAction"|"declined"|"tentative"|"accepted" at response'),
        ),
    ],
)  # fmt: skip
async def test_wrong_arguments_are_reported_in_the_words_of_the_public_server(
    world: AppWorld, tool: str, arguments: Any, text: str
):
    """Copied from what the public server answered."""
    assert await refused(world, tool, **arguments) == text


async def test_many_events_are_created_and_failures_listed(world: AppWorld):
    good = {"summary": "A", "start": "2026-01-12T10:00:00", "end": "2026-01-12T11:00:00"}
    answer = await ask(world, "create-events", events=[good, good | {"end": "2026-01-12T09:00:00"}])
    assert (answer["totalCreated"], answer["totalFailed"]) == (1, 1)
    assert "time range is empty" in answer["failed"][0]["error"]
    assert (await world.result("create-events", events=[good | {"end": "2026-01-12T09:00:00"}] * 5)).error


async def test_the_time_is_the_worlds(world: AppWorld):
    now = await ask(world, "get-current-time")
    assert now == {
        "currentTime": "2026-01-05T10:00:20.000+01:00", "timezone": "Europe/Berlin", "offset": "+01:00", "isDST": False,
        "dayOfWeek": "Monday",
    }  # fmt: skip
    assert "Invalid timezone" in await refused(world, "get-current-time", timeZone="Mars/Base")


async def test_a_colleague_accepts_if_free_and_declines_if_not(world: AppWorld):
    world.apps.colleagues.append(Colleague(email=BOB, minutes=10, apps=("calendar",)))
    for hour in ("10", "15"):
        await ask(
            world,
            "create-event",
            calendarId="primary",
            summary=f"Talk {hour}",
            start=f"2026-01-06T{hour}:00:00",
            end=f"2026-01-06T{hour}:30:00",
            attendees=[{"email": BOB}],
        )
    await world.call("wait", minutes=15)
    responses = world.apps.calendar.rows(
        "SELECT response FROM attendee WHERE email = ? AND event NOT IN ('standup1') ORDER BY rowid", BOB
    )
    assert [row["response"] for row in responses] == ["declined", "accepted"]


def test_an_icalendar_file_is_loaded(tmp_path: Path):
    (tmp_path / "team.ics").write_text(
        "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:1\r\nSUMMARY:Quarterly\\, with\r\n  cake\r\n"
        "DTSTART;TZID=Europe/Berlin:20260302T100000\r\n"
        "DTEND;TZID=Europe/Berlin:20260302T110000\r\nRRULE:FREQ=MONTHLY;COUNT=2\r\n"
        "ATTENDEE;CN=Bob;PARTSTAT=ACCEPTED:mailto:bob@corp.example\r\nBEGIN:VALARM\r\nSUMMARY:alarm\r\nEND:VALARM\r\nEND:VEVENT\r\n"
        "BEGIN:VEVENT\r\nSUMMARY:Holiday\r\nDTSTART;VALUE=DATE:20260406\r\nDTEND;VALUE=DATE:20260407\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    )

    def loaded(apps: LiveApps) -> None:
        load_calendar(apps.calendar, owners=OWNERS)
        assert load_ics(apps.calendar, tmp_path / "team.ics", ADA) == 2

    rows = AppWorld([CALENDAR], loaded).apps.calendar.rows("SELECT summary, start, end, recurrence FROM event ORDER BY start")
    assert rows == [
        {
            "summary": "Quarterly, with cake",
            "start": "2026-03-02T09:00:00Z",
            "end": "2026-03-02T10:00:00Z",
            "recurrence": '["RRULE:FREQ=MONTHLY;COUNT=2"]',
        },
        {"summary": "Holiday", "start": "2026-04-06", "end": "2026-04-07", "recurrence": None},
    ]
    (tmp_path / "bad.ics").write_text("BEGIN:VEVENT\nSUMMARY:x\nEND:VEVENT\n")
    world = AppWorld([CALENDAR], fill_owners)
    with pytest.raises(AuthorError, match="`DTSTART` is '', not a time"):
        load_ics(world.apps.calendar, tmp_path / "bad.ics", ADA)


def fill_owners(apps: LiveApps) -> None:
    load_calendar(apps.calendar, owners=OWNERS)


@pytest.mark.parametrize(
    ("rule", "days"),
    [
        ("FREQ=DAILY;INTERVAL=2;COUNT=3", ["03-27", "03-29", "03-31"]),
        ("FREQ=WEEKLY;BYDAY=MO,FR;COUNT=4", ["03-27", "03-30", "04-03", "04-06"]),
        ("FREQ=WEEKLY;UNTIL=20260411T000000Z", ["03-27", "04-03", "04-10"]),
        ("FREQ=MONTHLY;BYDAY=-1FR;COUNT=3", ["03-27", "04-24", "05-29"]),
        ("FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=2", ["03-31", "04-30"]),
        ("FREQ=YEARLY;COUNT=2", ["03-27", "03-27"]),
    ],
)
def test_the_starts_of_a_series(rule: str, days: list[str]):
    first = EventTime("2026-03-27T08:00:00Z", "Europe/Berlin")  # nine o'clock; summer time begins two days later
    starts = list(starts_of(first, [f"RRULE:{rule}"], datetime(2026, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)))
    assert [start.text[5:10] for start in starts] == days
    assert {start.shown()["dateTime"][11:16] for start in starts} == {"09:00"}


@given(st.text(alphabet="RULE:FQ=DAILYWKMONTH;COUNT-0123456789BYD,", max_size=40))
def test_no_rule_an_agent_writes_breaks_the_calendar(rule: str):
    first = EventTime("2026-01-31", "UTC")
    for line in (rule, f"RRULE:FREQ=MONTHLY;{rule}", f"RRULE:FREQ=YEARLY;INTERVAL={rule}"):
        list(starts_of(first, [line], datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)))
