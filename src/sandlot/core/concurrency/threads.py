"""Worker threads for blocking work, whose answers come back to the loop together.

A thread cannot be killed. One that nobody waits for any more is *abandoned*: it is counted in `ABANDONED` until it does return,
and another may be started in its place, so that stuck work does not starve the rest.
"""

import asyncio
import contextvars
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
from anyio.lowlevel import RunVar

from sandlot.core.concurrency.clock import deadline, pause_limits
from sandlot.core.errors import HarnessError

ABANDONED: Counter[str] = Counter()
"""Threads given up on, by function, in this process; one comes off when its function does return after all."""

MAX_THREADS = 64
"""Worker threads for author code in one process."""

_PATIENCE_S = 600.0
"""How long work may wait for a thread. That long, every thread is stuck, and it is nobody's fault who waits."""

_IDLE_S = 10.0
"""A worker thread without work ends after this."""


async def off_loop(name: str | Callable[[], str], work: Callable[[], Any]) -> Any:
    """Run blocking work in a worker thread under a name. Cancelling abandons the thread and counts it.

    Work that calls several functions gives a function for the name: it is asked at the deadline, for the one then running.
    """
    job = _Job(work)
    threads = _threads()
    threads.put(job)
    try:
        if job.stage == "waiting" and threads.is_full:
            with pause_limits(), deadline(_PATIENCE_S, HarnessError, f"waiting for one of {MAX_THREADS} worker threads"):
                await job.begun.wait()
        await job.answered.wait()
    except anyio.get_cancelled_exc_class():
        threads.give_up(job, name)
        raise
    if job.error is not None:
        raise job.error
    return job.result


class _Job:
    """One piece of work on its way to a thread and back."""

    __slots__ = ("abandoned", "answered", "begun", "context", "error", "result", "stage", "work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.context = contextvars.copy_context()
        self.begun = anyio.Event()
        """Set only if no thread was free when it was asked for."""
        self.answered = anyio.Event()
        self.stage = "waiting"
        """`waiting`, `running`, `done`, or `dropped`: nobody wants it any more and no thread has begun it."""
        self.abandoned = ""
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Do it; what it raises is kept for whoever asked."""
        try:
            self.result = self.context.run(self.work)
        except SystemExit as left:
            self.error = RuntimeError(f"it called exit({left.code!r}); raise an error or return instead")
        except Exception as error:  # noqa: BLE001 - raised again where it was asked for
            self.error = error
        except BaseException as odd:  # noqa: BLE001 - a stray CancelledError would end whoever asked, without a word
            self.error = RuntimeError(f"it raised {type(odd).__name__}: {odd}")


class _Threads:
    """The worker threads of one loop: started when needed, gone when idle, never in the way of leaving the process.

    Finished jobs share one wake-up of the loop: a wake-up each would cost more than most work does.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._finished: deque[_Job] = deque()
        self._woken = False
        self._lock = threading.Lock()
        self._num_threads = 0
        self._num_free = 0
        """Threads that wait for a job, less the jobs that wait for a thread."""
        self._most = MAX_THREADS

    @property
    def is_full(self) -> bool:
        """True if more work waits than threads may be started for."""
        return self._num_free < 0 and self._num_threads >= self._most

    def put(self, job: _Job) -> None:
        """Have it run; `job.answered` is set on the loop."""
        with self._lock:
            self._num_free -= 1
        self._jobs.put(job)
        self._start_missing()

    def give_up(self, job: _Job, name: str | Callable[[], str]) -> None:
        """Nobody waits for it any more. The thread that runs it is counted until it returns, and another may take its place."""
        with self._lock:
            if job.stage == "waiting":
                job.stage = "dropped"
            elif job.stage == "running":
                job.abandoned = name if isinstance(name, str) else name()
                ABANDONED[job.abandoned] += 1
                self._most += 1
        self._start_missing()

    def _start_missing(self) -> None:
        with self._lock:
            missing = self._num_free < 0 and self._num_threads < self._most
            self._num_threads += missing
            self._num_free += missing
        if missing:
            threading.Thread(target=self._work, name="sandlot-author", daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._num_free <= 0:  # a job is on its way to this thread
                        continue
                    self._num_free -= 1
                    self._num_threads -= 1
                return
            if self._begun(job):
                job.run()
            self._end(job)

    def _begun(self, job: _Job) -> bool:
        with self._lock:
            if job.stage == "dropped":
                return False
            job.stage = "running"
        if self._num_free < 0:  # somebody may be waiting to hear that it has begun
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(job.begun.set)
        return True

    def _end(self, job: _Job) -> None:
        with self._lock:
            self._num_free += 1
            job.stage = "done"
            if job.abandoned:
                ABANDONED[job.abandoned] -= 1
                self._most -= 1
        self._finished.append(job)
        if not self._woken:  # read after the append, and reset before the finished are taken: none is overlooked
            self._woken = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._woken = False
        while self._finished:
            job = self._finished.popleft()
            job.begun.set()
            job.answered.set()


_THREADS: RunVar[_Threads] = RunVar("author_threads")


def _threads() -> _Threads:
    """One set per event loop: answers go to the loop they were asked from."""
    try:
        return _THREADS.get()
    except LookupError:
        threads = _Threads()
        _THREADS.set(threads)
        return threads
