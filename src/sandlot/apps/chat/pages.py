"""The pages of chat, for agents that use a browser: the same functions as the tools, in forms that need no JavaScript."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandlot.apps.chat.workspace import (
    CHAT,
    acting_member,
    direct_channel,
    member_of,
    post,
    react,
    shown_message,
    visible_channel,
)
from sandlot.apps.live import LiveApp
from sandlot.apps.pages import PageRequest, PageResponse, render

_HERE = Path(__file__).parent / "templates"
_SHOWN = 50
_MENTION = re.compile(r"<@(U[A-Z0-9]+)(?:\|[^>]*)?>")


@CHAT.page("GET", "/")
def _home(app: LiveApp, _request: PageRequest) -> PageResponse:
    member = acting_member(app)
    rows = app.rows(
        "SELECT * FROM channel WHERE kind = 'public' OR id IN (SELECT channel FROM membership WHERE member = ?) ORDER BY name",
        member,
    )
    channels = [row for row in rows if row["kind"] != "im" and not row["archived"]]
    directs = [{"id": row["id"], "name": _name(app, row, member)} for row in rows if row["kind"] == "im"]
    return render(_HERE, "home.html", actor=app.actor, channels=channels, directs=directs)


def _name(app: LiveApp, channel: dict[str, Any], member: str) -> str:
    if channel["kind"] != "im":
        return f"#{channel['name']}"
    others = app.rows(
        "SELECT real_name FROM membership JOIN member ON member.id = membership.member WHERE channel = ? AND member.id != ?",
        channel["id"], member,
    )  # fmt: skip
    return ", ".join(row["real_name"] for row in others) or "You"


@CHAT.page("GET", "/people")
def _people(app: LiveApp, _request: PageRequest) -> PageResponse:
    acting_member(app)
    people = app.rows("SELECT * FROM member WHERE deleted = 0 ORDER BY real_name, id")
    return render(_HERE, "people.html", actor=app.actor, people=people)


@CHAT.page("POST", "/people/{person}")
def _open_direct(app: LiveApp, _request: PageRequest, person: str) -> PageResponse:
    return PageResponse.redirect(f"/channel/{direct_channel(app, acting_member(app), member_of(app, person)['id'])}")


@CHAT.page("GET", "/channel/{channel}")
def _channel(app: LiveApp, request: PageRequest, channel: str) -> PageResponse:
    before = request.query.get("before", "9")
    rows = app.rows(
        "SELECT * FROM message WHERE channel = ? AND thread IS NULL AND ts < ? ORDER BY ts DESC LIMIT ?",
        channel,
        before,
        _SHOWN + 1,
    )
    return _page(app, channel, rows[:_SHOWN][::-1], older=rows[_SHOWN - 1]["ts"] if len(rows) > _SHOWN else "")


@CHAT.page("GET", "/channel/{channel}/thread/{ts}")
def _thread(app: LiveApp, _request: PageRequest, channel: str, ts: str) -> PageResponse:
    rows = app.rows("SELECT * FROM message WHERE channel = ?1 AND (ts = ?2 OR thread = ?2) ORDER BY ts LIMIT 1000", channel, ts)
    return _page(app, channel, rows, thread=ts)


def _page(app: LiveApp, channel: str, rows: list[dict[str, Any]], *, thread: str = "", older: str = "") -> PageResponse:
    member = acting_member(app)
    place = visible_channel(app, member, channel)  # before anything of it is shown
    inside = app.one("SELECT 1 FROM membership WHERE channel = ? AND member = ?", channel, member) is not None
    return render(
        _HERE,
        "channel.html",
        actor=app.actor,
        channel=channel,
        name=_name(app, place, member),
        topic=place["topic"],
        messages=[_shown(app, row) for row in rows],
        thread=thread,
        older=older,
        inside=inside,
    )


def _shown(app: LiveApp, row: dict[str, Any]) -> dict[str, Any]:
    shown = shown_message(app, row)
    names = {each["id"]: each["real_name"] for each in app.rows("SELECT id, real_name FROM member")}
    time = datetime.fromtimestamp(int(row["ts"].partition(".")[0]), UTC)
    return {
        "ts": row["ts"],
        "author": names.get(row["member"], row["member"]),
        "time": f"{time:%d %b %Y %H:%M}",
        "text": _MENTION.sub(lambda match: f"@{names.get(match[1], match[1])}", row["text"]),
        "reactions": shown.get("reactions", []),
        "replies": shown.get("reply_count", 0),
    }


@CHAT.page("POST", "/channel/{channel}")
def _post(app: LiveApp, request: PageRequest, channel: str) -> PageResponse:
    post(app, acting_member(app), channel, request.form.get("text", ""))
    return PageResponse.redirect(f"/channel/{channel}")


@CHAT.page("POST", "/channel/{channel}/thread/{ts}")
def _reply(app: LiveApp, request: PageRequest, channel: str, ts: str) -> PageResponse:
    post(app, acting_member(app), channel, request.form.get("text", ""), thread=ts)
    return PageResponse.redirect(f"/channel/{channel}/thread/{ts}")


@CHAT.page("POST", "/channel/{channel}/react")
def _react(app: LiveApp, request: PageRequest, channel: str) -> PageResponse:
    react(app, acting_member(app), channel, request.form.get("ts", ""), request.form.get("name", ""))
    thread = request.form.get("thread")
    return PageResponse.redirect(f"/channel/{channel}/thread/{thread}" if thread else f"/channel/{channel}")
