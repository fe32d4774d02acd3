"""The event log of a run as messages for a stream outside, such as NATS JetStream: every event at least once.

Each message has an id, made of the topic, the log, the place of the line in it and the bytes of the line. The same line has the
same id whoever sends it and however often, so a receiver can drop what comes twice; two lines never share one, even of a run that
was copied and continued twice. How far the acknowledgements go is noted beside the log, for each target: a sender that was killed
continues there, and sends again at most what it had sent and not noted. Events that were too large are noted too, and sent when
the receiver takes them.

Lines are sent in order. An event that was too large or was refused arrives behind later ones; the place in the id,
`LOG-PLACE-HASH`, gives the order back.
"""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO, Protocol

import msgspec

from sandlot.core.disk import DISK, Disk, make_folder, write_file
from sandlot.core.errors import ConfigError
from sandlot.core.text import one_line
from sandlot.observe.event_log import FILE

FOLDER = "streams"
"""In the run directory: a note for each target."""
_log = logging.getLogger(__name__)
_AT_ONCE = 256
"""Messages that are sent before their acknowledgements are awaited, ..."""
_BATCH_BYTES = 2**20
"""... and about how large they may be together."""
_FIRST_BYTES = 2**16
"""Of the first line, what makes the id of the log."""
_SHOWN = 80
_MOST_TOO_LARGE = 10_000
"""Events that are noted as too large; with more, the receiver's limit is wrong."""
_Place = Annotated[int, msgspec.Meta(ge=0)]


class StreamUnavailable(ConfigError):  # noqa: N818 - names what happened
    """The receiver cannot be reached, refuses us or takes nothing now. Later it may."""


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """One event on its way."""

    id: str
    kind: str
    """The kind of event, as in its field `event`."""
    body: bytes
    """The line of the log."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The receiver has a message."""

    sequence: int
    """Its number there."""
    duplicate: bool
    """True if the receiver had it already, and dropped it."""


class StreamReceiver(Protocol):
    """Takes messages and stores them, each id once."""

    @property
    def store(self) -> str:
        """Names where it stores them; another name if that was deleted and made again."""
        ...

    @property
    def last_sequence(self) -> int:
        """The number of the last message that it had when we connected."""
        ...

    @property
    def max_bytes(self) -> int:
        """The largest body that it takes."""
        ...

    def look_up(self, after: int) -> None:
        """Find which of our messages it has behind this number: `publish` does not send those again."""
        ...

    def publish(self, messages: Sequence[StreamMessage]) -> Iterator[Acknowledgement]:
        """Send the messages and yield the acknowledgement of each, in order; `StreamUnavailable` if one is missing."""
        ...


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    """How far a target has the log."""

    format: int = 1
    target: str
    log: str = ""
    place: int = 0
    """Every line before this byte was acknowledged, is no event, or is in `too_large`."""
    last_place: int = 0
    last_hash: str = ""
    """Of the line that ends at `place`. If it is not there any more, a power failure took the end of the log."""
    sequence: int = 0
    """Number of the last acknowledged message, at the receiver."""
    store: str = ""
    """Where the receiver keeps them."""
    too_large: dict[_Place, _Place] = {}
    """Where the events begin and end that were not sent yet, because they are larger than the receiver takes."""


@dataclass(frozen=True, slots=True)
class _Line:
    place: int
    end: int
    hash: str
    message: StreamMessage | None
    """None if it cannot be sent."""
    begins: bytes
    too_large: bool = False


class _Head(msgspec.Struct, frozen=True):
    event: str


class EventLogSender:
    """Sends the log of one run to one target, again and again while it grows."""

    def __init__(self, run: Path, target: str, topic: str = "", disk: Disk = DISK) -> None:
        """`target` names the receiver, without secrets; `topic` is what the events are sent under there.

        One receiver may have the same events under two topics, so their ids differ.
        """
        self._path, self._disk = run / FILE, disk
        self._source = f"{topic}\0{run.resolve().name}\0".encode(errors="surrogateescape")
        folder = run / FOLDER
        if folder.is_symlink():
            raise ConfigError(f"`{folder}` is a link; remove it: what was sent is noted in a folder of the run itself")
        make_folder(folder, disk)
        self.note_file = folder / f"{_hash(target.encode())}.json"
        self._note: _Note = _read_note(self.note_file, target)
        self._noted = self._note
        self._decoder = msgspec.json.Decoder(_Head)
        self._prepared: StreamReceiver | None = None
        self.num_sent = self.num_duplicates = self.num_unreadable = 0

    @property
    def place(self) -> int:
        """The byte of the log up to which everything was acknowledged, but for what is too large."""
        return self._note.place

    @property
    def num_too_large(self) -> int:
        """Events that are too large and were not sent, by this sender or one before."""
        return len(self._note.too_large)

    @property
    def sequence(self) -> int:
        """The last message that is known to have been acknowledged, by its number at the receiver; 0 if none is."""
        return self._note.sequence

    def prepare(self, receiver: StreamReceiver) -> bool:
        """Find out, once for each receiver, how far it has the log. False if the log has no whole line yet."""
        if not self._path.exists():
            return False
        with self._path.open("rb") as file:
            first = file.readline(_FIRST_BYTES)
            if len(first) < _FIRST_BYTES and not first.endswith(b"\n"):
                return False
            log, note = _hash(self._source + first), self._note
            if note.log != log or (note.place and not _ends_a_line(file, note)):
                self._begin_again(log, "the event log is not the one that was streamed; all of it is sent")
        if self._prepared is not receiver:
            note = self._note
            if note.place and (note.store != receiver.store or receiver.last_sequence < note.sequence):
                self._begin_again(log, "the receiver has lost events; the whole event log is sent")
            receiver.look_up(self._note.sequence)
            self._note, self._prepared = msgspec.structs.replace(self._note, store=receiver.store), receiver
        return True

    def _begin_again(self, log: str, why: str) -> None:
        if self._note.place:
            _log.warning(why, extra={"path": str(self._path)})
        self._note, self._prepared = _Note(target=self._note.target, log=log), None

    def send(self, receiver: StreamReceiver) -> None:
        """Send all whole lines that are not acknowledged yet. What was acknowledged is noted also if this raises."""
        if not self.prepare(receiver):
            return
        with self._path.open("rb") as file:
            for batch in _batches(self._lines(file, receiver.max_bytes)):
                acknowledged = receiver.publish([line.message for line in batch if line.message is not None])
                try:
                    for line in batch:
                        self._pass(line, next(acknowledged) if line.message is not None else None)
                finally:
                    self._write_note()

    def _lines(self, file: BinaryIO, max_bytes: int) -> Iterator[_Line]:
        """What was too large before and is not any more, then what is new."""
        for place, end in self._note.too_large.items():
            if 0 < end - place <= max_bytes + 1:
                file.seek(place)
                data = file.read(end - place)
                line_hash = _hash(data)
                yield _Line(place, end, line_hash, self._message(place, line_hash, data), data[:_SHOWN])
        place = self._note.place
        file.seek(place)
        while first := file.readline(max_bytes + 1):
            digest, end, ended = hashlib.sha256(first), place + len(first), first.endswith(b"\n")
            too_large = not ended and len(first) > max_bytes
            while too_large and not ended and (more := file.readline(_BATCH_BYTES)):  # to its end, without keeping it
                digest.update(more)
                end, ended = end + len(more), more.endswith(b"\n")
            if not ended:
                return  # it is being written
            line_hash = digest.hexdigest()[:16]
            message = None if too_large else self._message(place, line_hash, first)
            yield _Line(place, end, line_hash, message, first[:_SHOWN], too_large)
            place = end

    def _message(self, place: int, line_hash: str, data: bytes) -> StreamMessage | None:
        try:
            kind = self._decoder.decode(data).event
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # a crash cut it off, or it is no event of ours
            return None
        return StreamMessage(f"{self._note.log}-{place}-{line_hash}", kind, data[:-1])

    def _pass(self, line: _Line, acknowledged: Acknowledgement | None) -> None:
        note = self._note
        if acknowledged is not None:
            self.num_duplicates += acknowledged.duplicate
            self.num_sent += not acknowledged.duplicate
        elif line.too_large:
            note = self._with_too_large(line)
        else:
            self.num_unreadable += 1
        if line.place < note.place:  # It was too large before. Its number says nothing of the lines behind `place`.
            left = {place: end for place, end in note.too_large.items() if place != line.place}
            self._note = msgspec.structs.replace(note, too_large=left)
        else:
            sequence = note.sequence if acknowledged is None else acknowledged.sequence
            self._note = msgspec.structs.replace(
                note, place=line.end, last_place=line.place, last_hash=line.hash, sequence=sequence
            )

    def _with_too_large(self, line: _Line) -> _Note:
        if self.num_too_large >= _MOST_TOO_LARGE:
            raise ConfigError(
                f"more than {_MOST_TOO_LARGE:,} events of `{self._path}` are larger than the receiver takes; raise its limit "
                "and repeat the command"
            )
        begins = one_line(line.begins.decode(errors="replace"))
        _log.warning("event too large, not sent", extra={"place": line.place, "bytes": line.end - line.place, "begins": begins})
        return msgspec.structs.replace(self._note, too_large=self._note.too_large | {line.place: line.end})

    def _write_note(self) -> None:
        """Not synced, which could slow the run down: after a power failure, more is sent again."""
        if self._note is not self._noted:
            write_file(self.note_file, msgspec.json.encode(self._note), self._disk, durable=False)
            self._noted = self._note


def _batches(lines: Iterator[_Line]) -> Iterator[list[_Line]]:
    batch: list[_Line] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += line.end - line.place if line.message is not None else 0
        if len(batch) >= _AT_ONCE or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _ends_a_line(file: BinaryIO, note: _Note) -> bool:
    """True if the line that was sent last is still where it was."""
    if not 0 <= note.last_place < note.place:
        return False
    file.seek(note.last_place)
    digest, left = hashlib.sha256(), note.place - note.last_place
    while left > 0 and (data := file.read(min(left, _BATCH_BYTES))):
        digest.update(data)
        left -= len(data)
    return left == 0 and digest.hexdigest()[:16] == note.last_hash


def _read_note(path: Path, target: str) -> _Note:
    try:
        note = msgspec.json.decode(path.read_bytes(), type=_Note)
    except FileNotFoundError:
        return _Note(target=target)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        _log.warning("note of the stream cannot be read; all events are sent", extra={"path": str(path)})
        return _Note(target=target)
    if note.format != 1:
        raise ConfigError(
            f"`{path}` has format {note.format}, of a newer Sandlot; use that, or delete the file to send all events"
        )
    return note


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
