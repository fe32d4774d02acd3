"""The thread that runs an engine: it takes orders between steps, and answers the event loop once per step.

A step cannot be interrupted, so an order waits for at most one step. If the thread dies, all pending and later calls raise the
reason.
"""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import anyio

from sandlot.core.errors import ModelError
from sandlot.model.engine.adapters import AdapterError
from sandlot.model.engine.engine import Engine
from sandlot.model.engine.request import Completion, Request

_log = logging.getLogger(__name__)

_SNAPSHOT_S = 0.25
"""Maximum age of the metrics while the engine is busy."""


@dataclass(slots=True, eq=False)
class _Ticket:
    """An order to the thread, with its answer."""

    run: "Callable[[_Ticket], None]"
    """Runs on the thread, between two steps."""
    answered: anyio.Event = field(default_factory=anyio.Event)
    number: int = 0
    completion: Completion | None = None
    error: ModelError | None = None


class EngineWorker:
    """Owns an engine. Create it in the event loop that gets the answers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._orders: queue.SimpleQueue[_Ticket | None] = queue.SimpleQueue()
        self._tickets: dict[int, _Ticket] = {}
        self._answers: list[_Ticket] = []
        self._lock = threading.Lock()
        self._death: ModelError | None = None
        self._ended = anyio.Event()
        self.metrics = engine.metrics()
        """Recent metrics of the engine."""
        self._noted_s = 0.0
        self._thread = threading.Thread(target=self._work, name="sandlot-engine", daemon=True)
        self._thread.start()

    async def ask(self, request: Request) -> Completion:
        """Run a request to its end. Cancelling frees its blocks."""

        def submit(ticket: _Ticket) -> None:
            try:
                ticket.number = self._engine.submit(request)
            except ValueError as error:
                kind = "not_found" if isinstance(error, AdapterError) else "request"
                self._refuse(ticket, ModelError(str(error), kind=kind))
            else:
                self._tickets[ticket.number] = ticket

        ticket = _Ticket(submit)
        self._put(ticket)
        try:
            await ticket.answered.wait()
        except anyio.get_cancelled_exc_class():
            self._orders.put(_Ticket(lambda _own: self._forget(ticket)))
            raise
        if ticket.error:
            raise ticket.error
        assert ticket.completion is not None
        return ticket.completion

    async def between_steps(self, order: Callable[[Engine], None]) -> None:
        """Run `order` on the engine between two steps and wait for it.

        `AdapterError` comes back as `ModelError`: nothing has changed. If it raises another error, the engine is dead.
        """

        def run(ticket: _Ticket) -> None:
            try:
                order(self._engine)
            except AdapterError as error:
                self._refuse(ticket, ModelError(str(error), kind="request"))
            else:
                self._answers.append(ticket)

        ticket = _Ticket(run)
        self._put(ticket)
        await ticket.answered.wait()
        if ticket.error:
            raise ticket.error

    async def close(self) -> None:
        """End the thread after its step; pending calls raise."""
        self._orders.put(None)
        await self._ended.wait()
        # The thread has only its frames left to drop. If Python exits meanwhile, and one of them holds the last reference to a
        # tensor, torch aborts the process.
        self._thread.join()

    def _put(self, ticket: _Ticket) -> None:
        with self._lock:  # else an order could be queued after the dying thread has emptied the queue
            if self._death:
                raise ModelError(str(self._death), kind=self._death.kind)
            self._orders.put(ticket)

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        death = ModelError("the model was closed", kind="closed")
        try:
            while self._take_orders():
                for completion in self._engine.step():
                    ticket = self._tickets.pop(completion.id)
                    ticket.completion = completion
                    self._answers.append(ticket)
                self._refresh_metrics()
                self._answer()
        except BaseException as error:  # noqa: BLE001 - logged, and every waiting caller gets it
            death = ModelError(f"the engine died: {type(error).__name__}: {error}")
            _log.exception("engine died")
        self._shut_down(death)

    def _take_orders(self) -> bool:
        """Run all orders; wait for one if the engine is idle. False to end the thread."""
        while True:
            try:
                ticket = self._orders.get(block=self._engine.is_idle and not self._answers)
            except queue.Empty:
                return True
            if ticket is None:
                return False
            try:
                ticket.run(ticket)
            except BaseException:
                self._orders.put(ticket)  # refused with the others in `_shut_down`
                raise

    def _forget(self, ticket: _Ticket) -> None:
        if self._tickets.pop(ticket.number, None):
            self._engine.cancel(ticket.number)

    def _refuse(self, ticket: _Ticket, error: ModelError) -> None:
        ticket.error = error
        self._answers.append(ticket)

    def _refresh_metrics(self) -> None:
        now = time.monotonic()
        if now - self._noted_s >= _SNAPSHOT_S or self._engine.is_idle:
            self._noted_s = now
            self.metrics = self._engine.metrics()

    def _answer(self) -> None:
        """Wake the event loop once for all answers."""
        answers, self._answers = self._answers, []
        if answers:
            self._call_on_loop(lambda: [ticket.answered.set() for ticket in answers])

    def _shut_down(self, death: ModelError) -> None:
        with self._lock:
            self._death = death
        while not self._orders.empty():
            ticket = self._orders.get()
            if ticket is not None:
                self._refuse(ticket, ModelError(str(death), kind=death.kind))
        for ticket in self._tickets.values():
            self._refuse(ticket, ModelError(str(death), kind=death.kind))
        self._answer()
        self._call_on_loop(self._ended.set)

    def _call_on_loop(self, call: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(call)
