"""NATS JetStream as the receiver of a run's events: finds or creates the stream, and publishes.

Messages go to `SUBJECT.RUN.KIND`, with the header `Nats-Msg-Id`, by which JetStream drops what comes twice within its window (two
minutes unless the stream says otherwise). After a longer pause the window is no help, so a new connection first asks the stream
which messages of the run it has beyond the last noted one, and does not send those.
"""

import base64
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.text import one_line
from sandlot.observe.event_stream import Acknowledgement, StreamMessage
from sandlot.observe.nats import MOST_BODY, NatsConnection, NatsReply, NatsTarget, decode_reply

_HEADER_BYTES = 512
"""Room for the header of a message."""
_MOST_LOOKED_UP = 10_000
"""Messages of the run that a new connection asks about."""
_LONGEST_TOKEN = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


_Sequence = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]


class _Error(msgspec.Struct, frozen=True):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Stream(msgspec.Struct, frozen=True):
    name: str
    subjects: tuple[str, ...] = ()
    max_msg_size: int = -1
    no_ack: bool = False
    discard: str = "old"


class _Stored(msgspec.Struct, frozen=True):
    seq: _Sequence
    hdrs: str = ""


class _Reply(msgspec.Struct, frozen=True):
    """What JetStream's interface answers: one of these."""

    error: _Error | None = None
    streams: tuple[str, ...] | None = None
    config: _Stream | None = None
    message: _Stored | None = None


class _Published(msgspec.Struct, frozen=True):
    error: _Error | None = None
    stream: str = ""
    seq: _Sequence = 0
    duplicate: bool = False


class JetStream:
    """Publishes the events of one run; close it at the end."""

    def __init__(self, target: NatsTarget, run: str, *, after: int = 0) -> None:
        """`after` is the number of the last message of the run that is known to be stored."""
        self._subject = f"{target.subject}.{_subject_token(run)}"
        self._connection = NatsConnection(target)
        try:
            self._stream = self._find_stream(target.subject)
            self._stored = self._look_up(after)
        except BaseException:
            self.close()
            raise
        limit = self._stream.max_msg_size if self._stream.max_msg_size >= 0 else MOST_BODY
        self.max_bytes = max(0, min(self._connection.max_payload, limit, MOST_BODY) - _HEADER_BYTES)
        """The largest body that the server and the stream take."""

    @property
    def stream(self) -> str:
        """The name of the stream."""
        return self._stream.name

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def keep_alive(self) -> None:
        """Answer the server's pings, and notice if it has gone."""
        self._connection.answer_pings()

    def publish(self, messages: Sequence[StreamMessage]) -> Iterator[Acknowledgement]:
        """Send the messages together and yield their acknowledgements, in order."""
        # A stream that refuses what is too much may take a small event after it refused a large one: that would change the order.
        at_once = 1 if self._stream.discard == "new" else len(messages)
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
        for name in names.streams:
            stream = self._ask(f"STREAM.INFO.{name}", {}).config
            if stream is not None and any(_covers(pattern, self._subject) for pattern in stream.subjects):
                if stream.no_ack:
                    raise ConfigError(
                        f"the stream `{stream.name}` acknowledges nothing (`no_ack`); change it, or choose another subject"
                    )
                return stream
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
        return reply.config

    def _look_up(self, after: int) -> dict[str, int]:
        """Ids and numbers of the run's messages that the stream has behind this number."""
        found: dict[str, int] = {}
        for _ in range(_MOST_LOOKED_UP):
            request = {"seq": after + 1, "next_by_subj": f"{self._subject}.>"}
            stored = self._ask(f"STREAM.MSG.GET.{self._stream.name}", request).message
            if stored is None or stored.seq <= after:
                break
            after = stored.seq
            id_found = re.search(rb"^Nats-Msg-Id: *([!-~]+)\r$", _from_base64(stored.hdrs), re.MULTILINE)
            if id_found:
                found[id_found[1].decode()] = after
        return found


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
