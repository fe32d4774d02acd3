"""Tells the admission of a room four times a second what is seen, and lets rollouts start; records why they had to wait.

What is seen are the events of the runs in the room, the metrics of the model's servers where they have some, and this machine.
All decisions are made by `schedule/admission.py`.
"""

import logging
import math
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import anyio

from sandlot.core.concurrency.clock import SYSTEM_CLOCK, Clock
from sandlot.core.errors import unwrapped
from sandlot.model.wire.server_load import LoadOf, ServerLoad, add_loads
from sandlot.observe.events import AdmissionChanged, RunEvent, Sink
from sandlot.observe.host import HostReading, read_host
from sandlot.run.results import AdmissionRecord
from sandlot.run.schedule.admission import Admission, Signals
from sandlot.run.schedule.job import Waits
from sandlot.run.signals import SignalMeter
from sandlot.run.slots import Room

_log = logging.getLogger(__name__)

LOOK_S = 0.25
_HOST_S = 1.0
"""Between two readings of this machine."""
_REPORT_S = 1.0
"""Between two reports of which only the reason differs."""
ASK_S = 2.0
"""Between two questions to the model's servers how busy they are, and the time for an answer."""
_SHOWN_CHANGE = 0.02
"""A smaller change of the limit is not reported."""


@dataclass(slots=True)
class _Member:
    """A run in the room."""

    sink: Sink
    sandboxed: bool
    here: bool
    """True if its rollouts run on this machine."""
    model: str
    load: LoadOf | None


@dataclass(slots=True)
class AdmissionWatch:
    """Looks at one room. Open it with `watch_admission`."""

    room: Room
    admission: Admission
    host: Callable[[], HostReading] = read_host
    clock: Clock = SYSTEM_CLOCK
    meter: SignalMeter = field(default_factory=SignalMeter)
    _members: dict[str, _Member] = field(default_factory=dict[str, _Member])
    _looked_s: float = 0.0
    _shown: tuple[int, Waits] | None = None
    _limits: tuple[int, int] | None = None
    _waited: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _lag_s: float | None = None
    _reading: ServerLoad | None = None
    """What the servers said, until the admission was told."""
    _reading_changes: int = 0
    """Changes of the limit before the servers were asked."""
    _caches: dict[str, int] = field(default_factory=dict[str, int])
    """Tokens that the cache of each model holds, of those that say so."""
    _host_reading: HostReading = field(default_factory=HostReading)
    _host_s: float = -math.inf
    _shown_s: float = -math.inf

    def __post_init__(self) -> None:
        """The first look counts from now."""
        self._looked_s = self.clock.monotonic()

    def receive(self, event: RunEvent) -> None:
        """Take an event of a run in the room; a sink."""
        self.meter.receive(event)

    @contextmanager
    def joined(
        self, run: str, sink: Sink, *, sandboxed: bool, here: bool, model: str = "", load: LoadOf | None = None
    ) -> Generator[None]:
        """A run is in the room during the block: it is told every change, and its model's servers are asked with `load`."""
        self._members[run] = _Member(sink, sandboxed, here, model, load)
        self._shown = None  # it has not been told yet
        try:
            yield
        finally:
            del self._members[run]

    def record(self) -> AdmissionRecord:
        """What was seen so far."""
        low, high = self._limits or (self.room.limit, self.room.limit)
        waited = {reason: round(seconds, 3) for reason, seconds in self._waited.items()}
        return AdmissionRecord(lowest=low, highest=high, last=self.room.limit, seconds=waited)

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            await anyio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Tell the admission what is seen, let rollouts start, and report a change."""
        now = self.clock.monotonic()
        seconds, self._looked_s = now - self._looked_s, now
        is_waited_for = self.room.is_waited_for
        if is_waited_for:
            self._waited[self.admission.binding.value] += seconds
        changes = self.admission.num_changes
        self.admission.look(self._signals(seconds, is_waited_for=is_waited_for))
        if self.admission.num_changes != changes:
            self.meter.fresh_since = self.clock.wall()
        self.room.admit()
        self._report()

    def _signals(self, seconds: float, *, is_waited_for: bool) -> Signals:
        reading, counts = self._take_reading(), self.meter.take()
        forecast = self.meter.forecast([run for run, member in self._members.items() if member.model in self._caches])
        self._lag_s = counts.lag_s if counts.lag_s is not None else self._lag_s  # it is sent every few seconds
        members = self._members.values()
        host = self._read_host()
        return Signals(
            running=self.room.in_flight,
            waiting=is_waited_for,
            seconds=seconds,
            turns=counts.turns,
            refused=counts.refused,
            fresh_turns=counts.fresh_turns,
            fresh_s=counts.fresh_s,
            fresh_tokens=counts.fresh_tokens,
            queued=reading.queued,
            cache_used=reading.cache_used,
            cache_tokens=sum(self._caches.values()) if forecast is not None else None,
            cache_forecast=forecast.running if forecast is not None else 0,
            cache_each=forecast.each if forecast is not None else 0,
            grading=self.room.gradings.num_grading,
            graded=counts.graded,
            judge_refused=counts.judge_refused,
            opening=self.meter.num_opening,
            opened=counts.opened,
            sandboxed=any(member.sandboxed for member in members),
            cpus=host.cpus,
            runnable=host.runnable,
            lag_s=self._lag_s,
            free_bytes=host.free_bytes,
            total_bytes=host.total_bytes,
            memory_stall=host.memory_stall,
        )

    def _take_reading(self) -> ServerLoad:
        """What the servers said, once; what they were asked before the last change says nothing about the limit now."""
        reading, self._reading = self._reading, None
        is_fresh = self._reading_changes == self.admission.num_changes
        return reading if reading is not None and is_fresh else ServerLoad()

    def _read_host(self) -> HostReading:
        """The machine, about once a second; unknown if rollouts run elsewhere, or before a run has all it needs open."""
        if not self._members or not all(member.here for member in self._members.values()):
            return HostReading()
        if self._looked_s - self._host_s >= _HOST_S:
            self._host_reading, self._host_s = self.host(), self._looked_s
        return self._host_reading

    async def ask_servers(self) -> None:
        """Ask the models' servers how busy they are, until cancelled; what does not answer in time is not known."""
        while True:
            await anyio.sleep(ASK_S)
            await self.ask_once()

    async def ask_once(self) -> None:
        """Ask each model's servers."""
        changes = self.admission.num_changes
        servers = {member.model: member.load for member in self._members.values() if member.load is not None}
        loads = {model: await _asked(load) for model, load in servers.items()}
        self._reading, self._reading_changes = add_loads(loads.values()), changes
        self._caches = {model: load.cache_tokens for model, load in loads.items() if load.cache_tokens is not None}

    def _report(self) -> None:
        limit, reason = self.room.limit, self.room.waits
        low, high = self._limits or (limit, limit)
        self._limits = min(low, limit), max(high, limit)
        if self._shown is not None:
            is_same = self._shown[1] is reason or self._looked_s - self._shown_s < _REPORT_S
            if is_same and abs(limit - self._shown[0]) <= _SHOWN_CHANGE * limit:
                return
        self._shown, self._shown_s = (limit, reason), self._looked_s
        for run, member in self._members.items():
            member.sink(
                AdmissionChanged(
                    run=run,
                    limit=limit,
                    at_once=self.room.at_once,
                    reason=reason.value,
                    in_flight=self.room.in_flight,
                )
            )


async def _asked(load: LoadOf) -> ServerLoad:
    """What servers say; nothing if they do not answer in time, or if the code that asks them, maybe a plug-in's, breaks."""
    found: object = None
    with anyio.move_on_after(ASK_S):
        try:
            found = await load()
        except Exception as error:  # noqa: BLE001 - how busy a server is must not end a run
            _log.debug("a server was not asked", extra={"error": str(error)})
    return found if isinstance(found, ServerLoad) else ServerLoad()


@asynccontextmanager
async def watch_admission(room: Room) -> AsyncGenerator[AdmissionWatch | None]:
    """Watch a room until the block ends; None if the room does not adapt."""
    if room.admission is None:
        yield None
        return
    watch = AdmissionWatch(room, room.admission)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(watch.watch)
            group.start_soon(watch.ask_servers)
            yield watch
            group.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        raise unwrapped(errors) from None
