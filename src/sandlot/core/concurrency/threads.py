"""Worker threads for blocking work.

A thread cannot be killed. One whose caller has given up is *abandoned*: it is counted in `ABANDONED` until it returns, and
another thread may start in its place, so that stuck work does not block the rest.
"""

import asyncio
import contextvars
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.lowlevel import RunVar

from sandlot.core.concurrency.clock import deadline, pause_limits
from sandlot.core.errors import HarnessError

ABANDONED: Counter[str] = Counter()
"""Abandoned threads of this process, by function; a thread that returns is subtracted."""

MAX_THREADS = 64
"""Worker threads for author code in one process."""

_PATIENCE_S = 600.0
"""Longest wait for a worker thread; not charged to the agent."""

_IDLE_S = 10.0
"""An idle worker thread ends after this."""


async def off_loop(name: str | Callable[[], str], work: Callable[[], Any]) -> Any:
    """Run blocking work in a worker thread. Cancelling abandons the thread and counts it under `name`.

    `name` may be a function, for work that calls several functions: it is called on abandonment and names the one then running.
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
    result, job.result = job.result, None
    return result


@dataclass(slots=True, eq=False)
class _Job:
    """One piece of work and its result.

    The thread keeps no reference to what the work used or returned: if Python exits while a thread frees a tensor, torch aborts
    the process.
    """

    work: Callable[[], Any] | None
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    begun: anyio.Event = field(default_factory=anyio.Event)
    """Set when a thread begins it, if none was free at first."""
    answered: anyio.Event = field(default_factory=anyio.Event)
    stage: str = "waiting"
    """`waiting`, `running`, `done`, or `dropped`: cancelled before a thread began it."""
    abandoned: str = ""
    result: Any = None
    error: BaseException | None = None

    def run(self) -> None:
        """Do the work; store its result or its exception."""
        work, self.work = self.work, None
        assert work is not None
        try:
            self.result = self.context.run(work)
        except SystemExit as left:
            self.error = RuntimeError(f"it called exit({left.code!r}); raise an error or return instead")
        except Exception as error:  # noqa: BLE001 - raised again in the caller
            self.error = error
        except BaseException as odd:  # noqa: BLE001 - a stray CancelledError would silently end the caller
            self.error = RuntimeError(f"it raised {type(odd).__name__}: {odd}")


class _Threads:
    """The worker threads of one event loop: daemon threads that start when needed and end when idle.

    Finished jobs share one wake-up of the loop: a wake-up per job would cost more than most jobs.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._finished: deque[_Job] = deque()
        self._woken = False
        self._lock = threading.Lock()
        self._num_threads = 0
        self._num_free = 0
        """Threads waiting for a job, minus jobs waiting for a thread."""
        self._most = MAX_THREADS

    @property
    def is_full(self) -> bool:
        """True if jobs wait and no more threads may start."""
        return self._num_free < 0 and self._num_threads >= self._most

    def put(self, job: _Job) -> None:
        """Queue a job; `job.answered` is set on the loop when it is done."""
        with self._lock:
            self._num_free -= 1
        self._jobs.put(job)
        self._start_missing()

    def give_up(self, job: _Job, name: str | Callable[[], str]) -> None:
        """Drop the job, or abandon the thread that runs it: it is counted until it returns, and another may start."""
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
                    if self._num_free <= 0:  # a job was queued for this thread
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
        if self._num_free < 0:  # the caller may be waiting for it to begin
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
        if not self._woken:  # read after the append, and reset before the jobs are taken, so none is missed
            self._woken = True
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._woken = False
        while self._finished:
            job = self._finished.popleft()
            job.begun.set()
            job.answered.set()


_THREADS: RunVar[_Threads] = RunVar("author_threads")


def _threads() -> _Threads:
    """The worker threads of the running event loop."""
    try:
        return _THREADS.get()
    except LookupError:
        threads = _Threads()
        _THREADS.set(threads)
        return threads
