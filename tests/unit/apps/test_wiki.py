import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.apps import WIKI, FinalApps, LiveApps, load_wiki, read_markdown_folder
from sandlot.apps.final import encode_journal
from sandlot.apps.wiki.storage import markdown_of
from worlds.apps import AppWorld, dump

ADA, BOB = "ada@corp.example", "bob@corp.example"
RUNBOOK = "Intro\n\n## Check\n\nrun df\n\n### Detail\n\nmore\n\n## Fix\n\ndelete logs\n"
SEED: dict[str, Any] = {
    "people": [{"display_name": "Ada Hale", "email": ADA}, {"display_name": "Bob Ward", "email": BOB}],
    "spaces": [
        {"key": "OPS", "name": "Operations"},
        {"key": "HR", "name": "People", "permissions": {BOB: "admin"}},
        {"key": "POL", "name": "Policies", "permissions": {"*": "read"}},
    ],
    "pages": [
        {"space": "OPS", "title": "Runbooks", "content": "All of them"},
        {
            "space": "OPS",
            "title": "Disk full",
            "parent": "Runbooks",
            "content": RUNBOOK,
            "author": BOB,
            "labels": ["runbook"],
            "versions": [{"content": "old words", "author": BOB, "at": "2025-01-01T00:00:00Z"}],
        },
        {"space": "OPS", "title": "Keys", "content": "disk of the safe", "read": [BOB]},
        {"space": "OPS", "title": "Below", "parent": "Keys", "content": "disk below"},
        {"space": "OPS", "title": "Frozen", "content": "only Bob edits", "edit": [BOB]},
        {"space": "HR", "title": "Salaries", "content": "disk of salaries"},
        {"space": "POL", "title": "Travel", "content": "At most 100 a night"},
    ],
}
REFS: dict[str, int] = {}


def fill(apps: LiveApps) -> None:
    REFS.update(load_wiki(apps.wiki, SEED))


@pytest.fixture
def world() -> AppWorld:
    return AppWorld([WIKI], fill, actor=ADA)


def page(title: str) -> str:
    return str(REFS[title])


async def found(world: AppWorld, query: str) -> list[str]:
    return sorted(each["title"] for each in json.loads(await world.call("confluence_search", query=query, limit=50)))


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ("disk", ["Disk full"]),  # Keys, what is below it and Salaries are not for Ada
        ("space = OPS AND label = runbook", ["Disk full"]),
        ('title ~ "disk" OR title = "Travel"', ["Disk full", "Travel"]),
        ("creator = bob@corp.example", ["Disk full"]),
        ("created < 2025-02-01", ["Disk full"]),
        ("lastmodified >= -1d AND space in (POL)", ["Travel"]),
        ("type = page AND space = POL", ["Travel"]),
        ('text ~ "night" AND NOT space = OPS', ["Travel"]),
        ("contributor = currentUser()", []),
    ],
)
async def test_cql_finds_what_it_says_and_only_what_may_be_read(world: AppWorld, query: str, titles: list[str]):
    assert await found(world, query) == titles


async def test_cql_finds_pages_below_another(world: AppWorld):
    assert await found(world, f"ancestor = {page('OPS/Runbooks')}") == ["Disk full"]
    for query, said in (("color = red", "no field `color`"), ("(space = OPS", "expecting ')'"), ("created > soon", "not a date")):
        assert said in await world.call("confluence_search", query=query)


@given(st.text(alphabet="abOPS-1 =!~<>()\"'\\,*%?;andorintextspacelabel", max_size=60))
def test_no_query_shows_what_may_not_be_read(query: str):
    from sandlot.core.errors import ToolError

    function = WIKI.parts.tools["confluence_search"].function
    try:
        text = function(WORLD.apps.wiki, query=query)
    except ToolError:
        return
    assert "salaries" not in text
    assert "safe" not in text


WORLD = AppWorld([WIKI], fill, actor=ADA)


async def test_a_section_is_replaced_and_the_rest_stays(world: AppWorld):
    await world.call("confluence_update_page_section", page_id=page("OPS/Disk full"), heading_text="check", new_content="ask Bob")
    text = world.apps.wiki.value("SELECT content FROM page WHERE title = 'Disk full'")
    assert text == "Intro\n\n## Check\n\nask Bob\n\n## Fix\n\ndelete logs\n"
    missing = await world.call(
        "confluence_update_page_section", page_id=page("OPS/Disk full"), heading_text="Nope", new_content="x"
    )
    assert "Available headings: 'Check', 'Fix'" in missing


async def test_versions_are_kept_and_compared(world: AppWorld):
    number = page("OPS/Disk full")
    await world.call(
        "confluence_update_page", page_id=number, title="Disk is full", content="new words", version_comment="Rewritten"
    )
    assert json.loads(await world.call("confluence_get_page", page_id=number))["metadata"]["version"] == 3
    old = json.loads(await world.call("confluence_get_page_history", page_id=number, version=1))
    assert (old["content"]["value"], old["author"]) == ("old words", "Bob Ward")
    diff = json.loads(await world.call("confluence_get_page_diff", page_id=number, from_version=1, to_version=3))["diff"]
    assert "-old words\n+new words" in diff


async def test_permissions_and_restrictions_hold(world: AppWorld):
    assert "not found in space" in await world.call("confluence_get_page", title="Salaries", space_key="HR")
    for hidden in ("OPS/Keys", "OPS/Below", "HR/Salaries"):
        assert "No content found" in await world.call("confluence_get_page", page_id=page(hidden))
        assert "No content found" in await world.call("confluence_get_comments", page_id=page(hidden))
    for closed in ("OPS/Frozen", "POL/Travel"):
        assert "do not have permission" in await world.call(
            "confluence_update_page", page_id=page(closed), title="x", content="y"
        )
        assert '"success": false' in await world.call("confluence_delete_page", page_id=page(closed))
    assert "do not have permission" in await world.call("confluence_create_page", space_key="POL", title="x", content="y")
    copied = {"source_page_id": page("OPS/Disk full"), "destination_space_key": "POL", "new_title": "x"}
    assert "do not have permission" in await world.call("confluence_copy_page", **copied)
    moved = {"page_id": page("OPS/Disk full"), "target_space_key": "POL"}
    assert "do not have permission" in await world.call("confluence_move_page", **moved)
    assert not world.apps.journal


async def test_a_page_is_put_above_below_or_last_and_nowhere_else(world: AppWorld):
    wrong = await world.call(
        "confluence_move_page", page_id=page("OPS/Disk full"), target_parent_id=page("OPS/Below"), position="beside"
    )
    assert "Invalid position 'beside'. Must be 'append', 'above' or 'below'." in wrong
    nowhere = await world.call("confluence_move_page", page_id=page("OPS/Disk full"))
    assert "At least one of target_parent_id or target_space_key" in nowhere
    assert not world.apps.journal


async def test_pages_move_with_those_below_and_never_into_a_circle(world: AppWorld):
    made = json.loads(
        await world.call("confluence_create_page", space_key="OPS", title="Deep", content="x", parent_id=page("OPS/Disk full"))
    )
    under = {"page_id": page("OPS/Runbooks"), "target_parent_id": made["page"]["id"]}
    assert "under itself" in await world.call("confluence_move_page", **under)
    await world.call(
        "confluence_move_page", page_id=page("OPS/Disk full"), target_parent_id=page("OPS/Runbooks"), position="above"
    )
    tree = json.loads(await world.call("confluence_get_space_page_tree", space_key="OPS"))["pages"]
    tops = [each["title"] for each in tree if each["depth"] == 0]
    assert tops.index("Disk full") < tops.index("Runbooks")
    assert next(each for each in tree if each["title"] == "Deep")["depth"] == 1
    assert "same TITLE" in await world.call("confluence_create_page", space_key="OPS", title="Deep", content="y")


def test_storage_format_becomes_markdown_and_scripts_do_not():
    storage = "<h2>Hi</h2><p>a <b>b</b> <a href='x'>l</a></p><ol><li>1</li><li>2</li></ol><script>alert(1)</script>"
    assert markdown_of(storage) == "## Hi\n\na **b** [l](x)\n1. 1\n2. 2"
    assert markdown_of("<p>a</p><script>x</script></style><p>b</p>") == "a\n\nb"
    assert markdown_of("<!DOCTYPE x [<!ENTITY a 'aaaa'>]>&a;" + "<ul>" * 5000 + "deep") is not None


async def test_the_same_acts_leave_the_same_bytes_and_the_journal_replays_them():
    async def play() -> AppWorld:
        world = AppWorld([WIKI], fill, actor=ADA)
        await world.call("confluence_create_page", space_key="OPS", title="New", content="pelican")
        await world.call("confluence_add_comment", page_id=page("OPS/Runbooks"), body="Nice")
        await world.call("confluence_delete_page", page_id=page("OPS/Disk full"))
        return world

    one, two = await play(), await play()
    assert one.apps.freeze().states == two.apps.freeze().states
    final = FinalApps(one.base.states, encode_journal(one.apps.journal), one.apps.clock.text).wiki
    assert dump(final.rows) == dump(one.apps.wiki.rows)
    assert len(final.rows("SELECT rowid FROM page_words WHERE page_words MATCH 'pelican'")) == 1


def test_a_folder_of_markdown_is_a_space(tmp_path: Path):
    (tmp_path / "guides").mkdir()
    (tmp_path / "guides.md").write_text("# Guides\n\nAll\n")
    (tmp_path / "guides" / "disk-full.md").write_text("no heading")
    pages = read_markdown_folder(tmp_path, "OPS")
    assert pages == [
        {"space": "OPS", "title": "Guides", "content": "All\n"},
        {"space": "OPS", "title": "disk full", "content": "no heading", "parent": "Guides"},
    ]
