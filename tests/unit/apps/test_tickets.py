import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.apps import TICKETS, Colleague, FinalApps, KnownFact, LiveApps, load_tickets, read_jira_csv
from sandlot.apps.final import encode_journal
from sandlot.core.errors import ConfigError
from worlds.apps import AppWorld, dump

ADA, BOB, EVE = "ada@corp.example", "bob@corp.example", "eve@corp.example"
SEED: dict[str, Any] = {
    "people": [
        {"display_name": name, "email": email} for name, email in (("Ada Hale", ADA), ("Bob Ward", BOB), ("Eve Lin", EVE))
    ],
    "projects": [
        {
            "key": "OPS",
            "name": "Operations",
            "lead": ADA,
            "components": ["api", "web"],
            "versions": [{"name": "1.0", "released": True}, {"name": "1.1"}],
            "boards": [{"name": "OPS board", "sprints": [{"name": "Sprint 1", "state": "active"}, {"name": "Sprint 2"}]}],
        },
        {"key": "SEC", "name": "Security", "permissions": {BOB: "write"}},
        {"key": "POL", "name": "Policies", "permissions": {"*": "read", EVE: "admin"}},
        {
            "key": "CHG",
            "name": "Changes",
            "transitions": [
                {"id": "5", "name": "Start", "from_status": "To Do", "to_status": "In Progress"},
                {"id": "6", "name": "Close", "from_status": "In Progress", "to_status": "Done", "needs": "resolution"},
            ],
        },
    ],
    "issues": [
        {
            "key": "OPS-1",
            "summary": "Printer on fire",
            "type": "Bug",
            "priority": "High",
            "assignee": BOB,
            "reporter": ADA,
            "created": "2026-01-01T10:00:00Z",
            "labels": ["hardware"],
            "components": ["api"],
            "fix_versions": ["1.1"],
            "sprint": "Sprint 1",
            "story_points": 3,
            "comments": [{"author": BOB, "body": "The toner is leaking", "created": "2026-01-02T10:00:00Z"}],
        },
        {"key": "OPS-2", "summary": "Move to the new office", "type": "Epic", "created": "2025-06-01T10:00:00Z"},
        {
            "key": "OPS-3",
            "summary": "Order desks",
            "status": "Done",
            "resolution": "Done",
            "resolved": "2025-12-01T09:00:00Z",
            "parent": "OPS-2",
            "priority": "Low",
            "duedate": "2025-12-24",
        },
        {"key": "SEC-1", "summary": "Printer password"},
        {"key": "POL-1", "summary": "Travel policy"},
        {"key": "CHG-1", "summary": "Change"},
    ],
}


def fill(apps: LiveApps) -> None:
    load_tickets(apps.tickets, SEED)


@pytest.fixture
def world() -> AppWorld:
    return AppWorld([TICKETS], fill, actor=ADA)


async def found(world: AppWorld, jql: str) -> list[str]:
    result = await world.call("jira_search", jql=jql, fields="summary", limit=50)
    assert result.startswith("{"), result
    return sorted(issue["key"] for issue in json.loads(result)["issues"])


@pytest.mark.parametrize(
    ("jql", "keys"),
    [
        ("project = OPS", ["OPS-1", "OPS-2", "OPS-3"]),
        ("project = Operations and status = done", ["OPS-3"]),
        ("text ~ printer", ["OPS-1"]),  # SEC-1 has it too, but Ada may not see it
        ('comment ~ "leak*"', ["OPS-1"]),
        ("summary !~ printer AND project in (OPS, CHG)", ["CHG-1", "OPS-2", "OPS-3"]),
        ("assignee = bob@corp.example", ["OPS-1"]),
        ('assignee = "Bob Ward" OR assignee is EMPTY', ["CHG-1", "OPS-1", "OPS-2", "OPS-3", "POL-1"]),
        ("reporter = currentUser()", ["OPS-1"]),
        ("labels in (hardware, other)", ["OPS-1"]),
        ("labels not in (other)", ["OPS-1"]),
        ("priority > Medium", ["OPS-1"]),
        ("priority <= Low", ["OPS-3"]),
        ("created >= 2026-01-01 AND created < 2026-01-02", ["OPS-1"]),
        ("created >= -30d AND project = OPS", ["OPS-1", "OPS-3"]),
        ("due < startOfYear()", ["OPS-3"]),
        ("sprint in openSprints()", ["OPS-1"]),
        ('sprint = "Sprint 1"', ["OPS-1"]),
        ("fixVersion in unreleasedVersions()", ["OPS-1"]),
        ("fixVersion in releasedVersions()", []),
        ('"Story Points" >= 3', ["OPS-1"]),
        ("cf[10016] = 3", ["OPS-1"]),
        ("parent = OPS-2", ["OPS-3"]),
        ("statusCategory = Done", ["OPS-3"]),
        ("resolution is not empty", ["OPS-3"]),
        ("NOT (project = OPS OR project = CHG)", ["POL-1"]),
        ("key > OPS-1 and key <= OPS-3", ["OPS-2", "OPS-3"]),
        ("component = api AND type = Bug", ["OPS-1"]),
    ],
)
async def test_jql_finds_what_it_says(world: AppWorld, jql: str, keys: list[str]):
    assert await found(world, jql) == keys


@pytest.mark.parametrize(
    ("jql", "said"),
    [
        ("status was Done", "'WAS' is not supported"),
        ("status changed", "'CHANGED' is not supported"),
        ("nonsense = 1", "Field 'nonsense' does not exist"),
        ("(project = OPS", "expecting ')'"),
        ("project", "expecting an operator"),
        ("project = OPS OPS", "expecting either 'OR' or 'AND'"),
        ("created > yesterday", "Date value 'yesterday'"),
        ("summary = x", "'=' is not supported by the 'summary' field"),
        ("x' OR 1=1 --", "reserved or unclosed"),
        ("(" * 100 + "project = OPS" + ")" * 100, "nested more than"),
        ("assignee in membersOf(x)", "membersof()"),
        ("project = OPS ORDER BY labels", "cannot be sorted"),
    ],
)
async def test_jql_that_cannot_be_is_refused_by_name(world: AppWorld, jql: str, said: str):
    result = await world.result("jira_search", jql=jql)
    assert result.error
    assert said in result.text


@given(st.text(alphabet="abOPS-1 =!~<>()\"'\\,*%?;andorinstrewby", max_size=60))
def test_no_query_reaches_the_database_as_sql(jql: str):
    """Whatever the text: found issues or a refusal; never an SQL error, never an issue that the actor may not see."""
    from sandlot.apps.tickets.reading import search_issues
    from sandlot.core.errors import ToolError

    app = WORLD.apps.tickets
    try:
        sql, values = search_issues(app, jql)
    except ToolError:
        return
    assert not {"SEC-1"} & {row["key"] for row in app.rows(f"SELECT i.key {sql}", *values)}


WORLD = AppWorld([TICKETS], fill, actor=ADA)


async def test_an_issue_goes_through_the_workflow_and_its_history_tells(world: AppWorld):
    made = json.loads(
        await world.call(
            "jira_create_issue",
            project_key="OPS",
            summary="Fix the lift",
            issue_type="Task",
            assignee=BOB,
            components="web",
            additional_fields='{"labels": ["urgent"], "priority": {"name": "Highest"}, "fixVersions": [{"name": "1.1"}]}',
        )
    )
    assert made["issue"]["key"] == "OPS-4"
    assert made["issue"]["priority"] == {"name": "Highest"}
    steps = json.loads(await world.call("jira_get_transitions", issue_key="OPS-4"))
    done = next(step["id"] for step in steps if step["to_status"] == "Done")
    await world.call("jira_transition_issue", issue_key="OPS-4", transition_id=done, comment="It goes up again.")
    issue = json.loads(await world.call("jira_get_issue", issue_key="OPS-4", fields="*all", include="changelog,comments"))
    assert (issue["status"]["name"], issue["resolution"]["name"]) == ("Done", "Done")
    assert issue["comments"][0]["body"] == "It goes up again."
    assert {"field": "status", "fieldtype": "jira", "from_string": "To Do", "to_string": "Done"} in issue["changelogs"][-1][
        "items"
    ]
    await world.call("jira_update_issue", issue_key="OPS-4", fields='{"status": "In Progress"}')
    assert world.apps.tickets.value("SELECT resolution FROM issue WHERE key = 'OPS-4'") is None


async def test_a_project_with_its_own_workflow_allows_its_steps_only(world: AppWorld):
    refused = await world.result("jira_transition_issue", issue_key="CHG-1", transition_id="41")
    assert "not valid for the current state" in refused.text
    await world.call("jira_transition_issue", issue_key="CHG-1", transition_id="5")
    assert "Resolution is required" in await world.call("jira_transition_issue", issue_key="CHG-1", transition_id="6")
    await world.call("jira_transition_issue", issue_key="CHG-1", transition_id="6", fields='{"resolution": {"name": "Fixed"}}')
    assert world.apps.tickets.value("SELECT resolution FROM issue WHERE key = 'CHG-1'") == "Fixed"


async def test_what_may_not_be_seen_does_not_exist_and_what_may_only_be_read_stays(world: AppWorld):
    assert "not found" in await world.call("jira_get_issue", issue_key="SEC-1")
    assert "No project could be found" in await world.call("jira_create_issue", project_key="SEC", summary="x", issue_type="Task")
    assert "do not have permission" in await world.call("jira_add_comment", issue_key="POL-1", body="Hello")
    assert "POL" in await world.call("jira_get_all_projects")
    assert not world.apps.journal


async def test_a_refused_update_changes_nothing(world: AppWorld):
    result = await world.result("jira_update_issue", issue_key="OPS-1", fields='{"summary": "New", "priority": "Sky-high"}')
    assert "priority selected is invalid" in result.text
    assert world.apps.tickets.value("SELECT summary FROM issue WHERE key = 'OPS-1'") == "Printer on fire"


async def test_sprints_links_work_and_versions(world: AppWorld):
    assert "added 1 issue" in await world.call("jira_add_issues_to_sprint", sprint_id="2", issue_keys="OPS-1")
    assert await found(world, "sprint = 2") == ["OPS-1"]
    assert await found(world, "sprint = 1") == []
    assert "Failed to update sprint" in await world.call("jira_update_sprint", sprint_id="2", state="active")  # one is active
    await world.call("jira_create_issue_link", link_type="Blocks", inward_issue_key="OPS-1", outward_issue_key="OPS-2")
    linked = json.loads(await world.call("jira_get_issue", issue_key="OPS-2", fields="issuelinks"))
    assert linked["issuelinks"][0]["inward_issue"]["key"] == "OPS-1"
    await world.call("jira_add_worklog", issue_key="OPS-1", time_spent="1d 2h")
    assert world.apps.tickets.value("SELECT time_spent_s FROM issue WHERE key = 'OPS-1'") == 10 * 3600
    made = json.loads(await world.call("jira_create_version", project_key="OPS", name="2.0"))
    await world.call("jira_update_version", version_id=made["id"], released=True)
    assert world.apps.tickets.value("SELECT released FROM version WHERE name = '2.0'") == 1


async def test_a_colleague_answers_a_comment_after_some_time(world: AppWorld):
    knows = KnownFact(("toner",), "It is in the cupboard.")
    world.apps.colleagues.append(Colleague(email=BOB, facts=(knows,), minutes=10, apps=("tickets",)))
    await world.call("jira_add_comment", issue_key="OPS-1", body="Where is the toner?")
    world.apps.pass_time(601)
    last = world.apps.tickets.rows("SELECT body, author FROM comment WHERE issue = 'OPS-1' ORDER BY id")[-1]
    assert last["body"] == "It is in the cupboard."
    assert world.apps.journal[-1].cause == "event"


async def test_the_same_acts_leave_the_same_bytes_and_the_journal_replays_them():
    async def play() -> AppWorld:
        world = AppWorld([TICKETS], fill, actor=ADA)
        await world.call("jira_create_issue", project_key="OPS", summary="One", issue_type="Task")
        await world.call("jira_add_comment", issue_key="OPS-1", body="Two")
        await world.call("jira_delete_issue", issue_key="OPS-3")
        return world

    one, two = await play(), await play()
    assert one.apps.freeze().states == two.apps.freeze().states
    final = FinalApps(one.base.states, encode_journal(one.apps.journal), one.apps.clock.text).tickets
    assert dump(final.rows) == dump(one.apps.tickets.rows)
    assert final.value("SELECT rowid FROM issue_words WHERE issue_words MATCH 'two'") == 1


def test_the_csv_that_jira_exports_is_read():
    text = (
        "Summary,Issue key,Issue Type,Status,Priority,Assignee,Created,Labels,Labels,Comment\n"
        '"Fix, it",OPS-9,Bug,To Do,High,ada@corp.example,05/Jan/26 9:00 AM,a,b,"06/Jan/26 1:30 PM;bob@corp.example;Done; twice"\n'
    )
    issues = read_jira_csv(text)
    assert issues[0]["labels"] == ["a", "b"]
    assert issues[0]["comments"] == [{"created": "2026-01-06T13:30:00Z", "author": BOB, "body": "Done; twice"}]
    world = AppWorld([TICKETS], lambda apps: load_tickets(apps.tickets, SEED | {"issues": issues}))
    assert world.apps.tickets.value("SELECT created FROM issue WHERE key = 'OPS-9'") == "2026-01-05T09:00:00Z"
    with pytest.raises(ConfigError, match="not an export of Jira"):
        read_jira_csv("a,b\n1,2\n")


def test_a_seed_with_an_unknown_name_is_refused():
    with pytest.raises(ConfigError, match="no person `who@x`"):
        AppWorld([TICKETS], lambda apps: load_tickets(apps.tickets, {"projects": [{"key": "A", "name": "A", "lead": "who@x"}]}))


async def test_an_issue_is_linked_to_an_epic_and_to_no_other_issue(world: AppWorld):
    refused = await world.result("jira_link_to_epic", issue_key="OPS-1", epic_key="OPS-3")
    assert refused.error
    assert "OPS-3 is not an Epic" in refused.text
    await world.call("jira_link_to_epic", issue_key="OPS-1", epic_key="OPS-2")
    assert world.apps.tickets.value("SELECT parent FROM issue WHERE key = 'OPS-1'") == "OPS-2"
