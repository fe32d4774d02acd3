"""Streaming an event log: whoever dies when, each line arrives, and always under the same id."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.failing_disk import Countdown, StoppedError
from sandlot.core.disk import DISK, Disk
from sandlot.core.errors import ConfigError
from sandlot.observe.event_log import FILE
from sandlot.observe.event_stream import FOLDER, Acknowledgement, EventLogSender, StreamMessage

TARGET = "nats://there:4222/ev"


@dataclass
class Receiver:
    """Stores each id once. The sender may die after it `accepts` some more messages, or is told of some."""

    max_bytes: int = 1000
    store: str = "first"
    looked_up: list[int] = field(default_factory=list)
    stored: dict[str, bytes] = field(default_factory=dict)
    accepts: int = 10**9
    tells: int = 10**9

    @property
    def last_sequence(self) -> int:
        return len(self.stored)

    def look_up(self, after: int) -> None:
        self.looked_up.append(after)

    def publish(self, messages: Sequence[StreamMessage]) -> Iterator[Acknowledgement]:
        known = [message.id in self.stored for message in messages[: self.accepts]]
        for message in messages[: self.accepts]:
            assert self.stored.setdefault(message.id, message.body) == message.body
        self.accepts -= len(known)
        for message, duplicate in zip(messages, known, strict=False):
            self.tells -= 1
            if self.tells < 0:
                raise StoppedError
            yield Acknowledgement(list(self.stored).index(message.id) + 1, duplicate)
        if len(known) < len(messages):
            raise StoppedError


def line(number: int, kind: str = "turn") -> bytes:
    return b'{"event":"%s","at":%d.0}\n' % (kind.encode(), number)


def append(run: Path, data: bytes) -> None:
    with (run / FILE).open("ab") as log:
        log.write(data)


def stream(run: Path, disk: Disk = DISK) -> EventLogSender:
    return EventLogSender(run, TARGET, "ev", disk)


def sendable(log: bytes, most: int = 1000) -> list[bytes]:
    """The slow twin: whole lines of the log that are events and small enough."""
    found = []
    for each in log.split(b"\n")[:-1]:
        try:
            if len(each) <= most and isinstance(json.loads(each)["event"], str):
                found.append(each)
        except (ValueError, KeyError, TypeError):
            pass
    return found


PIECES = st.sampled_from(
    [line(0), line(7, "run_ended"), b'{"event":"tu', b"\n", b"\xff\n", b'{"event":"turn","long":"' + b"x" * 2000 + b'"}\n']
)
DEATHS = st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 6))


@given(st.lists(st.tuples(st.lists(PIECES, max_size=8), st.none() | DEATHS), max_size=8))
def test_whatever_dies_when_each_line_arrives_once_and_in_order(tmp_path_factory: pytest.TempPathFactory, story):
    run, receiver = tmp_path_factory.mktemp("run"), Receiver()
    for pieces, death in story:
        append(run, b"".join(pieces))
        accepts, tells, operations = death or (10**9, 10**9, 10**9)
        receiver.accepts, receiver.tells = accepts, tells
        with suppress(StoppedError):
            stream(run, Countdown(operations + 1).disk).send(receiver)  # the first operation is that of the folder
    receiver.accepts = receiver.tells = 10**9
    append(run, b"\n")  # the next sitting ends a line that was cut off
    last = stream(run)
    last.send(receiver)
    log = (run / FILE).read_bytes()
    assert list(receiver.stored.values()) == sendable(log)
    assert last.place == len(log)
    assert last.num_too_large == sum(len(each) > 1000 for each in log.split(b"\n"))
    receiver.max_bytes = 10**6
    last = stream(run)
    last.send(receiver)
    assert last.num_too_large == 0
    # What was too large comes late; the place in its id gives the order back.
    in_order = sorted(receiver.stored, key=lambda each: int(each.split("-")[1]))
    assert [receiver.stored[each] for each in in_order] == sendable(log, 10**6)


def test_it_continues_where_it_stopped_and_follows_a_growing_log(tmp_path: Path):
    receiver, events = Receiver(), stream(tmp_path)
    events.send(receiver)  # there is no log yet
    append(tmp_path, line(1) + line(2)[:5])
    events.send(receiver)
    events.send(receiver)
    append(tmp_path, line(2)[5:])
    events.send(receiver)
    assert (events.num_sent, events.num_duplicates, events.place) == (2, 0, len(line(1) + line(2)))
    append(tmp_path, line(3))
    again = stream(tmp_path)
    again.send(receiver)
    assert (again.num_sent, again.num_duplicates, again.sequence) == (1, 0, 3)
    assert list(receiver.stored.values()) == [line(number)[:-1] for number in (1, 2, 3)]


def test_more_than_a_batch_is_sent_and_equal_lines_are_different_events(tmp_path: Path):
    append(tmp_path, line(1) * 1000)
    receiver = Receiver()
    stream(tmp_path).send(receiver)
    assert len(receiver.stored) == 1000


def test_a_line_whose_start_is_read_while_it_is_written_gets_one_id(tmp_path: Path):
    receiver = Receiver()
    events = stream(tmp_path)
    append(tmp_path, line(1)[:9])
    events.send(receiver)  # the log's own id is made of this line: it must wait for the rest
    append(tmp_path, line(1)[9:])
    events.send(receiver)
    stream(tmp_path).note_file.unlink()
    other = stream(tmp_path)
    other.send(receiver)
    assert (len(receiver.stored), other.num_duplicates) == (1, 1)


def test_an_event_that_is_too_large_is_counted_and_named_and_the_rest_is_sent(tmp_path: Path, caplog):
    append(tmp_path, line(1) + b'{"event":"turn","x":"' + b"y" * 2000 + b'"}\n' + b"cut of\n" + line(2))
    receiver, events = Receiver(), stream(tmp_path)
    events.send(receiver)
    assert (events.num_sent, events.num_too_large, events.num_unreadable) == (2, 1, 1)
    (record,) = caplog.records
    assert record.begins.startswith('{"event":"turn"')
    assert record.place == len(line(1))


def test_an_event_that_is_too_large_is_remembered_and_sent_when_the_limit_allows_it(tmp_path: Path):
    large = b'{"event":"turn","x":"' + b"y" * 2000 + b'"}\n'
    append(tmp_path, line(1) + large + line(2))
    receiver = Receiver()
    stream(tmp_path).send(receiver)
    again = stream(tmp_path)
    again.send(receiver)
    assert (again.num_sent, again.num_too_large) == (0, 1)
    receiver.max_bytes = len(large) - 2
    again.send(receiver)
    assert again.num_too_large == 1
    receiver.max_bytes = len(large) - 1
    again.send(receiver)
    assert (again.num_sent, again.num_too_large) == (1, 0)
    last = stream(tmp_path)
    last.send(receiver)
    assert (last.num_sent, last.num_duplicates, last.num_too_large, last.sequence) == (0, 0, 0, 2)
    assert list(receiver.stored.values()) == [line(1)[:-1], line(2)[:-1], large[:-1]]


def test_a_receiver_for_which_nearly_everything_is_too_large_is_refused(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("sandlot.observe.event_stream._MOST_TOO_LARGE", 3)
    append(tmp_path, line(1) * 5)
    with pytest.raises(ConfigError, match="more than 3 events"):
        stream(tmp_path).send(Receiver(max_bytes=5))
    receiver = Receiver()
    stream(tmp_path).send(receiver)
    assert len(receiver.stored) == 5


@pytest.mark.parametrize("lost", ["made again", "its end"])
def test_a_receiver_that_lost_what_it_had_is_sent_everything(tmp_path: Path, lost: str, caplog):
    append(tmp_path, line(1) + line(2))
    receiver = Receiver()
    stream(tmp_path).send(receiver)
    append(tmp_path, line(3))
    if lost == "made again":
        after = Receiver(store="second", stored={"other": b"", "run": b""})
    else:
        after = Receiver(stored=dict(list(receiver.stored.items())[:1]))
    events = stream(tmp_path)
    events.send(after)
    assert list(after.stored.values())[-3:] == [line(number)[:-1] for number in (1, 2, 3)]
    assert after.looked_up == [0]
    assert "has lost events" in caplog.text


def test_what_a_receiver_has_is_looked_up_once_and_again_if_the_log_is_another_one(tmp_path: Path):
    append(tmp_path, line(1) + line(2))
    receiver = Receiver()
    stream(tmp_path).send(receiver)
    events = stream(tmp_path)
    events.send(receiver)
    append(tmp_path, line(3))
    events.send(receiver)
    assert receiver.looked_up == [0, 2]
    (tmp_path / FILE).write_bytes(line(4))
    events.send(receiver)
    assert receiver.looked_up == [0, 2, 0]


def test_an_event_that_is_nested_too_deep_to_be_read_is_no_event(tmp_path: Path):
    append(tmp_path, b'{"event":"turn","x":' + b"[" * 5000 + b"]" * 5000 + b"}\n" + line(1))
    receiver, events = Receiver(max_bytes=10**5), stream(tmp_path)
    events.send(receiver)
    assert (events.num_sent, events.num_unreadable) == (1, 1)


def test_a_log_that_lost_its_end_is_sent_again_under_the_same_ids(tmp_path: Path):
    """A power failure may take lines that were streamed; other lines come in their place, which must not be passed over."""
    append(tmp_path, line(1) + line(2) + line(3))
    receiver = Receiver()
    stream(tmp_path).send(receiver)
    (tmp_path / FILE).write_bytes(line(1) + line(4) + line(5) + line(6))
    events = stream(tmp_path)
    events.send(receiver)
    assert (events.num_sent, events.num_duplicates) == (3, 1)
    assert list(receiver.stored.values()) == [line(number)[:-1] for number in range(1, 7)]


def test_a_copy_of_a_run_that_is_continued_has_ids_of_its_own(tmp_path: Path):
    one, two = tmp_path / "a" / "run", tmp_path / "b" / "run"
    one.mkdir(parents=True)
    append(one, line(1))
    shutil.copytree(one, two)
    append(one, line(2))
    append(two, line(3))
    receiver = Receiver()
    stream(one).send(receiver)
    stream(two).send(receiver)
    assert list(receiver.stored.values()) == [line(number)[:-1] for number in (1, 2, 3)]


def test_two_topics_of_one_receiver_both_get_the_events(tmp_path: Path):
    append(tmp_path, line(1))
    receiver = Receiver()
    for topic in ("one", "two"):
        EventLogSender(tmp_path, f"{TARGET}.{topic}", topic).send(receiver)
    assert len(receiver.stored) == 2


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"{",
        b'{"target":"x","log":"x","place":-5}',
        b'{"target":"x","place":10,"last_place":-3,"last_hash":"x"}',
        b'{"target":"x","place":99999999999,"last_place":3,"last_hash":"x"}',
        b'{"target":"x","too_large":{"-5":3}}',
        b'{"target":"x","x":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_a_note_that_is_wrong_costs_duplicates_and_nothing_else(tmp_path: Path, note: bytes):
    append(tmp_path, line(1) + line(2))
    stream(tmp_path).note_file.write_bytes(note)
    receiver = Receiver()
    stream(tmp_path).send(receiver)
    assert len(receiver.stored) == 2


def test_a_folder_of_notes_that_points_elsewhere_is_refused(tmp_path: Path):
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    run.mkdir()
    elsewhere.mkdir()
    (run / FOLDER).symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="is a link"):
        stream(run)
