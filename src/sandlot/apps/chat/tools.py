"""The tools of chat: names, arguments, results and errors of `@modelcontextprotocol/server-slack`.

That server shows what Slack's API answers, as JSON, and so do these. Two differences are ours: a call acts as the identity of the
world, a member, where that server acts as a bot; and an error is marked as one, where that server returns its text as an ordinary
result.
"""

import base64
import binascii
from typing import Any

from sandlot.apps.chat import pages
from sandlot.apps.chat.workspace import (
    CHAT,
    TEAM,
    acting_member,
    member_of,
    missing_text,
    post,
    react,
    refusal,
    shown_message,
    visible_channel,
)
from sandlot.apps.live import LiveApp
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

__all__ = ["CHAT", "pages"]

_MAX_PAGE = 200
_MAX_HISTORY = 999


def _require(**given: str) -> None:
    """`ToolError` if an argument is empty: the public server takes that as missing."""
    if not all(given.values()):
        raise ToolError(missing_text(list(given)))


def _page(rows: list[Any], limit: float | None, cursor: str | None, most: int = _MAX_PAGE) -> tuple[list[Any], str]:
    """One page of rows, and the cursor of the next."""
    size = max(1, min(int(limit or 100), most))
    start = 0
    if cursor:
        try:
            start = int(base64.b64decode(cursor, validate=True).decode().removeprefix("next:"))
        except (ValueError, binascii.Error) as error:
            raise refusal("invalid_cursor") from error
        if not 0 <= start <= len(rows):
            raise refusal("invalid_cursor")
    following = base64.b64encode(f"next:{start + size}".encode()).decode() if start + size < len(rows) else ""
    return rows[start : start + size], following


@CHAT.tool
def _slack_list_channels(app: LiveApp, limit: float | None = None, cursor: str | None = None) -> Json:
    member = acting_member(app)
    rows, following = _page(
        app.rows("SELECT * FROM channel WHERE kind = 'public' AND archived = 0 ORDER BY name, id"), limit, cursor
    )
    return {
        "ok": True,
        "channels": [_shown_channel(app, row, member) for row in rows],
        "response_metadata": {"next_cursor": following},
    }


def _shown_channel(app: LiveApp, row: dict[str, Any], member: str) -> Json:
    members = [each["member"] for each in app.rows("SELECT member FROM membership WHERE channel = ?", row["id"])]
    return {
        "id": row["id"],
        "name": row["name"],
        "is_channel": True,
        "is_group": False,
        "is_im": False,
        "is_mpim": False,
        "is_private": False,
        "created": row["created"],
        "is_archived": bool(row["archived"]),
        "is_general": row["name"] == "general",
        "unlinked": 0,
        "name_normalized": row["name"],
        "is_shared": False,
        "is_org_shared": False,
        "is_pending_ext_shared": False,
        "context_team_id": TEAM,
        "creator": row["creator"],
        "is_ext_shared": False,
        "is_member": member in members,
        "topic": {"value": row["topic"], "creator": row["creator"] if row["topic"] else "", "last_set": 0},
        "purpose": {"value": row["purpose"], "creator": row["creator"] if row["purpose"] else "", "last_set": 0},
        "previous_names": [],
        "num_members": len(members),
    }


@CHAT.tool
def _slack_post_message(app: LiveApp, channel_id: str, text: str) -> Json:
    _require(channel_id=channel_id, text=text)
    return _posted(app, channel_id, text, None)


@CHAT.tool
def _slack_reply_to_thread(app: LiveApp, channel_id: str, thread_ts: str, text: str) -> Json:
    _require(channel_id=channel_id, thread_ts=thread_ts, text=text)
    return _posted(app, channel_id, text, thread_ts)


def _posted(app: LiveApp, channel: str, text: str, thread: str | None) -> Json:
    member = acting_member(app)
    made = post(app, member, channel, text, thread=thread)
    row = app.one("SELECT * FROM message WHERE channel = ? AND ts = ?", made["channel"], made["ts"])
    assert row is not None
    return {"ok": True, "channel": made["channel"], "ts": made["ts"], "message": shown_message(app, row)}


@CHAT.tool
def _slack_add_reaction(app: LiveApp, channel_id: str, timestamp: str, reaction: str) -> Json:
    _require(channel_id=channel_id, timestamp=timestamp, reaction=reaction)
    react(app, acting_member(app), channel_id, timestamp, reaction)
    return {"ok": True}


@CHAT.tool
def _slack_get_channel_history(app: LiveApp, channel_id: str, limit: float | None = None) -> Json:
    _require(channel_id=channel_id)
    visible_channel(app, acting_member(app), channel_id)
    most = max(1, min(int(limit or 10), _MAX_HISTORY))
    rows = app.rows("SELECT * FROM message WHERE channel = ? AND thread IS NULL ORDER BY ts DESC LIMIT ?", channel_id, most + 1)
    shown: Json = {
        "ok": True,
        "messages": [shown_message(app, row) for row in rows[:most]],
        "has_more": len(rows) > most,
        "pin_count": 0,
        "channel_actions_ts": None,
        "channel_actions_count": 0,
    }
    if len(rows) > most:
        shown["response_metadata"] = {"next_cursor": base64.b64encode(f"next_ts:{rows[most]['ts']}".encode()).decode()}
    return shown


@CHAT.tool
def _slack_get_thread_replies(app: LiveApp, channel_id: str, thread_ts: str) -> Json:
    _require(channel_id=channel_id, thread_ts=thread_ts)
    visible_channel(app, acting_member(app), channel_id)
    rows = app.rows(
        "SELECT * FROM message WHERE channel = ?1 AND (ts = ?2 OR thread = ?2) ORDER BY ts LIMIT 1000", channel_id, thread_ts
    )
    if not rows:
        raise refusal("thread_not_found")
    return {"ok": True, "messages": [shown_message(app, row) for row in rows], "has_more": False}


@CHAT.tool
def _slack_get_users(app: LiveApp, cursor: str | None = None, limit: float | None = None) -> Json:
    acting_member(app)
    rows, following = _page(app.rows("SELECT * FROM member ORDER BY rowid"), limit, cursor)
    return {
        "ok": True,
        "members": [_shown_member(row) for row in rows],
        "cache_ts": int(app.now.timestamp()),
        "response_metadata": {"next_cursor": following},
    }


def _shown_member(row: dict[str, Any]) -> Json:
    return {
        "id": row["id"],
        "team_id": TEAM,
        "name": row["name"],
        "deleted": bool(row["deleted"]),
        "real_name": row["real_name"],
        "tz": row["time_zone"],
        "profile": _profile(row) | {"team": TEAM},
        "is_admin": False,
        "is_owner": False,
        "is_restricted": False,
        "is_bot": False,
        "is_app_user": False,
    }


def _profile(row: dict[str, Any]) -> Json:
    first, _, last = row["real_name"].partition(" ")
    return {
        "title": row["title"],
        "phone": "",
        "skype": "",
        "real_name": row["real_name"],
        "real_name_normalized": row["real_name"],
        "display_name": row["name"],
        "display_name_normalized": row["name"],
        "status_text": "",
        "status_emoji": "",
        "email": row["email"],
        "first_name": first,
        "last_name": last,
    }


@CHAT.tool
def _slack_get_user_profile(app: LiveApp, user_id: str) -> Json:
    _require(user_id=user_id)
    acting_member(app)
    if "@" in user_id:
        raise refusal("user_not_found")
    return {"ok": True, "profile": _profile(member_of(app, user_id))}
