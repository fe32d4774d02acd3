"""A NATS server with JetStream, as small as its protocol allows, in a thread: for what a real one does only on a bad day.

It stores what is published, drops ids that it has seen while `remembers` is true, and answers as JetStream does. `answer` may be
replaced by a test that wants another answer.
"""

import base64
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO


@dataclass(frozen=True)
class Stored:
    subject: str
    id: str
    body: bytes


@dataclass
class FakeNats:
    port: int = 0
    info: dict = field(default_factory=lambda: {"headers": True, "max_payload": 2**20})
    greeting: bytes | None = None
    """Instead of the line `INFO`."""
    config: dict | None = None
    """The stream, if there is one."""
    num_created: int = 0
    """Streams that were made here."""
    stored: list[Stored] = field(default_factory=list)
    remembers: bool = True
    deaf_after: int | None = None
    """Stores this many more messages, then closes each connection before it acknowledges the next one."""
    connects: list[dict] = field(default_factory=list)
    intercept: Callable[[str, bytes], bytes | None] = lambda _subject, _body: None
    """Frames to send instead of the answer to a request; None for the usual answer."""

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}/ev"

    def serve(self, connection: socket.socket) -> None:
        with suppress(OSError, ValueError, IndexError), connection, connection.makefile("rb") as lines:
            connection.sendall(self.greeting or b"INFO %s\r\n" % json.dumps(self.info).encode())
            while line := lines.readline():
                verb, *words = line.decode().split(" ", 1)[0].strip(), *line.decode().split()[1:]
                if verb == "CONNECT":
                    self.connects.append(json.loads(line.partition(b" ")[2]))
                elif verb == "PING":
                    connection.sendall(b"PONG\r\n")
                elif verb == "HPUB":
                    connection.sendall(self._take(words, lines))

    def _take(self, words: list[str], lines: BinaryIO) -> bytes:
        subject, inbox, head, size = words[0], words[1], int(words[2]), int(words[3])
        data = lines.read(size + 2)[:-2]
        found = re.search(rb"Nats-Msg-Id: (\S+)", data[:head])
        other = self.intercept(subject, data[head:])
        if other is not None:
            return other.replace(b"INBOX", inbox.encode())
        if subject.startswith("$JS.API."):
            reply = self._api(subject.removeprefix("$JS.API."), json.loads(data[head:]))
        else:
            reply = self._store(Stored(subject, found[1].decode() if found else "", data[head:]))
        body = json.dumps(reply).encode()
        return b"MSG %s 1 %d\r\n%s\r\n" % (inbox.encode(), len(body), body)

    def _store(self, message: Stored) -> dict:
        for number, known in enumerate(self.stored, start=1):
            if self.remembers and known.id == message.id:
                return {"stream": "ev", "seq": number, "duplicate": True}
        self.stored.append(message)
        if self.deaf_after is not None:
            self.deaf_after -= 1
            if self.deaf_after < 0:
                raise ConnectionAbortedError
        return {"stream": "ev", "seq": len(self.stored)}

    def _api(self, what: str, request: dict) -> dict:
        if what == "STREAM.NAMES":
            return {"streams": None if self.config is None else [self.config["name"]]}
        if what.startswith("STREAM.CREATE"):
            self.config = request
            self.num_created += 1
        if what.startswith("STREAM.MSG.GET"):
            for number, message in enumerate(self.stored, start=1):
                if number >= request["seq"] and message.subject.startswith(request["next_by_subj"][:-1]):
                    header = base64.b64encode(f"NATS/1.0\r\nNats-Msg-Id: {message.id}\r\n\r\n".encode()).decode()
                    body = base64.b64encode(message.body).decode()
                    return {"message": {"subject": message.subject, "seq": number, "hdrs": header, "data": body}}
            return {"error": {"code": 404, "description": "no message found"}}
        return {"config": self.config, "created": f"at {self.num_created}", "state": {"last_seq": len(self.stored)}}

    def lose_everything(self) -> None:
        """As if its store was wiped."""
        self.config = None
        self.stored.clear()


@contextmanager
def fake_nats(**settings) -> Iterator[FakeNats]:
    """One that listens until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = FakeNats(port=listener.getsockname()[1], **settings)
        open_ones: list[socket.socket] = []

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    open_ones.append(connection)
                    threading.Thread(target=server.serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            for connection in open_ones:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
