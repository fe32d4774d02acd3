"""Seed data for chat: plain records, or the folder of a Slack export."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from sandlot.apps.chat.workspace import add_channel, add_member, channel_named, member_of, post
from sandlot.apps.live import LiveApp
from sandlot.core.errors import AuthorError, ToolError


class _Member(msgspec.Struct, frozen=True):
    email: str
    real_name: str
    title: str = ""
    name: str = ""
    id: str = ""


class _Channel(msgspec.Struct, frozen=True):
    name: str
    members: list[str]
    private: bool = False
    topic: str = ""
    purpose: str = ""
    id: str = ""


class _Message(msgspec.Struct, frozen=True):
    sender: str
    channel: str
    text: str
    at: str | None = None
    key: str = ""
    """A name for this message, so that later ones can answer in its thread."""
    thread: str = ""
    """The `key` of the message that it answers."""


def load_chat(
    app: LiveApp,
    *,
    members: Iterable[Mapping[str, Any]],
    channels: Iterable[Mapping[str, Any]] = (),
    messages: Iterable[Mapping[str, Any]] = (),
) -> None:
    """Fill the workspace.

    - `members`: `email`, `real_name`, and maybe `title`, `name` and `id`.
    - `channels`: `name`, `members` (by address), and maybe `private`, `topic`, `purpose` and `id`.
    - `messages`, oldest first: `sender` (address), `channel` (`#name`, or an address for a direct message), `text`, `at`; `key`
      names a message, and `thread` is the `key` of the message that one answers.
    """
    for record in members:
        add_member(app, **msgspec.structs.asdict(_read(record, _Member)))
    for record in channels:
        add_channel(app, **msgspec.structs.asdict(_read(record, _Channel)))
    stamps: dict[str, str] = {}
    for number, record in enumerate(messages):
        message = _read(record, _Message)
        if message.thread and message.thread not in stamps:
            raise AuthorError(
                f"message {number} of the chat to load answers `{message.thread}`, which no earlier message has as `key`"
            )
        try:
            member = member_of(app, message.sender)["id"]
            place = channel_named(app, member, message.channel)
            made = post(app, member, place, message.text, thread=stamps.get(message.thread), at=message.at)
        except ToolError as error:
            raise AuthorError(
                f"message {number} of the chat to load, by {message.sender} in {message.channel}: {error}"
            ) from error
        if message.key:
            stamps[message.key] = made["ts"]


def _read(record: Mapping[str, Any], kind: type[Any]) -> Any:
    try:
        return msgspec.convert({name: value for name, value in record.items() if value is not None}, kind)
    except msgspec.ValidationError as error:
        raise AuthorError(f"a record of the chat to load: {error}; it is {dict(record)!r:.200}") from error


# -- Slack export ------------------------------------------------------------------------------------------------------


def load_slack_export(app: LiveApp, folder: str | Path) -> int:
    """Load the unpacked folder of a Slack export: members, channels, messages with their time stamps; the number of messages."""
    root = Path(folder)
    for user in _json(root / "users.json"):
        profile = user.get("profile", {})
        email = profile.get("email") or f"{user['name']}@export.example"
        real_name = profile.get("real_name") or user.get("real_name") or user["name"]
        add_member(app, email, real_name, title=profile.get("title") or "", name=user["name"], id=user["id"])
    count = 0
    for file, private in (("channels.json", False), ("groups.json", True)):
        for channel in _json(root / file) if (root / file).is_file() else []:
            topic, purpose = (channel.get(part, {}).get("value", "") for part in ("topic", "purpose"))
            members = [each for each in channel.get("members", []) if app.one("SELECT 1 FROM member WHERE id = ?", each)]
            add_channel(app, channel["name"], members, private=private, topic=topic, purpose=purpose, id=channel["id"])
            count += _load_days(app, root / channel["name"], channel["id"])
    return count


def _load_days(app: LiveApp, folder: Path, channel: str) -> int:
    count = 0
    for file in sorted(folder.glob("*.json")):
        for message in _json(file):
            if message.get("type") == "message" and message.get("user") and not message.get("subtype"):
                thread = message.get("thread_ts")
                root = thread if thread != message["ts"] else None
                app.insert(
                    "message",
                    channel=channel,
                    ts=message["ts"],
                    member=message["user"],
                    text=message.get("text", ""),
                    thread=root,
                )
                for reaction in message.get("reactions", []):
                    for user in reaction["users"]:
                        app.insert("reaction", channel=channel, ts=message["ts"], name=reaction["name"], member=user)
                count += 1
    return count


def _json(path: Path) -> list[dict[str, Any]]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[dict[str, Any]])
    except (OSError, msgspec.DecodeError) as error:
        raise AuthorError(f"`{path}` is not a file of a Slack export: {error}") from error
