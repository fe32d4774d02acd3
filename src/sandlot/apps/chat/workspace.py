"""A chat workspace: members, channels, messages. Tools, pages, events and importers all go through these functions.

Public channels can be read by every member; private channels and direct messages only by those who are in them. A channel that a
member may not see does not exist for that member.
"""

import json
import re
from datetime import datetime
from typing import Any

from sandlot.apps.app import App
from sandlot.apps.clock import parse_time
from sandlot.apps.colleague import SentMessage
from sandlot.apps.live import LiveApp
from sandlot.apps.recorded import RecordedServer
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

SCHEMA = """
CREATE TABLE member (
  id TEXT NOT NULL UNIQUE, email TEXT NOT NULL UNIQUE, name TEXT NOT NULL, real_name TEXT NOT NULL, title TEXT NOT NULL,
  time_zone TEXT NOT NULL, deleted INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE channel (
  id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('public', 'private', 'im')),
  creator TEXT NOT NULL, topic TEXT NOT NULL, purpose TEXT NOT NULL, created INTEGER NOT NULL,
  archived INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE membership (channel TEXT NOT NULL, member TEXT NOT NULL, UNIQUE (channel, member));
CREATE TABLE message (
  channel TEXT NOT NULL, ts TEXT NOT NULL, member TEXT NOT NULL, text TEXT NOT NULL, thread TEXT, UNIQUE (channel, ts)
);
CREATE TABLE reaction (
  channel TEXT NOT NULL, ts TEXT NOT NULL, name TEXT NOT NULL, member TEXT NOT NULL, UNIQUE (channel, ts, name, member)
);
CREATE INDEX message_thread ON message (channel, thread);
"""
TEAM = "T0COMPANY"
_MAX_CHARS = 40_000
_MENTION = re.compile(r"<@(U[A-Z0-9]+)(?:\|[^>]*)?>")
_EMOJI = re.compile(r"[a-z0-9_+'-]{1,100}(?:::skin-tone-[2-6])?\Z")
_ID_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_OFFICE = "UTC"


def _missing_arguments(tool: Any, issues: Any) -> str:
    """As the public server says it: all that the tool needs, whichever is missing."""
    if not any(issue.missing for issue in issues):
        return '{"ok":false,"error":"invalid_arguments"}'
    return missing_text(tool.input_schema.get("required", []))


def missing_text(names: list[str]) -> str:
    """The public server's words for missing arguments."""
    if len(names) == 1:
        return f'{{"error":"Missing required argument: {names[0]}"}}'
    joined = " and ".join(names) if len(names) == 2 else f"{', '.join(names[:-1])}, and {names[-1]}"
    return f'{{"error":"Missing required arguments: {joined}"}}'


CHAT = App("chat", schema=SCHEMA, server=RecordedServer.read("slack"), word_issues=_missing_arguments)


def refusal(error: str) -> ToolError:
    """An error as Slack's API returns it."""
    return ToolError(f'{{"ok":false,"error":"{error}"}}')


# -- members and channels ----------------------------------------------------------------------------------------------


def add_member(app: LiveApp, email: str, real_name: str, *, title: str = "", name: str = "", id: str = "") -> str:  # noqa: A002 - Slack's word
    """Add a person to the workspace; their id."""
    member = id or "U" + app.new_id(_ID_LETTERS, 10)
    short = name or email.partition("@")[0].lower()
    app.insert("member", id=member, email=email.lower(), name=short, real_name=real_name, title=title, time_zone=_OFFICE)
    return member


def add_channel(
    app: LiveApp,
    name: str,
    members: list[str],
    *,
    private: bool = False,
    topic: str = "",
    purpose: str = "",
    id: str = "",  # noqa: A002 - Slack's word
) -> str:
    """Add a channel with these members, by mail address or id; its id. The first member made it."""
    people = [member_of(app, each)["id"] for each in members]
    channel = id or ("G" if private else "C") + app.new_id(_ID_LETTERS, 10)
    _add(app, channel, name, "private" if private else "public", people, topic, purpose)
    return channel


def direct_channel(app: LiveApp, one: str, other: str) -> str:
    """The direct messages between two members; made if they have none yet."""
    name = "im-" + "-".join(sorted((one, other)))
    found = app.value("SELECT id FROM channel WHERE name = ? AND kind = 'im'", name)
    if found:
        return found
    channel = "D" + app.new_id(_ID_LETTERS, 10)
    _add(app, channel, name, "im", list(dict.fromkeys((one, other))), "", "")
    return channel


def _add(app: LiveApp, channel: str, name: str, kind: str, people: list[str], topic: str, purpose: str) -> None:
    app.insert(
        "channel",
        id=channel,
        name=name,
        kind=kind,
        creator=people[0] if people else "",
        topic=topic,
        purpose=purpose,
        created=int(app.now.timestamp()),
    )
    for member in people:
        app.run("INSERT OR IGNORE INTO membership VALUES (?, ?)", channel, member)


def member_of(app: LiveApp, who: str) -> dict[str, Any]:
    """A member by mail address or id; `ToolError` if there is none."""
    row = app.one("SELECT * FROM member WHERE id = ? OR email = ?", who, who.lower())
    if row is None:
        raise refusal("user_not_found")
    return row


def acting_member(app: LiveApp) -> str:
    """The id of the member that the call acts as; `ToolError` if that person has no account."""
    found = app.value("SELECT id FROM member WHERE email = ? AND deleted = 0", app.actor.lower())
    if found is None:
        raise refusal("invalid_auth")
    return found


def visible_channel(app: LiveApp, member: str, channel: str) -> dict[str, Any]:
    """A channel that the member may read; `ToolError` if there is none."""
    row = app.one("SELECT * FROM channel WHERE id = ?", channel)
    if row is None or (row["kind"] != "public" and not _is_in(app, member, channel)):
        raise refusal("channel_not_found")
    return row


def _is_in(app: LiveApp, member: str, channel: str) -> bool:
    return app.one("SELECT 1 FROM membership WHERE channel = ? AND member = ?", channel, member) is not None


# -- messages ----------------------------------------------------------------------------------------------------------


def post(app: LiveApp, member: str, channel: str, text: str, *, thread: str | None = None, at: str | None = None) -> Json:
    """Post a message as a member, in a channel or, with a member's id, directly; the channel and time stamp of the message."""
    if channel.startswith("U") and app.one("SELECT 1 FROM member WHERE id = ?", channel):
        channel = direct_channel(app, member, channel)
    place = visible_channel(app, member, channel)
    if not _is_in(app, member, channel):
        raise refusal("not_in_channel")
    if place["archived"]:
        raise refusal("is_archived")
    if not text.strip():
        raise refusal("no_text")
    if len(text) > _MAX_CHARS:
        raise refusal("msg_too_long")
    root = _root(app, channel, thread) if thread else None
    ts = _stamp(app, parse_time(at) if at else app.now)
    app.insert("message", channel=channel, ts=ts, member=member, text=text, thread=root)
    _tell(app, member, place, text, root or ts)
    return {"channel": channel, "ts": ts}


def _root(app: LiveApp, channel: str, ts: str) -> str:
    """The first message of the thread that a message is in; `ToolError` if there is no such message."""
    row = app.one("SELECT ts, thread FROM message WHERE channel = ? AND ts = ?", channel, ts)
    if row is None:
        raise refusal("thread_not_found")
    return row["thread"] or row["ts"]


def _stamp(app: LiveApp, time: datetime) -> str:
    """A time stamp that no other message has, as Slack writes it."""
    return f"{int(time.timestamp())}.{app.new_number() % 1_000_000:06}"


def _tell(app: LiveApp, member: str, place: dict[str, Any], text: str, thread: str) -> None:
    """Tell the colleagues whom a message addresses: the other one of a direct message, who is mentioned, who began the thread."""
    addressed = set(_MENTION.findall(text))
    if place["kind"] == "im":
        addressed |= {row["member"] for row in app.rows("SELECT member FROM membership WHERE channel = ?", place["id"])}
    addressed |= {
        row["member"] for row in app.rows("SELECT member FROM message WHERE channel = ? AND ts = ?", place["id"], thread)
    }
    inside = [each for each in sorted(addressed - {member}) if _is_in(app, each, place["id"])]
    emails = tuple(app.value("SELECT email FROM member WHERE id = ?", each) for each in inside)
    sender = app.value("SELECT email FROM member WHERE id = ?", member)
    about = {"channel": place["id"], "thread": None if place["kind"] == "im" else thread}
    app.tell_colleagues(SentMessage(sender=sender, to=emails, text=text, about=about), "colleague_replies")


@CHAT.event
def colleague_replies(app: LiveApp, *, sender: str, text: str, about: Json) -> None:
    """A colleague answers: in the thread, or in the direct messages."""
    post(app, member_of(app, sender)["id"], about["channel"], text, thread=about["thread"])


@CHAT.event
def message_arrives(app: LiveApp, *, sender: str, channel: str, text: str, thread: str | None = None) -> None:
    """A member posts something: `sender` by mail address, `channel` by id, or by name with `#`, or a member's address."""
    member = member_of(app, sender)["id"]
    post(app, member, channel_named(app, member, channel), text, thread=thread)


def channel_named(app: LiveApp, member: str, channel: str) -> str:
    """The id for `#general`, for the address of a member (direct messages), or for an id."""
    if channel.startswith("#"):
        return app.value("SELECT id FROM channel WHERE name = ?", channel[1:]) or channel
    return direct_channel(app, member, member_of(app, channel)["id"]) if "@" in channel else channel


def react(app: LiveApp, member: str, channel: str, ts: str, name: str) -> None:
    """Add a reaction to a message; `ToolError` if it is there already, or there is no such message."""
    visible_channel(app, member, channel)
    if not app.one("SELECT 1 FROM message WHERE channel = ? AND ts = ?", channel, ts):
        raise refusal("message_not_found")
    emoji = name.strip(":")
    if not _EMOJI.match(emoji):
        raise refusal("invalid_name")
    if app.one("SELECT 1 FROM reaction WHERE channel = ? AND ts = ? AND name = ? AND member = ?", channel, ts, emoji, member):
        raise refusal("already_reacted")
    app.insert("reaction", channel=channel, ts=ts, name=emoji, member=member)


def shown_message(app: LiveApp, row: dict[str, Any]) -> Json:
    """A message as Slack's API returns it."""
    shown: Json = {"user": row["member"], "type": "message", "ts": row["ts"], "text": row["text"], "team": TEAM}
    replies = app.rows("SELECT ts, member FROM message WHERE channel = ? AND thread = ? ORDER BY ts", row["channel"], row["ts"])
    if row["thread"]:
        shown |= {"thread_ts": row["thread"], "parent_user_id": _author(app, row["channel"], row["thread"])}
    elif replies:
        users = list(dict.fromkeys(reply["member"] for reply in replies))
        shown |= {
            "thread_ts": row["ts"],
            "reply_count": len(replies),
            "reply_users_count": len(users),
            "latest_reply": replies[-1]["ts"],
            "reply_users": users[:5],
            "is_locked": False,
            "subscribed": False,
        }
    reactions = app.rows(
        "SELECT name, json_group_array(member) AS users FROM (SELECT * FROM reaction WHERE channel = ? AND ts = ? ORDER BY rowid)"
        " GROUP BY name ORDER BY name",
        row["channel"], row["ts"],
    )  # fmt: skip
    if reactions:
        shown["reactions"] = [_shown_reaction(each["name"], each["users"]) for each in reactions]
    return shown


def _shown_reaction(name: str, users: str) -> Json:
    members = json.loads(users)
    return {"name": name, "users": members, "count": len(members)}


def _author(app: LiveApp, channel: str, ts: str) -> str:
    return app.value("SELECT member FROM message WHERE channel = ? AND ts = ?", channel, ts) or ""
