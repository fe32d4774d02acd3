"""The events of a run in its directory: `events.jsonl`, one JSON object per line.

Every sitting appends. Events are encoded once into a buffer, which is written when it is full or when the last write was a while
ago, so a burst of short rollouts costs few writes. A crash loses at most the buffer, and no line takes the next one with it: a
line that a crash cut off is ended by the next sitting and skipped on reading. What counts is in the traces.
"""

import logging
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from sandlot.core.disk import DISK, Disk, write_all
from sandlot.observe.events import AnyEvent, RunEvent, Sink

FILE = "events.jsonl"
_log = logging.getLogger(__name__)
_BUFFER_BYTES = 64 * 1024
_BUFFER_S = 0.25


@contextmanager
def open_event_log(run: Path, disk: Disk = DISK) -> Generator[Sink]:
    """A sink that appends to the event log of a run directory, until the block ends."""
    log = _EventLog(run / FILE, disk)
    try:
        yield log.add
    finally:
        log.close()


class _EventLog:
    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk
        self._encoder = msgspec.json.Encoder()
        self._buffer = bytearray()
        self._written_at = 0.0
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            self._buffer += b"\n"

    def add(self, event: RunEvent) -> None:
        self._encoder.encode_into(event, self._buffer, -1)
        self._buffer += b"\n"
        if len(self._buffer) >= _BUFFER_BYTES or event.at - self._written_at >= _BUFFER_S:
            self._written_at = event.at
            self._write()

    def _write(self) -> None:
        """Write what is buffered, once: where that fails, the rest is given up."""
        data, self._buffer = self._buffer, bytearray()
        write_all(self._fd, memoryview(data), self._disk)

    def close(self) -> None:
        try:
            self._write()
        except OSError as error:
            _log.warning("event log not written", extra={"path": str(self._path), "error": str(error)})
        finally:
            os.close(self._fd)


def append_event(run: Path, event: RunEvent) -> None:
    """Add one event to the log of a run that another writer may have open: lines are appended whole, so none cuts another."""
    fd = os.open(run / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        os.write(fd, msgspec.json.encode(event) + b"\n")
    finally:
        os.close(fd)


class EventReader:
    """The events of a run, finished or live, in the order they were written.

    Each iteration yields what was written since the last one, so a page that follows a live run iterates again and again:

    ```python
    import sandlot

    run = sandlot.run("arithmetic", "scripted:golden", rollouts=1)
    events = run.events()
    print([type(event).__name__ for event in events])
    assert not list(events)  # nothing new
    ```

    Lines that are cut off or of a kind this version does not know are skipped. A run without a log has no events. With
    `last_bytes`, only the end of a long log is read.
    """

    def __init__(self, run: Path, *, last_bytes: int | None = None) -> None:
        self._path = run / FILE
        self._decoder = msgspec.json.Decoder(AnyEvent)
        size = self._path.stat().st_size if last_bytes is not None and self._path.exists() else 0
        self._place = max(0, size - last_bytes) if last_bytes is not None else 0

    def __iter__(self) -> Iterator[AnyEvent]:
        if not self._path.exists():
            return
        with self._path.open("rb") as lines:
            lines.seek(self._place)
            for line in lines:
                if not line.endswith(b"\n"):
                    return  # it is being written
                self._place += len(line)
                try:
                    event = self._decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    continue
                yield event
