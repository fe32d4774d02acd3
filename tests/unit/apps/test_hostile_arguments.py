"""Whatever an argument holds, a bundled app answers the agent: with a result or an error, never with a crash of its own."""

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sandlot.apps import App, LiveApp, LiveApps
from sandlot.apps.calendar import times
from sandlot.apps.live import AppsSnapshot
from sandlot.apps.tool import AppTool, tools_of
from sandlot.core.errors import AuthorError
from sandlot.core.trace import ToolCall
from sandlot.sandbox.memory import MemoryFiles
from worlds.all_apps import ALL_APPS, REAL, fill
from worlds.apps import AppWorld
from worlds.hostile_calls import NUMBERS, hostile_values, with_real
from worlds.office_suite import ADA

ALWAYS = 2
"""Texts and other values that each argument is tried with here; the system test tries all of them."""


@pytest.fixture(scope="module")
def base() -> AppsSnapshot:
    return AppWorld(ALL_APPS, fill, actor=ADA).base


def open_apps(base: AppsSnapshot) -> LiveApps:
    apps = LiveApps(ALL_APPS, base)
    apps.actor, apps.world = ADA, cast("Any", MemoryFiles())
    apps.begin()
    return apps


async def crash_of(apps: LiveApps, tool: AppTool, **arguments: Any) -> str:
    """What the tool raised; empty if it answered."""
    call = ToolCall(id="1", name=tool.spec.name, arguments=arguments)
    try:
        await tool.call(cast("Any", SimpleNamespace(apps=apps)), call)
    except AuthorError as error:
        return f"{tool.spec.name} {str(arguments)[:200]}: {error}"[:600]
    return ""


TOOLS = cast("list[AppTool]", tools_of(ALL_APPS))


AT_ONCE = 8
"""Tools of one test."""


@pytest.mark.parametrize("first", range(0, len(TOOLS), AT_ONCE))
async def test_no_number_and_no_text_crashes_a_tool(base: AppsSnapshot, first: int):
    crashes: list[str] = []
    for tool in TOOLS[first : first + AT_ONCE]:
        schema, rng = tool.spec.parameters, Random(tool.spec.name)
        by_name: dict[str, list[Any]] = {}
        for name, value in hostile_values(schema):
            by_name.setdefault(name, []).append(value)
        apps = open_apps(base)
        for name, values in by_name.items():
            numbers = [value for value in values if any(value is number for number in NUMBERS)]
            others = [value for value in values if not any(value is number for number in NUMBERS)]
            for value in (*numbers, *rng.sample(others, min(ALWAYS, len(others)))):
                crashes.append(await crash_of(apps, tool, **{**with_real(schema, REAL), name: value}))
        apps.close()
    assert not [crash for crash in crashes if crash]


@pytest.mark.system
@pytest.mark.timeout(300)
@pytest.mark.parametrize("app", [app.name for app in ALL_APPS])
async def test_no_value_at_all_crashes_a_tool(base: AppsSnapshot, app: str):
    crashes: list[str] = []
    for tool in TOOLS:
        if tool.app.name == app:
            apps, schema = open_apps(base), tool.spec.parameters
            for name, value in hostile_values(schema):
                crashes.append(await crash_of(apps, tool, **{**with_real(schema, REAL), name: value}))
            apps.close()
    assert not [crash for crash in crashes if crash]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("jira_search", {"jql": "order by created", "start_at": 2**63}),
        ("jira_search", {"jql": "order by created", "page_token": "²"}),
        ("jira_search", {"jql": "timespent > " + "9" * 6000}),
        ("jira_search", {"jql": "key > OPS-" + "9" * 6000}),
        ("jira_get_project_issues", {"project_key": "OPS", "start_at": 2**63}),
        ("jira_get_sprint_issues", {"sprint_id": "²"}),
        ("get-current-time", {"timeZone": "a/b" * 1000}),
        ("list-events", {"calendarId": "[" * 3000}),
        ("list-trial-balance", {"date": "0001-01-01"}),
        ("list-report-balance-sheet", {"date": "0001-01-01"}),
    ],
)
async def test_these_calls_once_crashed_their_app(base: AppsSnapshot, tool: str, arguments: dict[str, Any]):
    found = next(each for each in TOOLS if each.spec.name == tool)
    apps = open_apps(base)
    assert not await crash_of(apps, found, **arguments)
    apps.close()


@pytest.mark.parametrize(
    ("tool", "name"),
    [("jira_search_fields", "limit"), ("jira_get_agile_boards", "start_at"), ("jira_search_projects", "max_results")],
)
async def test_a_whole_number_written_with_a_point_is_that_number(base: AppsSnapshot, tool: str, name: str):
    found = next(each for each in TOOLS if each.spec.name == tool)
    apps, given = open_apps(base), with_real(found.spec.parameters, REAL)
    texts = [
        await found.call(cast("Any", SimpleNamespace(apps=apps)), ToolCall("1", tool, {**given, name: value}))
        for value in (2, 2.0)
    ]
    assert texts[0].text == texts[1].text
    assert not texts[1].error
    apps.close()


NOTES = App("notes", schema="CREATE TABLE note (number INTEGER)")


@NOTES.tool
def number_note(app: LiveApp, number: int, share: float = 0.5) -> str:
    """Number a note."""
    app.insert("note", number=number)
    return f"{number!r} {share!r}"


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30, 1e300, float("nan"), float("inf"), 2.5])
async def test_a_number_that_no_database_holds_is_an_error_to_the_agent(number: float):
    world = AppWorld([NOTES])
    assert (await world.result("number_note", number=number)).error
    assert world.apps.notes.value("SELECT count(*) FROM note") == 0
    assert await world.call("number_note", number=3.0) == "3 0.5"


def test_names_of_time_zones_are_bounded_in_length_and_number():
    known = times._known_zone.cache_info()
    assert times.zone_of("Europe/" * 1000) is None
    assert times._known_zone.cache_info() == known
    assert known.maxsize == 1000
    assert str(times.zone_of("America/Argentina/ComodRivadavia")) == "America/Argentina/ComodRivadavia"
