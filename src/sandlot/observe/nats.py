"""A small client of a NATS server: connects, sends messages that ask for a reply, and reads the replies.

The protocol is lines of text and needs no package. What a server sends is bounded in size and time. Passwords are neither shown
nor stored.
"""

import re
import secrets
import socket
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.redaction import Secrets
from sandlot.core.text import one_line
from sandlot.observe.event_stream import StreamUnavailable

MOST_BODY = 8 * 2**20
"""The largest message that is read or sent, in bytes."""
_PORT = 4222
_TIMEOUT_S = 10.0
"""Longest wait for the server to connect, or to answer one more message."""
_MOST_LINE = 2**16
_MOST_DIGITS = 12
_MOST_READS = 64
"""While nothing is sent, at once."""
_SUBJECT = re.compile(r"(?!\$)[!-~]{1,500}\Z")
_WRITE = "write it such as `nats://127.0.0.1:4222/sandlot.events`"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class NatsTarget:
    """A server, and the subject below which events are published. As text it has no secret."""

    host: str
    port: int
    subject: str
    tls: bool
    login: dict[str, str] = field(repr=False)
    """What `CONNECT` says of the user."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'nats'}://{host}:{self.port}/{self.subject}"


def read_nats_target(url: str, environ: Mapping[str, str]) -> NatsTarget:
    """The target that a person wrote, `nats://[USER:PASSWORD@|TOKEN@]HOST[:PORT]/SUBJECT`; no error shows the password.

    Without a user, `environ` is asked for `NATS_USER` and `NATS_PASSWORD`, or `NATS_TOKEN`.
    """
    try:
        place = urlsplit(url)
        host, port, subject = place.hostname, place.port or _PORT, unquote(place.path.strip("/"))
    except ValueError:
        raise ConfigError(f"the address of a NATS server cannot be read; {_WRITE}") from None
    if "@" in place.path:  # part of a password may have become the path, so it is not shown
        raise ConfigError(f"write `/`, `?`, `#` and `@` in a password as `%2F`, `%3F`, `%23` and `%40`; {_WRITE}")
    if place.scheme not in {"nats", "tls"} or not host or place.query or place.fragment:
        raise ConfigError(
            f"the address of a NATS server begins with `nats://HOST` or `tls://HOST` and ends with a subject; {_WRITE}"
        )
    if not _SUBJECT.match(subject) or "*" in subject or ">" in subject or "" in subject.split("."):
        raise ConfigError(
            f"`{one_line(subject, 200)}` is no subject: words of printable characters with dots between, no `*`, no `>`; {_WRITE}"
        )
    user, password = unquote(place.username or ""), place.password
    if not user:
        user, password = environ.get("NATS_USER", ""), environ.get("NATS_PASSWORD", "")
    else:
        password = None if password is None else unquote(password)
    if user:
        login = {"auth_token": user} if password is None else {"user": user, "pass": password}
    else:
        login = {"auth_token": environ["NATS_TOKEN"]} if environ.get("NATS_TOKEN") else {}
    return NatsTarget(host, port, subject, place.scheme == "tls", login)


class _Info(msgspec.Struct, frozen=True):
    max_payload: int = 2**20
    headers: bool = False
    tls_required: bool = False
    auth_required: bool = False


@dataclass(frozen=True, slots=True)
class NatsReply:
    """The answer to one message."""

    status: bytes
    """The first line of its header, if it has one."""
    body: bytes

    @property
    def nobody_listens(self) -> bool:
        """True if the server itself answered, because no one takes the subject."""
        return self.status.startswith(b"NATS/1.0 503")


@dataclass(frozen=True, slots=True)
class _Frame:
    """One thing that the server says."""

    verb: str
    text: bytes
    """What stands behind the verb; of a message its subject."""
    reply: NatsReply | None = None
    """Of a message."""


class NatsConnection:
    """A connection that has said hello."""

    def __init__(self, target: NatsTarget) -> None:
        secret = [target.login[name] for name in ("pass", "auth_token") if name in target.login]
        self._target, self._secrets, self._buffer = target, Secrets(secret, min_chars=4), bytearray()
        self._inbox, self._number, self._outgoing = f"_INBOX.{secrets.token_hex(12)}".encode(), 0, bytearray()
        self._asked: set[int] = set()
        self._replies: dict[int, NatsReply] = {}
        try:
            self._socket: socket.socket = socket.create_connection((target.host, target.port), _TIMEOUT_S)
        except (OSError, ValueError) as error:  # ValueError: the name is no host's
            raise StreamUnavailable(
                f"no NATS server answers at {target.host}:{target.port} ({one_line(str(error), 200)}); start it: nats-server -js"
            ) from error
        try:
            self.max_payload = self._greet().max_payload
            """The largest message that the server takes, its header included."""
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End it."""
        with suppress(OSError):
            self._socket.close()

    def _greet(self) -> _Info:
        deadline = time.monotonic() + _TIMEOUT_S
        frame = self._next_frame(deadline)
        if frame.verb != "INFO":
            raise self.unavailable(f"is no NATS server: it begins with `{one_line(frame.verb, 40)}`")
        info = decode_reply(frame.text, _Info)
        if self._target.tls or info.tls_required:
            self._secure()
        if not info.headers:
            raise self.unavailable("takes no message headers; NATS 2.2 or newer does")
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "name": "sandlot stream"}
        login = {"lang": "python", "version": "1", "protocol": 1} | self._target.login
        self._send(b"CONNECT %s\r\nSUB %s.* 1\r\nPING\r\n" % (msgspec.json.encode(options | login), self._inbox))
        while self._next_frame(deadline).verb != "PONG":
            pass
        return info

    def _secure(self) -> None:
        if self._buffer:
            raise self.unavailable("sends more than its greeting before the connection is encrypted")
        try:
            self._socket = ssl.create_default_context().wrap_socket(self._socket, server_hostname=self._target.host)
        except OSError as error:
            raise self.unavailable(f"cannot be spoken to by TLS: {error}") from error

    def post(self, subject: str, body: bytes, header: Mapping[str, str] | None = None) -> int:
        """Put a message into what `flush` sends; its number, for `reply_to`."""
        self._number += 1
        self._asked.add(self._number)
        lines = "".join(f"{name}: {value}\r\n" for name, value in (header or {}).items())
        head = f"NATS/1.0\r\n{lines}\r\n".encode()
        place = b"%s %s.%d" % (subject.encode(), self._inbox, self._number)
        self._outgoing += b"HPUB %s %d %d\r\n%s%s\r\n" % (place, len(head), len(head) + len(body), head, body)
        return self._number

    def flush(self) -> None:
        """Send what was posted."""
        data, self._outgoing = self._outgoing, bytearray()
        self._send(data)

    def reply_to(self, number: int) -> NatsReply:
        """Wait for the reply to a message; those to others are kept until they are wanted."""
        deadline = time.monotonic() + _TIMEOUT_S
        while number not in self._replies:
            frame = self._next_frame(deadline)
            inbox, _, told = frame.text.rpartition(b".")
            about = int(told) if inbox == self._inbox and told.isdigit() and len(told) < _MOST_DIGITS else 0
            if frame.reply is not None and about in self._asked:
                self._asked.remove(about)
                self._replies[about] = frame.reply
        return self._replies.pop(number)

    def _send(self, data: bytes | bytearray) -> None:
        try:
            self._socket.settimeout(_TIMEOUT_S)
            self._socket.sendall(data)
        except OSError as error:
            raise self.unavailable(f"has closed the connection or takes nothing: {error}") from error

    def _next_frame(self, deadline: float) -> _Frame:
        """The next thing that the server says, its pings answered."""
        while (left_s := deadline - time.monotonic()) > 0:
            frame = self._take_frame()
            if frame is not None:
                return frame
            self._receive(left_s)
        raise self.unavailable(f"has not answered for {_TIMEOUT_S:.0f} s")

    def answer_pings(self) -> None:
        """Read what has come, without waiting."""
        for _ in range(_MOST_READS):
            while self._take_frame() is not None:
                pass
            if not self._receive(0.0):
                return

    def _receive(self, timeout_s: float) -> bool:
        """Read some bytes; False if none come in time."""
        try:
            self._socket.settimeout(max(timeout_s, 0.0))
            data = self._socket.recv(_MOST_LINE)
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError as error:
            raise self.unavailable(f"has broken the connection: {error}") from error
        if not data:
            raise self.unavailable("has closed the connection")
        self._buffer += data
        return True

    def _take_frame(self) -> _Frame | None:
        """The first whole frame of what was read, if there is one; pings are answered and passed over."""
        while (end := self._buffer.find(b"\r\n", 0, _MOST_LINE)) >= 0:
            verb, _, rest = bytes(self._buffer[:end]).partition(b" ")
            match verb.upper():
                case b"MSG" | b"HMSG":
                    return self._take_message(rest.split(), end + 2, headed=verb.upper() == b"HMSG")
                case b"PING":
                    self._send(b"PONG\r\n")
                case b"-ERR":
                    raise self._refused(rest.decode(errors="replace").strip(" '"))
                case b"+OK":
                    pass
                case _:
                    del self._buffer[: end + 2]
                    return _Frame(verb.decode(errors="replace").upper(), rest)
            del self._buffer[: end + 2]
        if len(self._buffer) >= _MOST_LINE:
            raise self.unavailable(f"sends a line of more than {_MOST_LINE:,} bytes")
        return None

    def _take_message(self, words: list[bytes], start: int, *, headed: bool) -> _Frame | None:
        if not 3 + headed <= len(words) <= 4 + headed or not all(
            word.isdigit() and len(word) < _MOST_DIGITS for word in words[-1 - headed :]
        ):
            raise self.unavailable("sends a message without a size")
        size, head = int(words[-1]), int(words[-2]) if headed else 0
        if not head <= size <= MOST_BODY:
            raise self.unavailable(f"sends a message of {size:,} bytes; expected at most {MOST_BODY:,}")
        if len(self._buffer) < start + size + 2:
            return None
        data = bytes(self._buffer[start : start + size])
        del self._buffer[: start + size + 2]
        return _Frame("MSG", words[0], NatsReply(data[:head].partition(b"\r\n")[0], data[head:]))

    def _refused(self, reason: str) -> StreamUnavailable:
        if "authorization" in reason.lower() or "authentication" in reason.lower():
            given = "the user and password or the token" if self._target.login else "us without a user"
            return self.unavailable(
                f"refuses {given} ({reason}); write nats://USER:PASSWORD@HOST or nats://TOKEN@HOST, or set NATS_USER and "
                "NATS_PASSWORD, or NATS_TOKEN"
            )
        return self.unavailable(f"answers with an error: {reason}")

    def unavailable(self, what: str) -> StreamUnavailable:
        """The error that says this of the server, without secrets."""
        shown = one_line(self._secrets.redact(what), 400)  # in this order: half a secret is not found
        return StreamUnavailable(f"the NATS server {self._target.host}:{self._target.port} {shown}")


def decode_reply(data: bytes, kind: type[_T]) -> _T:
    """JSON that a server sent; `StreamUnavailable` if it is something else."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StreamUnavailable(f"the NATS server sends what cannot be read: {one_line(str(error), 200)}") from error
