"""The HR directory: who sees pay, and who decides."""

import json
from typing import Any

import pytest

from sandlot.apps.directory import DIRECTORY
from sandlot.apps.directory.loading import load_directory
from sandlot.apps.live import LiveApps
from sandlot.core.errors import AuthorError
from worlds.apps import AppWorld

CEO, LEAD, DEV, HR = "ceo@corp.example", "lead@corp.example", "dev@corp.example", "hr@corp.example"


def fill(apps: LiveApps) -> None:
    load_directory(
        apps.directory,
        employees=[
            {
                "email": DEV,
                "first_name": "Dan",
                "last_name": "Eve",
                "title": "Developer",
                "department": "Engineering",
                "manager": LEAD,
                "pay": 60000,
            },
            {
                "email": LEAD,
                "first_name": "Lea",
                "last_name": "Dorn",
                "title": "Lead",
                "department": "Engineering",
                "manager": CEO,
                "pay": 80000,
            },
            {"email": CEO, "first_name": "Cem", "last_name": "Oz", "title": "CEO", "department": "Management", "pay": 200000},
            {
                "email": HR,
                "first_name": "Hana",
                "last_name": "Rys",
                "title": "HR",
                "department": "People",
                "manager": CEO,
                "is_hr": True,
            },
        ],
        time_off=[{"employee": DEV, "kind": "Vacation", "start": "2026-01-05", "end": "2026-01-09", "status": "approved"}],
    )


@pytest.fixture
def world() -> AppWorld:
    return AppWorld([DIRECTORY], fill, actor=DEV)


async def test_reading_as_the_public_server_shows_it(world: AppWorld):
    assert await world.call("bamboo_find_employee", query="lea dorn") == (
        "**Lea Dorn**\nEmail: lead@corp.example\nJob Title: Lead\nDepartment: Engineering\nEmployee ID: 102"
    )
    assert await world.call("bamboo_find_employee", query="zzz") == 'No employee found matching "zzz"'
    assert (await world.call("bamboo_find_employee")).startswith("Missing required parameter: query.")
    assert (
        await world.call("bamboo_whos_out")
        == "**Who's Out: 2026-01-05 to 2026-01-05**\n\n• **Dan Eve** (2026-01-05 to 2026-01-09)"
    )
    assert "• **Engineering** - 2 employees (50.0%)" in await world.call("bamboo_list_departments")
    assert (await world.call("bamboo_team_info", department="engin")).startswith("**engin Team (2 employees)**")


@pytest.mark.parametrize(
    ("actor", "sees"),
    [(DEV, {101}), (LEAD, {101, 102}), (CEO, {101, 102, 103, 104}), (HR, {101, 102, 103, 104}), ("x@out.example", set[int]())],
)
async def test_pay_is_shown_to_the_person_the_managers_above_and_hr(world: AppWorld, actor: str, sees: set[int]):
    world.apps.actor = actor
    shown = {number: json.loads(await world.call("hr_get_employee", employee_id=number)) for number in (101, 102, 103, 104)}
    assert {number for number, each in shown.items() if "pay" in each} == sees


async def test_time_off_is_requested_and_decided_by_a_manager(world: AppWorld):
    made: dict[str, Any] = json.loads(
        await world.call("hr_request_time_off", kind="Vacation", start="2026-03-06", end="2026-03-09")
    )
    assert (made["status"], made["days"]) == ("pending", 2)  # Friday and Monday
    again = await world.call("hr_request_time_off", kind="Vacation", start="2026-03-09", end="2026-03-10")
    assert again == "There is already a request for some of these days."
    assert "Only the managers above" in await world.call("hr_decide_time_off", request_id=made["request_id"], decision="approved")
    world.apps.actor = LEAD
    assert (
        json.loads(await world.call("hr_decide_time_off", request_id=made["request_id"], decision="approved"))["status"]
        == "approved"
    )
    assert "already approved" in await world.call("hr_decide_time_off", request_id=made["request_id"], decision="denied")
    balance = json.loads(await world.call("hr_time_off_balance", employee_id=101))
    assert balance == {"year": 2026, "allowed": 25.0, "approved": 7.0, "pending": 0.0, "left": 18.0}
    assert len(json.loads(await world.call("hr_list_time_off", status="approved"))) == 2


async def test_a_request_beyond_the_allowance_or_without_workdays_is_refused(world: AppWorld):
    assert "are left" in await world.call("hr_request_time_off", kind="Vacation", start="2026-02-02", end="2026-06-02")
    assert "no workday" in await world.call("hr_request_time_off", kind="Sick", start="2026-02-07", end="2026-02-08")
    assert "YYYY-MM-DD" in await world.call("hr_request_time_off", kind="Sick", start="tomorrow", end="2026-02-08")


async def test_only_hr_changes_records_and_no_one_manages_their_own_manager(world: AppWorld):
    assert (
        await world.call("hr_update_employee", employee_id=101, field="title", value="CEO")
        == "Only HR can change employee records."
    )
    world.apps.actor = HR
    assert "is below this one" in await world.call("hr_update_employee", employee_id=103, field="manager", value="101")
    assert json.loads(await world.call("hr_update_employee", employee_id=101, field="manager", value="103"))["manager"] == 103


def test_a_manager_who_is_not_there_is_an_error():
    record = {"email": DEV, "first_name": "D", "last_name": "E", "manager": "gone@corp.example"}
    with pytest.raises(AuthorError, match=r"has no employee `gone@corp\.example`"):
        AppWorld([DIRECTORY], lambda apps: load_directory(apps.directory, employees=[record]))
