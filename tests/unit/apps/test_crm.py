import json
from typing import Any

import pytest

from sandlot.apps import CRM, FinalApps, LiveApps, load_crm, read_hubspot_csv
from sandlot.apps.final import encode_journal
from sandlot.core.errors import ConfigError
from worlds.apps import AppWorld, dump

ADA, BOB = "ada@corp.example", "bob@corp.example"
SEED: dict[str, Any] = {
    "owners": [
        {"email": ADA, "first_name": "Ada", "last_name": "Hale"},
        {"email": BOB, "first_name": "Bob", "last_name": "Ward"},
    ],
    "companies": [{"ref": "acme", "name": "Acme Ltd", "domain": "acme.example", "numberofemployees": 40}],
    "contacts": [
        {"ref": "jo", "email": "jo@acme.example", "firstname": "Jo", "lastname": "Day", "primary": "acme", "owner": ADA},
        {"ref": "zed", "email": "zed@other.example", "firstname": "Zed"},
    ],
    "deals": [
        {
            "ref": "renewal",
            "dealname": "Acme renewal",
            "amount": "12000",
            "closedate": "2026-03-01",
            "with": ["jo"],
            "primary": "acme",
            "owner": BOB,
        },
        {"ref": "small", "dealname": "Small thing", "amount": 900, "dealstage": "closedlost"},
    ],
    "notes": [{"ref": "note", "hs_note_body": "They asked for a discount", "with": ["renewal"]}],
}
REFS: dict[str, int] = {}


def fill(apps: LiveApps) -> None:
    REFS.update(load_crm(apps.crm, SEED))


@pytest.fixture
def world() -> AppWorld:
    return AppWorld([CRM], fill, actor=ADA)


async def found(world: AppWorld, kind: str, *filters: dict[str, Any], **more: Any) -> list[int]:
    groups = [{"filters": list(filters)}] if filters else []
    text = await world.call("hubspot-search-objects", objectType=kind, filterGroups=groups, **more)
    return [int(each["id"]) for each in json.loads(text)["results"]]


@pytest.mark.parametrize(
    ("kind", "name", "operator", "value", "refs"),
    [
        ("deals", "amount", "GT", "900", ["renewal"]),
        ("deals", "amount", "GTE", "900", ["renewal", "small"]),
        ("deals", "dealstage", "EQ", "closedlost", ["small"]),
        ("deals", "dealstage", "NEQ", "closedlost", ["renewal"]),
        ("deals", "closedate", "NOT_HAS_PROPERTY", None, ["small"]),
        ("deals", "closedate", "LT", "2026-04-01", ["renewal"]),
        ("deals", "closedate", "GT", "1770000000000", ["renewal"]),
        ("contacts", "email", "CONTAINS_TOKEN", "acme", ["jo"]),
        ("contacts", "email", "CONTAINS_TOKEN", "ot*", ["zed"]),
        ("contacts", "email", "NOT_CONTAINS_TOKEN", "acme", ["zed"]),
        ("contacts", "email", "EQ", "JO@ACME.EXAMPLE", ["jo"]),
        ("companies", "numberofemployees", "LTE", "40", ["acme"]),
    ],
)
async def test_filters_find_what_they_say(
    world: AppWorld, kind: str, name: str, operator: str, value: str | None, refs: list[str]
):
    given = {"propertyName": name, "operator": operator} | ({} if value is None else {"value": value})
    assert await found(world, kind, given) == [REFS[ref] for ref in refs]


async def test_groups_are_alternatives_and_words_are_prefixes(world: AppWorld):
    groups = [
        {"filters": [{"propertyName": "dealname", "operator": "EQ", "value": each}]} for each in ("Acme renewal", "Small thing")
    ]
    sorts = [{"propertyName": "amount", "direction": "ASCENDING"}]
    text = await world.call("hubspot-search-objects", objectType="deals", filterGroups=groups, sorts=sorts)
    assert [int(each["id"]) for each in json.loads(text)["results"]] == [REFS["small"], REFS["renewal"]]
    assert await found(world, "contacts", query="jo acm") == [REFS["jo"]]
    assert await found(world, "users", query="bob") != []


async def test_closing_a_deal_sets_what_hubspot_sets_and_keeps_the_history(world: AppWorld):
    await world.call(
        "hubspot-batch-update-objects",
        objectType="deals",
        inputs=[{"id": str(REFS["renewal"]), "properties": {"dealstage": "closedwon"}}],
    )
    row = world.apps.crm.one("SELECT * FROM deal WHERE id = ?", REFS["renewal"])
    assert row is not None
    assert (row["hs_is_closed_won"], row["closedate"][:10]) == ("true", "2026-01-05")
    inputs = [{"id": str(REFS["renewal"])}]
    text = await world.call("hubspot-batch-read-objects", objectType="deals", inputs=inputs, propertiesWithHistory=["dealstage"])
    history = json.loads(text)["results"][0]["propertiesWithHistory"]["dealstage"]
    assert [each["value"] for each in history] == ["closedwon", "appointmentscheduled"]


@pytest.mark.parametrize(
    ("kind", "properties", "said"),
    [
        ("contacts", {"email": "Jo@acme.example"}, "Contact already exists. Existing ID"),
        ("contacts", {"email": "nobody"}, "INVALID_EMAIL"),
        ("contacts", {"shoe_size": "44"}, "PROPERTY_DOESNT_EXIST"),
        ("deals", {"dealname": "x", "dealstage": "won"}, "not one of the allowed options"),
        ("deals", {"dealname": "x", "amount": "a lot"}, "not a valid number"),
        ("deals", {"dealname": "x", "hubspot_owner_id": "1"}, "INVALID_OWNER_ID"),
        ("deals", {"dealname": "x", "hs_is_closed_won": "true"}, "READ_ONLY_VALUE"),
        ("deals", {"dealname": "x" * 70_000}, "VALUE_TOO_LONG"),
        ("spaceships", {}, "Unable to infer object type"),
    ],
)
async def test_a_batch_with_one_wrong_value_creates_nothing(world: AppWorld, kind: str, properties: dict[str, str], said: str):
    inputs = [{"properties": {"dealname": "good"} if kind == "deals" else {"firstname": "Good"}}, {"properties": properties}]
    result = await world.result("hubspot-batch-create-objects", objectType=kind, inputs=inputs)
    assert result.error
    assert said in result.text
    assert not world.apps.journal


async def test_associations_hold_in_both_directions(world: AppWorld):
    types = [{"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": 3}]
    inputs = [{"from": {"id": str(REFS["small"])}, "to": {"id": str(REFS["zed"])}}]
    made = await world.call(
        "hubspot-batch-create-associations", fromObjectType="deals", toObjectType="contacts", types=types, inputs=inputs
    )
    assert "COMPLETE" in made
    text = await world.call("hubspot-list-associations", objectType="contacts", objectId=str(REFS["zed"]), toObjectType="deals")
    assert json.loads(text)["results"][0] == {
        "toObjectId": REFS["small"],
        "associationTypes": [{"category": "HUBSPOT_DEFINED", "typeId": 4, "label": None}],
    }
    wrong = [{"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": 999}]
    refused = await world.call(
        "hubspot-batch-create-associations", fromObjectType="deals", toObjectType="contacts", types=wrong, inputs=inputs
    )
    assert "Invalid association type" in refused


async def test_notes_and_tasks_are_written_on_records(world: AppWorld):
    owner = world.apps.crm.value("SELECT id FROM owner WHERE email = ?", BOB)
    made = await world.call(
        "hubspot-create-engagement",
        type="TASK",
        ownerId=owner,
        associations={"dealIds": [REFS["renewal"]]},
        metadata={"subject": "Call Jo", "body": "About the discount"},
    )
    number = json.loads(made)["engagement"]["engagement"]["id"]
    await world.call("hubspot-update-engagement", engagementId=number, metadata={"status": "COMPLETED"}, associations={})
    row = world.apps.crm.one("SELECT * FROM task WHERE id = ?", number)
    assert row is not None
    assert (row["hs_task_subject"], row["hs_task_status"]) == ("Call Jo", "COMPLETED")
    assert json.loads(await world.call("hubspot-get-engagement", engagementId=number))["associations"]["dealIds"] == [
        REFS["renewal"]
    ]


async def test_a_person_who_may_edit_their_own_may_not_edit_others(world: AppWorld):
    world.apps.crm.insert("permission", email=ADA, edit="own")
    for ref, allowed in (("jo", True), ("zed", False)):
        result = await world.result(
            "hubspot-batch-update-objects", objectType="contacts", inputs=[{"id": str(REFS[ref]), "properties": {"phone": "1"}}]
        )
        assert result.error is not allowed


async def test_the_same_acts_leave_the_same_bytes_and_the_journal_replays_them():
    async def play() -> AppWorld:
        world = AppWorld([CRM], fill, actor=ADA)
        await world.call(
            "hubspot-batch-create-objects", objectType="contacts", inputs=[{"properties": {"email": "new@x.example"}}]
        )
        await world.call(
            "hubspot-batch-update-objects",
            objectType="contacts",
            inputs=[{"id": str(REFS["jo"]), "properties": {"phone": "2", "lastname": ""}}],
        )
        return world

    one, two = await play(), await play()
    assert one.apps.freeze().states == two.apps.freeze().states
    final = FinalApps(one.base.states, encode_journal(one.apps.journal), one.apps.clock.text).crm
    assert dump(final.rows) == dump(one.apps.crm.rows)
    assert final.value("SELECT lastname FROM contact WHERE id = ?", REFS["jo"]) is None


def test_the_csv_of_hubspot_is_read():
    rows = read_hubspot_csv("First Name,Last Name,Email\nAnn,Lee,ann@x.example\n", "contacts")
    assert rows == [{"firstname": "Ann", "lastname": "Lee", "email": "ann@x.example"}]
    with pytest.raises(ConfigError, match="`Shoe` is no property"):
        read_hubspot_csv("Shoe\n44\n", "contacts")
    with pytest.raises(ConfigError, match="`ghost`"):
        AppWorld([CRM], lambda apps: load_crm(apps.crm, {"contacts": [{"firstname": "x", "with": ["ghost"]}]}) and None)
