"""Room for rollouts in flight, which are those whose agent acts. How many there may be can change while a run goes on.

A change never disturbs a rollout that has started: a smaller number, or a pause, only keeps the next ones waiting. Those of one
run start in the order in which they came. Runs that share one `Room` divide it by what each still needs (`schedule/shares.py`). A
room may adapt (`schedule/admission.py`): then fewer may be in flight than it has places, for a reason that can be shown.
"""

import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from weakref import WeakSet

import anyio

from sandlot.run.grading_queue import GradingQueue
from sandlot.run.schedule.admission import Admission
from sandlot.run.schedule.job import Waits
from sandlot.run.schedule.shares import Demand, choose_run


class Room:
    """So many rollouts at once, of one run or of several."""

    def __init__(self, at_once: int, *, adapt: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        """With `adapt`, whoever watches the room tells its `admission` what is seen, and calls `admit`."""
        self.at_once = at_once
        self.admission = Admission(at_once) if adapt else None
        self.gradings = GradingQueue(at_once)
        """Of all runs in the room together."""
        self.clock = clock
        self._members: list[Slots] = []

    def join(self, slots: "Slots") -> None:
        """A run that takes its places here."""
        self._members.append(slots)

    def leave(self, slots: "Slots") -> None:
        """A run that has none in flight any more."""
        self._members.remove(slots)

    @property
    def limit(self) -> int:
        """How many may be in flight now; at most `at_once`."""
        return self.at_once if self.admission is None else self.admission.limit

    @property
    def in_flight(self) -> int:
        """Rollouts of all runs whose agent acts."""
        return sum(slots.demand.in_flight for slots in self._members)

    @property
    def waits(self) -> Waits:
        """Why no more may be in flight than `limit`."""
        return Waits.LIMIT if self.admission is None else self.admission.binding

    @property
    def is_waited_for(self) -> bool:
        """Whether a rollout waits that only the limit keeps."""
        return any(slots.may_start for slots in self._members)

    def resize(self, at_once: int) -> None:
        """Change how many rollouts may be in flight; those that are stay."""
        self.at_once = at_once
        self.gradings.resize(at_once)
        if self.admission is not None:
            self.admission.resize(at_once)
        self.admit()

    def admit(self) -> None:
        """Let rollouts start, as many as there is room for."""
        while self._has_room:
            waiting = [number for number, slots in enumerate(self._members) if slots.may_start]
            if not waiting:
                return
            self._members[choose_run([slots.demand for slots in self._members], waiting, self.limit)].start_next()

    @property
    def _has_room(self) -> bool:
        if self.admission is None:
            return self.in_flight < self.at_once
        return self.admission.admits(self.in_flight, self.gradings.num_grading)


class Slots:
    """One run's places in a room: what is between `enter` and `leave` is in flight; while paused, none enters."""

    def __init__(self, at_once: int, *, room: Room | None = None, weight: float = 1.0, most: int | None = None) -> None:
        """Places in a room of their own, or in `room`, whose size then counts instead of `at_once`; never more than `most`."""
        self._most = most
        self.demand = Demand(weight=weight)
        self.paused = False
        """True if no rollout may start."""
        self._room = room or Room(at_once)
        self._room.join(self)
        self._waiting: deque[anyio.Event] = deque()
        self._since: dict[anyio.Event, float] = {}
        """When each rollout in flight started."""
        self._num_graded = 0
        self._graded = anyio.Event()
        self._beside: WeakSet[Slots] = WeakSet()

    @property
    def at_once(self) -> int:
        """How many rollouts may be in flight, in all runs that share the room."""
        return self._room.at_once

    @property
    def limit(self) -> int:
        """How many may be in flight now; fewer than `at_once` if the room adapts and something is short."""
        return self._room.limit

    @property
    def waits(self) -> Waits | None:
        """Why the next rollout has not started; None if none waits."""
        if not self._waiting:
            return None
        if self.paused:
            return Waits.PAUSED
        return self._room.waits if self.may_start else Waits.LIMIT

    @property
    def gradings(self) -> GradingQueue:
        """Where rollouts go when their agent has ended, shared by all runs of the room."""
        return self._room.gradings

    @property
    def in_flight(self) -> int:
        """Rollouts that hold a slot, here and beside."""
        return self.demand.in_flight + sum(slots.in_flight for slots in self._beside)

    @property
    def may_start(self) -> bool:
        """Whether a rollout waits, and is kept only by other runs' rollouts in flight."""
        return bool(self._waiting) and not self.paused and (self._most is None or self.demand.in_flight < self._most)

    def resize(self, at_once: int) -> None:
        """Change how many rollouts may be in flight; those that are stay."""
        self._room.resize(at_once)
        for slots in self._beside:
            slots.resize(at_once)

    def pause(self) -> None:
        """Let no rollout start until `resume`."""
        self.paused = True
        for slots in self._beside:
            slots.pause()

    def resume(self) -> None:
        """Let rollouts start again."""
        self.paused = False
        self._room.admit()
        for slots in self._beside:
            slots.resume()

    @contextmanager
    def open_beside(self) -> Generator["Slots"]:
        """Places for a second run in the same process, during the block: it is paused and changed together with this one.

        They are as many again, so that neither waits for the other; in a room that adapts they are places of that room: what is
        short, such as the model, is so for both.
        """
        room = self._room if self._room.admission is not None else Room(self.at_once)
        slots = Slots(self.at_once, room=room)
        slots.paused = self.paused
        self._beside.add(slots)
        try:
            yield slots
        finally:
            self._beside.discard(slots)
            room.leave(slots)

    def share(self, *, most: int | None = None) -> "Slots":
        """Places in the same room for another run; it is paused together with this one."""
        slots = Slots(self.at_once, room=self._room, most=most)
        slots.paused = self.paused
        self._beside.add(slots)
        return slots

    def start_next(self) -> None:
        """Let the rollout that has waited longest start. The room calls this."""
        place = self._waiting.popleft()
        self._since[place] = self._room.clock()
        self.demand.in_flight += 1
        place.set()

    async def enter(self, *, planned: bool = False) -> object:
        """Wait until a rollout may start; give what this returns to `leave` when it has ended.

        What a run still needs is counted in its demand: the rollouts of a plan by the plan, any other while it waits here.
        """
        place = anyio.Event()
        self._waiting.append(place)
        self.demand.unplanned += not planned
        self._room.admit()
        try:
            await place.wait()
        except BaseException:
            if place in self._since:  # it was let in and cancelled in the same moment
                del self._since[place]
                self._free()
            else:
                self._waiting.remove(place)
            raise
        finally:
            self.demand.unplanned -= not planned
        return place

    def leave(self, place: object) -> None:
        """Make room for the next one."""
        assert isinstance(place, anyio.Event)
        self.demand.note_ended(self._room.clock() - self._since.pop(place))
        self._free()

    def note_grading(self, change: int) -> None:
        """A rollout of this run begins to be graded (1), or no longer is (-1)."""
        self._num_graded += change
        if not self._num_graded:
            self._graded.set()
            self._graded = anyio.Event()
        if change < 0:
            self._room.admit()  # in a room that counts gradings

    async def wait_for_gradings(self) -> None:
        """Return when no rollout of this run is being graded."""
        while self._num_graded:
            await self._graded.wait()

    def _free(self) -> None:
        self.demand.in_flight -= 1
        self._room.admit()


class RolloutStay:
    """Where one rollout stands: it holds a slot, then a place in the grading queue, then nothing. Never both for long."""

    def __init__(self, slots: Slots, slot: object | None = None) -> None:
        """With the `slot` that was entered for this rollout, if there is one."""
        self._slots, self._gradings, self._slot = slots, slots.gradings, slot
        self._is_graded = False

    async def begin(self) -> None:
        """Wait for a slot, unless the rollout has one. A rollout that is tried again after grading failed needs one again."""
        if self._slot is not None:
            return
        self.leave_grading()
        self._slot = await self._slots.enter()

    async def to_grading(self) -> None:
        """The evidence is stored: wait for a place in the grading queue, then leave the slot."""
        if self._is_graded:
            return
        await self._gradings.enter(self)
        self._is_graded = True
        self._slots.note_grading(1)
        self._leave_slot()

    def end(self) -> None:
        """Leave whatever it holds."""
        self._leave_slot()
        self.leave_grading()

    def _leave_slot(self) -> None:
        if self._slot is not None:
            slot, self._slot = self._slot, None
            self._slots.leave(slot)

    def leave_grading(self) -> None:
        """Leave its place in the grading queue, if it has one."""
        if self._is_graded:
            self._is_graded = False
            self._gradings.leave(self)
            self._slots.note_grading(-1)
