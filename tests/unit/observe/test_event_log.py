"""The event log of a run directory: appended by every sitting, readable after any crash and while it grows."""

import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest

from sandlot.core.disk import DISK
from sandlot.observe.event_log import FILE, EventReader, open_event_log
from sandlot.observe.events import RunEnded, SinkFailed, fan_out


def test_every_sitting_appends(tmp_path: Path) -> None:
    sittings = [RunEnded(run="one", at=1.0), RunEnded(run="two", stopped="interrupted", at=2.0)]
    for event in sittings:
        with open_event_log(tmp_path) as sink:
            sink(event)
    assert list(EventReader(tmp_path)) == sittings


def test_a_line_that_a_crash_cut_off_costs_only_itself(tmp_path: Path) -> None:
    with open_event_log(tmp_path) as sink:
        sink(RunEnded(run="one", at=1.0))
        sink(RunEnded(run="two", at=1.0))
    file = tmp_path / FILE
    file.write_bytes(file.read_bytes()[:-9])
    with open_event_log(tmp_path) as sink:
        sink(RunEnded(run="three", at=3.0))
    assert list(EventReader(tmp_path)) == [RunEnded(run="one", at=1.0), RunEnded(run="three", at=3.0)]


def test_a_reader_goes_on_where_it_stopped_and_waits_for_whole_lines(tmp_path: Path) -> None:
    events = EventReader(tmp_path)
    assert not list(events)  # there is no file yet
    with open_event_log(tmp_path) as sink:
        sink(RunEnded(run="one", at=1.0))
        assert list(events) == [RunEnded(run="one", at=1.0)]
        with (tmp_path / FILE).open("ab") as half:
            half.write(b'{"event":"run_ended","at":')
        assert not list(events)
        with (tmp_path / FILE).open("ab") as half:
            half.write(b'2.0,"run":"two"}\n')
    assert list(events) == [RunEnded(run="two", at=2.0)]


def test_events_of_other_versions_and_foreign_bytes_are_skipped(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b'{"event":"of_the_future","at":1.0}\n\xff\xfe\n{"event":"run_ended","at":1.0,"run":"one"}\n')
    assert list(EventReader(tmp_path)) == [RunEnded(run="one", at=1.0)]


def test_a_burst_is_written_together(tmp_path: Path) -> None:
    writes: list[int] = []

    def write(fd: int, data: memoryview) -> int:
        writes.append(len(data))
        return os.write(fd, data)

    with open_event_log(tmp_path, replace(DISK, write=write)) as sink:
        for number in range(100):
            sink(RunEnded(run=str(number), at=1000.0))
        sink(RunEnded(run="late", at=1001.0))
        sink(RunEnded(run="last", at=1001.0))
    assert len(writes) == 3  # the first event at once, the burst with the first late one, and the rest at the end
    assert len(list(EventReader(tmp_path))) == 102


def test_a_full_disk_ends_the_log_and_not_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def full(_fd: int, _data: memoryview) -> int:
        raise OSError(28, "No space left on device")

    got: list[object] = []
    with caplog.at_level(logging.WARNING), open_event_log(tmp_path, replace(DISK, write=full)) as log:
        sink = fan_out(log, got.append)
        sink(RunEnded(run="one", at=1.0))
        sink(RunEnded(run="two", at=2.0))
    assert isinstance(got[0], SinkFailed)
    assert got[1:] == [RunEnded(run="one", at=1.0), RunEnded(run="two", at=2.0)]


def test_of_a_long_log_only_the_end_is_read_and_then_everything_new(tmp_path: Path) -> None:
    events = [RunEnded(run=f"run-{number:03d}", at=1.0) for number in range(100)]
    with open_event_log(tmp_path) as sink:
        for event in events:
            sink(event)
    line = (tmp_path / FILE).stat().st_size // 100
    reader = EventReader(tmp_path, last_bytes=10 * line + line // 2)  # the first line it finds is cut
    assert list(reader) == events[-10:]
    with open_event_log(tmp_path) as sink:
        sink(RunEnded(run="more", at=2.0))
    assert list(reader) == [RunEnded(run="more", at=2.0)]
    assert list(EventReader(tmp_path, last_bytes=10**9)) == [*events, RunEnded(run="more", at=2.0)]
    assert not list(EventReader(tmp_path / "none", last_bytes=10))
