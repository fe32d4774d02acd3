"""NATS JetStream as the receiver of a run's events: finds or creates the stream, and publishes.

Messages go to `SUBJECT.RUN.KIND`, with the header `Nats-Msg-Id`, by which JetStream drops what comes twice within its window (two
minutes unless the stream says otherwise). After a longer pause the window is no help, so `look_up` asks the stream which messages
of the run it has beyond the last noted one, and those are not sent.

Messages are sent many at a time. If the stream refuses one of them and takes the next, the refused one arrives later than that.
"""

import base64
import logging
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.text import one_line
from sandlot.observe.event_stream import Acknowledgement, StreamMessage
from sandlot.observe.nats import MOST_BODY, NatsConnection, NatsReply, NatsTarget, decode_reply

_log = logging.getLogger(__name__)
_HEADER_BYTES = 512
"""Room for the header of a message."""
_MOST_MESSAGE = (MOST_BODY - 2**14) * 3 // 4
"""The largest message that is sent. In a look-up the server sends it back in base64, which is a third longer."""
_LEAST_MESSAGE = 1024
"""A server or stream that takes no more than that is set up wrongly."""
_MOST_LOOKED_UP = 10_000
"""Messages of the run that a look-up asks about, ..."""
_LOOK_UP_S = 60.0
"""... and how long it may take."""
_MOST_STREAMS = 16
"""Streams that are asked which subjects they take."""
_NOT_FOUND = 404
_LONGEST_TOKEN = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


_Sequence = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]


class _Error(msgspec.Struct, frozen=True):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Config(msgspec.Struct, frozen=True):
    subjects: tuple[str, ...] = ()
    max_msg_size: int = -1
    no_ack: bool = False
    discard: str = "old"


class _State(msgspec.Struct, frozen=True):
    last_seq: _Sequence = 0


class _Stored(msgspec.Struct, frozen=True):
    seq: _Sequence
    hdrs: str = ""


class _Reply(msgspec.Struct, frozen=True):
    """What JetStream's interface answers: one of these."""

    error: _Error | None = None
    streams: tuple[str, ...] | None = None
    config: _Config | None = None
    created: str = ""
    state: _State = _State()
    message: _Stored | None = None


class _Published(msgspec.Struct, frozen=True):
    error: _Error | None = None
    stream: str = ""
    seq: _Sequence = 0
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class _Stream:
    name: str
    config: _Config
    created: str
    last_sequence: int


class JetStream:
    """Publishes the events of one run; close it at the end."""

    def __init__(self, target: NatsTarget, run: str) -> None:
        self._subject = f"{target.subject}.{_subject_token(run)}"
        self._connection = NatsConnection(target)
        self._stored: dict[str, int] = {}
        try:
            self._stream = self._find_stream(target.subject)
            most, whose = self._find_limit()
        except BaseException:
            self.close()
            raise
        self._last_sequence = self._stream.last_sequence
        self.max_bytes = most - _HEADER_BYTES
        """The largest body that is sent."""
        self.size_limit = f"{most:,} bytes, {whose}"
        """What limits it, for people."""

    def _find_limit(self) -> tuple[int, str]:
        limits = [(self._connection.max_payload, "`max_payload` of the server"), (_MOST_MESSAGE, "the limit of Sandlot itself")]
        if self._stream.config.max_msg_size >= 0:
            limits.append((self._stream.config.max_msg_size, f"`max_msg_size` of the stream `{self.stream}`"))
        most, whose = min(limits)
        if most < _LEAST_MESSAGE:
            raise self._connection.unavailable(
                f"takes messages of at most {most:,} bytes, {whose}; events need at least {_LEAST_MESSAGE:,}"
            )
        return most, whose

    @property
    def stream(self) -> str:
        """The name of the stream."""
        return one_line(self._stream.name, 100)

    @property
    def store(self) -> str:
        """The stream and when it was created, so one that was deleted and made again is another one."""
        return f"{self.stream} {one_line(self._stream.created, 100)}"

    @property
    def last_sequence(self) -> int:
        """The number of the last message that the stream had when we connected."""
        return self._stream.last_sequence

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def keep_alive(self) -> None:
        """Answer the server's pings, and notice if it has gone."""
        self._connection.answer_pings()

    def publish(self, messages: Sequence[StreamMessage]) -> Iterator[Acknowledgement]:
        """Send the messages together and yield their acknowledgements, in order."""
        # A stream that refuses what is too much may take a small event after it refused a large one: that would change the order.
        at_once = 1 if self._stream.config.discard == "new" else len(messages)
        for start in range(0, len(messages), at_once or 1):
            some = messages[start : start + at_once]
            numbers = [None if message.id in self._stored else self._post(message) for message in some]
            self._connection.flush()
            for number, message in zip(numbers, some, strict=True):
                if number is None:
                    yield Acknowledgement(self._stored[message.id], duplicate=True)
                else:
                    yield self._acknowledgement(self._connection.reply_to(number))

    def _post(self, message: StreamMessage) -> int:
        subject = f"{self._subject}.{_subject_token(message.kind)}"
        return self._connection.post(subject, message.body, {"Nats-Msg-Id": message.id})

    def _acknowledgement(self, reply: NatsReply) -> Acknowledgement:
        if reply.nobody_listens:
            raise self._connection.unavailable(f"has no stream any more that takes `{self._subject}.>`")
        stored = decode_reply(reply.body, _Published)
        if stored.error is not None:
            raise self._connection.unavailable(f"does not store an event: {stored.error.description}")
        if not stored.stream or stored.seq < 1:
            raise self._connection.unavailable("acknowledges an event without saying where it is stored")
        if not stored.duplicate:
            if stored.seq <= self._last_sequence:
                raise self._connection.unavailable(f"counts its messages anew: the stream `{self.stream}` was deleted or emptied")
            self._last_sequence = stored.seq
        return Acknowledgement(stored.seq, stored.duplicate)

    def _ask(self, what: str, request: Any) -> _Reply:
        if not re.fullmatch("[!-~]+", what):  # a stream's name is the server's
            raise self._connection.unavailable("names a stream that no request can name")
        number = self._connection.post(f"$JS.API.{what}", msgspec.json.encode(request))
        self._connection.flush()
        reply = self._connection.reply_to(number)
        if reply.nobody_listens:
            raise self._connection.unavailable("has JetStream switched off, for this user at least; start nats-server with -js")
        return decode_reply(reply.body, _Reply)

    def _find_stream(self, subject: str) -> _Stream:
        """The stream that takes our subjects; created if there is none."""
        names = self._ask("STREAM.NAMES", {"subject": f"{self._subject}.>"})
        if names.error is not None:
            raise self._connection.unavailable(
                f"does not list its streams: {names.error.description}; start nats-server with -js"
            )
        if not names.streams:
            return self._create_stream(subject)
        for name in names.streams[:_MOST_STREAMS]:
            reply = self._ask(f"STREAM.INFO.{name}", {})
            config = reply.config
            if config is not None and any(_covers(pattern, self._subject) for pattern in config.subjects):
                if config.no_ack:
                    raise ConfigError(
                        f"stream `{one_line(name, 100)}` acknowledges nothing (`no_ack`); change it, or choose another subject"
                    )
                return _Stream(name, config, reply.created, reply.state.last_seq)
        held = ", ".join(f"`{one_line(name, 100)}`" for name in names.streams[:5])
        raise ConfigError(
            f"a stream ({held}) holds some of the subjects `{self._subject}.>` but not all; add `{subject}.>` to it, or choose "
            "another subject"
        )

    def _create_stream(self, subject: str) -> _Stream:
        name = _UNSAFE.sub("_", subject)
        reply = self._ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{subject}.>"], "storage": "file"})
        if reply.config is None:
            reason = reply.error.description if reply.error else "no reason given"
            raise self._connection.unavailable(f"does not create the stream `{name}` for `{subject}.>`: {reason}")
        return _Stream(name, reply.config, reply.created, reply.state.last_seq)

    def look_up(self, after: int) -> None:
        """Ask which messages of the run the stream has behind this number: `publish` does not send those again."""
        self._stored = {}
        deadline = time.monotonic() + _LOOK_UP_S
        for _ in range(_MOST_LOOKED_UP):
            if time.monotonic() >= deadline:
                break
            request = {"seq": after + 1, "next_by_subj": f"{self._subject}.>"}
            reply = self._ask(f"STREAM.MSG.GET.{self._stream.name}", request)
            if reply.error is not None and reply.error.code == _NOT_FOUND:
                return
            if reply.error is not None or reply.message is None or reply.message.seq <= after:
                reason = reply.error.description if reply.error else "it answers something else"
                raise self._connection.unavailable(f"does not say which events it has: {reason}")
            after = reply.message.seq
            id_found = re.search(rb"^Nats-Msg-Id: *([!-~]+)\r$", _from_base64(reply.message.hdrs), re.MULTILINE)
            if id_found:
                self._stored[id_found[1].decode()] = after
        _log.warning("look-up ended early; events may be sent twice", extra={"looked_up": len(self._stored)})


def _covers(pattern: str, prefix: str) -> bool:
    """True if a stream's pattern takes every subject of one word behind this prefix."""
    words, wanted = pattern.split("."), [*prefix.split("."), "*"]
    for index, word in enumerate(words):
        if word == ">":
            return index < len(wanted)
        if index >= len(wanted) or (word not in {"*", wanted[index]}):
            return False
    return len(words) == len(wanted)


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""


def _subject_token(name: str) -> str:
    """A name as one word of a subject."""
    return _UNSAFE.sub("_", name)[:_LONGEST_TOKEN] or "_"
