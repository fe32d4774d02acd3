"""Chat: what the tools of the public Slack server do here."""

import json
from pathlib import Path
from typing import Any

import pytest

from sandlot.apps.chat.load import load_chat, load_slack_export
from sandlot.apps.chat.tools import CHAT
from sandlot.apps.colleague import Colleague, KnownFact
from sandlot.apps.live import LiveApps
from sandlot.apps.waiting import WAITING
from sandlot.core.errors import AuthorError
from worlds.apps import AppWorld

ADA, BOB, EVE = "ada@corp.example", "bob@corp.example", "eve@corp.example"


def fill(apps: LiveApps) -> None:
    load_chat(
        apps.chat,
        members=[
            {"email": ADA, "real_name": "Ada Hale", "id": "UADA"},
            {"email": BOB, "real_name": "Bob Ward", "title": "Controller", "id": "UBOB"},
            {"email": EVE, "real_name": "Eve Lin", "id": "UEVE"},
        ],
        channels=[
            {"name": "general", "members": [ADA, BOB, EVE], "id": "CGENERAL", "topic": "Everything"},
            {"name": "ops", "members": [BOB, EVE], "id": "COPS"},
            {"name": "board", "members": [BOB, EVE], "private": True, "id": "GBOARD"},
        ],
        messages=[
            {"sender": BOB, "channel": "#general", "text": "Who is on call?", "at": "2026-01-02T10:00:00Z", "key": "call"},
            {"sender": EVE, "channel": "#general", "text": "I am.", "at": "2026-01-02T10:05:00Z", "thread": "call"},
            {"sender": BOB, "channel": "#board", "text": "We sell the firm.", "at": "2026-01-02T11:00:00Z"},
            {"sender": BOB, "channel": EVE, "text": "Not a word.", "at": "2026-01-02T11:05:00Z"},
        ],
    )


@pytest.fixture
def world() -> AppWorld:
    return AppWorld([CHAT, WAITING], fill, actor=ADA)


async def ask(world: AppWorld, tool: str, **arguments: Any) -> Any:
    return json.loads(await world.call(f"slack_{tool}", **arguments))


async def test_channels_and_history_as_slacks_api_shows_them(world: AppWorld):
    listed = await ask(world, "list_channels", limit=1)
    assert [(each["id"], each["is_member"], each["num_members"]) for each in listed["channels"]] == [("CGENERAL", True, 3)]
    following = await ask(world, "list_channels", limit=1, cursor=listed["response_metadata"]["next_cursor"])
    assert [each["name"] for each in following["channels"]] == ["ops"]  # the private channel is not listed
    history = await ask(world, "get_channel_history", channel_id="CGENERAL")
    (first,) = history["messages"]
    assert (first["user"], first["text"], first["reply_count"], first["reply_users"]) == ("UBOB", "Who is on call?", 1, ["UEVE"])
    replies = await ask(world, "get_thread_replies", channel_id="CGENERAL", thread_ts=first["ts"])
    assert [message["text"] for message in replies["messages"]] == ["Who is on call?", "I am."]
    assert replies["messages"][1]["parent_user_id"] == "UBOB"


async def test_posting_replying_and_reacting(world: AppWorld):
    posted = await ask(world, "post_message", channel_id="CGENERAL", text="Hello")
    assert posted["ok"]
    assert posted["message"]["user"] == "UADA"
    reply = await ask(world, "reply_to_thread", channel_id="CGENERAL", thread_ts=posted["ts"], text="me again")
    assert reply["message"]["thread_ts"] == posted["ts"]
    assert await ask(world, "add_reaction", channel_id="CGENERAL", timestamp=posted["ts"], reaction="thumbsup") == {"ok": True}
    again = await ask(world, "add_reaction", channel_id="CGENERAL", timestamp=posted["ts"], reaction=":thumbsup:")
    assert again == {"ok": False, "error": "already_reacted"}
    history = await ask(world, "get_channel_history", channel_id="CGENERAL", limit=1)
    assert history["messages"][0]["reactions"] == [{"name": "thumbsup", "users": ["UADA"], "count": 1}]
    assert history["has_more"]


@pytest.mark.parametrize(
    ("tool", "arguments", "error"),
    [
        ("post_message", {"text": "x"}, {"error": "Missing required arguments: channel_id and text"}),
        ("post_message", {"channel_id": "CGENERAL", "text": ""}, {"error": "Missing required arguments: channel_id and text"}),
        ("reply_to_thread", {}, {"error": "Missing required arguments: channel_id, thread_ts, and text"}),
        ("get_user_profile", {}, {"error": "Missing required argument: user_id"}),
        ("post_message", {"channel_id": "CGENERAL", "text": 5}, {"ok": False, "error": "invalid_arguments"}),
        ("post_message", {"channel_id": "CNONE", "text": "x"}, {"ok": False, "error": "channel_not_found"}),
        ("post_message", {"channel_id": "COPS", "text": "x"}, {"ok": False, "error": "not_in_channel"}),
        ("post_message", {"channel_id": "CGENERAL", "text": "x" * 40_001}, {"ok": False, "error": "msg_too_long"}),
        (
            "reply_to_thread",
            {"channel_id": "CGENERAL", "thread_ts": "1.0", "text": "x"},
            {"ok": False, "error": "thread_not_found"},
        ),
        (
            "add_reaction",
            {"channel_id": "CGENERAL", "timestamp": "1.0", "reaction": "x"},
            {"ok": False, "error": "message_not_found"},
        ),
        ("get_user_profile", {"user_id": "UNONE"}, {"ok": False, "error": "user_not_found"}),
        ("get_users", {"cursor": "???"}, {"ok": False, "error": "invalid_cursor"}),
    ],
)
async def test_errors_are_those_of_the_public_server(world: AppWorld, tool: str, arguments: dict[str, Any], error: Any):
    assert await ask(world, tool, **arguments) == error
    assert world.apps.journal == []


async def test_private_channels_and_direct_messages_of_others_do_not_exist(world: AppWorld):
    direct = world.apps.chat.value("SELECT id FROM channel WHERE kind = 'im'")
    stamps = {row["channel"]: row["ts"] for row in world.apps.chat.rows("SELECT * FROM message")}
    for channel in ("GBOARD", direct):
        for tool, more in (
            ("get_channel_history", {}),
            ("get_thread_replies", {"thread_ts": stamps[channel]}),
            ("post_message", {"text": "x"}),
            ("add_reaction", {"timestamp": stamps[channel], "reaction": "x"}),
        ):
            assert await ask(world, tool, channel_id=channel, **more) == {"ok": False, "error": "channel_not_found"}
    world.apps.actor = "stranger@out.example"
    assert await ask(world, "get_users") == {"ok": False, "error": "invalid_auth"}


async def test_a_colleague_answers_where_it_was_asked(world: AppWorld):
    fact = KnownFact(("freeze",), "The code freeze is on Friday.")
    world.apps.colleagues.append(Colleague(email=EVE, facts=(fact,), minutes=5))
    posted = await ask(world, "post_message", channel_id="CGENERAL", text="When is the freeze?")  # nobody is addressed
    direct = await ask(world, "post_message", channel_id="UEVE", text="When is the freeze?")
    mention = await ask(world, "post_message", channel_id="CGENERAL", text="<@UEVE> when is the freeze?")
    await world.call("wait", minutes=6)
    history = await ask(world, "get_channel_history", channel_id=direct["channel"])
    assert history["messages"][0]["text"] == "The code freeze is on Friday."
    assert len((await ask(world, "get_thread_replies", channel_id="CGENERAL", thread_ts=mention["ts"]))["messages"]) == 2
    assert len((await ask(world, "get_thread_replies", channel_id="CGENERAL", thread_ts=posted["ts"]))["messages"]) == 1


def test_a_slack_export_is_loaded(tmp_path: Path):
    files: dict[str, Any] = {
        "users.json": [
            {"id": "U1", "name": "ada", "profile": {"email": ADA, "real_name": "Ada Hale"}},
            {"id": "U2", "name": "bob", "profile": {}},
        ],
        "channels.json": [{"id": "C1", "name": "dev", "members": ["U1", "U2", "UGONE"], "topic": {"value": "code"}}],
        "dev/2026-01-02.json": [
            {
                "type": "message",
                "user": "U1",
                "text": "one",
                "ts": "1767348000.000100",
                "reactions": [{"name": "eyes", "users": ["U2"]}],
            },
            {"type": "message", "user": "U2", "text": "two", "ts": "1767348060.000200", "thread_ts": "1767348000.000100"},
            {"type": "message", "subtype": "channel_join", "user": "U2", "text": "joined", "ts": "1767348070.000300"},
        ],
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(data))
    loaded = AppWorld([CHAT], lambda apps: load_slack_export(apps.chat, tmp_path) and None)
    rows = loaded.apps.chat.rows("SELECT member, text, thread FROM message")
    assert rows == [
        {"member": "U1", "text": "one", "thread": None},
        {"member": "U2", "text": "two", "thread": "1767348000.000100"},
    ]
    members = loaded.apps.chat.rows("SELECT id, name, real_name, email FROM member")
    assert members == [
        {"id": "U1", "name": "ada", "real_name": "Ada Hale", "email": ADA},
        {"id": "U2", "name": "bob", "real_name": "bob", "email": "bob@export.example"},
    ]
    assert loaded.apps.chat.rows("SELECT member FROM membership WHERE channel = 'C1'") == [{"member": "U1"}, {"member": "U2"}]
    assert loaded.apps.chat.rows("SELECT ts, name, member FROM reaction") == [
        {"ts": "1767348000.000100", "name": "eyes", "member": "U2"}
    ]
    assert loaded.apps.chat.rows("SELECT topic, kind FROM channel") == [{"topic": "code", "kind": "public"}]
    (tmp_path / "users.json").write_text("{")
    with pytest.raises(AuthorError, match="not a file of a Slack export"):
        AppWorld([CHAT], lambda apps: load_slack_export(apps.chat, tmp_path) and None)
