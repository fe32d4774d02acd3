"""A run's events streamed to NATS JetStream by a follower of its event log: the run itself never waits for it.

The sender may be killed and started again at any time, the server may go away and come back, and the run may be continued: every
event arrives, and JetStream drops what comes twice. Events are sent in order; one that was refused or too large comes later.
"""

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.observe.event_log import FILE, EventReader
from sandlot.observe.event_stream import EventLogSender, StreamUnavailable
from sandlot.observe.events import RunBegan, RunEnded
from sandlot.observe.jetstream import JetStream
from sandlot.observe.nats import NatsTarget, read_nats_target
from sandlot.store.lock import is_live, locked_file

_EVERY_S = 0.25
"""Between two looks at the log."""
_PAUSES_S = (0.25, 30.0)
"""Before the first new connection, and at most; each is twice the one before."""
_PATIENCE_S = 60.0
"""How long a server that went away is waited for once the run has ended."""

_TAIL_BYTES = 2**20
"""The end of the log in which the end of the run is looked for."""


class StreamedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What was streamed."""

    run: str
    target: str
    """Server and subject, without password."""
    stream: str
    """The stream of JetStream that has the events."""
    sent: int
    """Events that were stored there by this command."""
    duplicates: int
    """Events that it had already."""
    unreadable: int
    """Lines of the log that a crash had cut off."""
    too_large: int
    """Events that are not sent, by this command or one before, because they are larger than `size_limit`."""
    size_limit: str
    """The largest message that is sent, and what limits it: the server, the stream or Sandlot."""
    position: int
    """Bytes of the event log that are delivered, but for what is too large."""
    live: bool
    """True if a process of this machine writes the run."""
    ended: bool
    """True if the event log says that the run has ended, and is delivered up to there."""
    problem: str | None
    """Why the last connection failed, if it was given up."""

    @property
    def exit_code(self) -> int:
        """0 if everything is delivered, 1 if an event could not be sent, 3 if there may be more."""
        if self.too_large:
            return 1
        return 0 if self.ended else 3


@contextmanager
def open_run_stream(
    run: Path, url: str, *, tell: Callable[[str], None] | None = None, patience_s: float = _PATIENCE_S
) -> Generator["RunStream"]:
    """Connect a run to `nats://HOST:PORT/SUBJECT` until the block ends; see `RunStream.follow`.

    `tell` is given a sentence when the server goes away or comes back. `ConfigError` if the server cannot be used at the
    beginning, or another process streams this run there.
    """
    target = read_nats_target(url, os.environ)
    events = EventLogSender(run, str(target), target.subject)

    def refusal(holder: str) -> ConfigError:
        return ConfigError(f"process {holder} streams `{run}` to {target} already; let it, or stop it")

    # One process at a time: two would note each other's positions.
    with locked_file(events.note_file.with_suffix(".lock"), f"the stream of `{run}`", refusal):
        stream = RunStream(run, target, events, tell or (lambda _sentence: None), patience_s)
        try:
            yield stream
        finally:
            stream.close()


class RunStream:
    """One run on its way to one target."""

    def __init__(
        self, run: Path, target: NatsTarget, events: EventLogSender, tell: Callable[[str], None], patience_s: float
    ) -> None:
        self._run, self._target, self._events, self._tell, self._patience_s = run, target, events, tell, patience_s
        self._name, self._live, self._ended, self._problem = run.resolve().name, False, False, None
        self._stream, self._size_limit = "", ""
        self._server: JetStream | None = self._connect()

    def follow(self, *, once: bool = False) -> StreamedRun:
        """Send what the log has, and with `once` stop there; else go on until the run has ended and all is delivered.

        If the server goes away, it is waited for: as long as the run goes on, and a minute after that.
        """
        pause_s, failed_at = _PAUSES_S[0], None
        while True:
            # Before the log is sent: when the run has ended, all of it is there.
            self._live = live = is_live(self._run)
            ended = not live and _has_ended(self._run)
            try:
                self._send()
            except StreamUnavailable as error:
                self.close()
                now = time.monotonic()
                failed_at = failed_at or now
                self._problem = str(error)
                if (once or not live) and now - failed_at >= self._patience_s:
                    break
                self._tell(f"{error}; trying again in {pause_s:g} s")
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSES_S[1])
                continue
            if failed_at is not None:
                self._tell("connected again, and everything is delivered so far")
            pause_s, failed_at, self._problem = _PAUSES_S[0], None, None
            self._ended = ended and self._events.place == (self._run / FILE).stat().st_size  # no line is half written
            if once or not live:
                break
            time.sleep(_EVERY_S)
        return self.summary

    @property
    def summary(self) -> StreamedRun:
        """What has been streamed so far."""
        events = self._events
        return StreamedRun(
            run=str(self._run),
            target=str(self._target),
            stream=self._stream,
            sent=events.num_sent,
            duplicates=events.num_duplicates,
            unreadable=events.num_unreadable,
            too_large=events.num_too_large,
            size_limit=self._size_limit,
            position=events.place,
            live=self._live,
            ended=self._ended,
            problem=self._problem,
        )

    def close(self) -> None:
        """End the connection; what was acknowledged is noted already."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _connect(self) -> JetStream:
        server = JetStream(self._target, self._name)
        try:
            self._events.prepare(server)
        except BaseException:
            server.close()
            raise
        self._stream, self._size_limit = server.stream, server.size_limit
        return server

    def _send(self) -> None:
        if self._server is None:
            self._server = self._connect()
        self._events.send(self._server)
        self._server.keep_alive()


def _has_ended(run: Path) -> bool:
    """True if the log says so. That nobody is seen writing it is not enough: the writer may be in another container, or killed.

    A training's log also holds the ends of its evaluations, which have other names than the run that began the log.
    """
    name = next((event.run for event in EventReader(run) if isinstance(event, RunBegan)), None)
    ended = False
    for event in EventReader(run, last_bytes=_TAIL_BYTES):
        if isinstance(event, RunBegan | RunEnded) and event.run == name:
            ended = isinstance(event, RunEnded)
    return ended
