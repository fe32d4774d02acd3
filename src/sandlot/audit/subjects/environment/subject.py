"""Sandlot environments as subjects. Every `take` is one worker process; a process that hangs or dies loses one trial.

Trials of one `take` share a process on purpose, so that leaks between them can show. A new `take` is a new process.
"""

import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import anyio
import msgspec

from sandlot.audit.starved import SilenceTimer
from sandlot.audit.subject import PLAIN, Conditions, Description, Lost, Regrade, Request, Take, Trial
from sandlot.audit.subjects.environment.states import StateReader, StateWriter, with_state
from sandlot.audit.subjects.environment.worker import Begun, Described, Done, Job, Note, Refused
from sandlot.audit.subjects.environment.workers import AuditWorker, ForkServer, open_fork_server, start_worker
from sandlot.audit.subjects.worker_process import GarbledFrame, WorkerFrames, variables_of
from sandlot.core.errors import ConfigError

_PATIENCE_S = 60.0
"""A trial without output for this long is lost. Time that it waited for a busy processor does not count."""
_LOADING_S = 120.0
"""Time limit for loading an environment, building its image included."""
_MAX_LOST = 5
"""After this many lost trials of one `take` the others are skipped."""
_MANY_HUNG = 6
"""After this many hung trials in an audit, patience is short and a `take` is given up after one loss."""
_IMPATIENCE_S = 5.0
_MAX_NOTE_BYTES = 256 * 2**20
_STDERR_CHARS = 400


@dataclass
class EnvironmentSubject:
    """`Subject` for environments that `sandlot.load` loads, by path or name."""

    env: str
    judge: str | None = None
    user: str | None = None
    """The model that plays the user. None: the author's replies."""
    sandbox: str = "native"
    patience_s: float = _PATIENCE_S
    fork_server: ForkServer | None = None
    """Forks the workers under default conditions, which costs less than a new interpreter for each. `async with` opens one."""
    processes: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(os.cpu_count() or 2))
    _open: AsyncExitStack = field(default_factory=AsyncExitStack)
    _num_hung: int = 0

    async def __aenter__(self) -> Self:
        if self.fork_server is None:
            self.fork_server = await self._open.enter_async_context(open_fork_server(variables_of(PLAIN)))
            self._open.callback(self._forget_fork_server)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._open.aclose()

    def _forget_fork_server(self) -> None:
        self.fork_server = None

    async def describe(self) -> Description:
        """Load it in a worker, and return its description."""
        working = await self._work((), PLAIN)
        if working.description is None:
            raise ConfigError(f"environment `{self.env}` could not be loaded: {working.why()}")
        # A hostile module can describe itself as anything: its kind and its layers are set here.
        return msgspec.structs.replace(working.description, kind="environment", inapplicable={})

    async def take(self, requests: Sequence[Request], conditions: Conditions = PLAIN) -> list[Trial]:
        """Take one trial for each request, and return them in order."""
        if conditions.alone:
            return await self._alone(requests, conditions)
        trials: dict[int, Trial] = {}
        num_lost = 0
        while len(trials) < len(requests):
            left = [place for place in range(len(requests)) if place not in trials]
            if num_lost >= (_MAX_LOST if self._num_hung < _MANY_HUNG else 1):
                skipped = Lost(kind="skipped", message=f"skipped after {num_lost} others were lost")
                trials |= dict.fromkeys(left, Trial(lost=skipped))
                break
            working = await self._work([requests[place] for place in left], conditions)
            self._num_hung += working.fate == "hung"
            trials |= {
                left[place]: _with_files(trial, requests[left[place]], working.files) for place, trial in working.trials.items()
            }
            lost = [place for place in working.begun if place not in working.trials] or ([] if working.trials else [0])
            if len(trials) < len(requests):
                trials |= {left[place]: Trial(lost=Lost(kind=working.fate, message=working.why())) for place in lost}
                num_lost += len(lost)
        return [trials[place] for place in range(len(requests))]

    async def _work(self, requests: Sequence[Request], conditions: Conditions) -> "_WorkerRun":
        """Run one worker. Without requests it describes the environment."""
        job = self._job(requests, conditions)
        async with self.processes:
            hasty = self._num_hung >= _MANY_HUNG
            working = _WorkerRun(job, min(self.patience_s, _IMPATIENCE_S) if hasty else self.patience_s)
            await working.run(self.fork_server)
        return working

    def _job(self, requests: Sequence[Request], conditions: Conditions) -> Job:
        """The job with these requests: what several of them share is sent once."""
        files: dict[str, bytes] = {}
        states, numbers, bare = StateWriter(), dict[int, int](), list[Request]()
        for place, request in enumerate(requests):
            if isinstance(request, Take):
                bare.append(request)
                continue
            files |= request.files
            numbers[place] = states.number_of(request.trace.evidence.state if request.trace.evidence else None, lasting=True)
            bare.append(msgspec.structs.replace(request, files={}, trace=with_state(request.trace, None)))
        parts = states.take_new()
        return Job(self.env, tuple(bare), files, conditions, self.judge, self.user, self.sandbox, parts, numbers)

    async def _alone(self, requests: Sequence[Request], conditions: Conditions) -> list[Trial]:
        trials: list[Trial] = [Trial()] * len(requests)
        together = msgspec.structs.replace(conditions, alone=False)

        async def take(place: int) -> None:
            (trials[place],) = await self.take([requests[place]], together)

        async with anyio.create_task_group() as group:
            for place in range(len(requests)):
                group.start_soon(take, place)
        return trials


def _with_files(trial: Trial, request: Request, files: Mapping[str, bytes]) -> Trial:
    """A trial with the bytes behind its evidence: for one that was graded again, those that were given, and its trace."""
    if isinstance(request, Regrade):
        return msgspec.structs.replace(trial, files=request.files, trace=request.trace)
    evidence = trial.evidence
    blobs = [file.blob for file in evidence.files.values() if file.blob] + ([evidence.apps.journal] if evidence.apps else [])
    return msgspec.structs.replace(trial, files={blob: files[blob] for blob in blobs if blob in files})


class _WorkerRun:
    """One worker process from start to end: its results, and how it ended."""

    def __init__(self, job: Job, patience_s: float) -> None:
        self._job = job
        self._patience_s = patience_s
        self._stderr: deque[str] = deque(maxlen=20)
        self._refused: Refused | None = None
        self.description: Description | None = None
        self.trials: dict[int, Trial] = {}
        self.files: dict[str, bytes] = {}
        """The evidence of all its trials, by hash: each file comes once."""
        self._states = StateReader()
        self.begun: dict[int, None] = {}
        self.fate = "died"

    async def run(self, fork_server: ForkServer | None = None) -> None:
        """Start it, read its notes, and end it."""
        settings = variables_of(self._job.conditions)
        async with AsyncExitStack() as stack:
            worker: AuditWorker | None = None
            if fork_server is not None and fork_server.lives and settings == variables_of(PLAIN):
                worker = await stack.enter_async_context(fork_server.worker())
            worker = worker or await stack.enter_async_context(start_worker(settings))
            async with anyio.create_task_group() as group:
                group.start_soon(self._read_errors, worker)
                await self._exchange(worker)
                group.cancel_scope.cancel()
        if self._refused is not None:
            raise ConfigError(self._refused.message)

    async def _exchange(self, worker: AuditWorker) -> None:
        try:
            with anyio.fail_after(_LOADING_S):
                await worker.send_job(msgspec.msgpack.encode(self._job))
            await self._read_notes(worker)
        except TimeoutError:
            self.fate = "hung"
        except (GarbledFrame, msgspec.MsgspecError, ValueError) as error:
            self._stderr.append(f"its process wrote garbage ({error})")
        except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError):
            with anyio.move_on_after(5):
                self._stderr.append(f"its process ended with {await worker.wait()}")

    async def _read_notes(self, worker: AuditWorker) -> None:
        frames = WorkerFrames(_MAX_NOTE_BYTES)
        timer = SilenceTimer(worker.pid, _LOADING_S)
        while True:
            frames.feed(await timer.receive(worker.notes, 2**20))
            timer.reset(self._patience_s)
            while (body := frames.next()) is not None:
                self._take_note(msgspec.msgpack.decode(body, type=Note))

    def _take_note(self, note: Note) -> None:
        match note:
            case Begun():
                self.begun[note.place] = None
            case Done():
                self._states.add(note.parts)
                self.trials[note.place] = self._with_state(note)
                self.files |= note.trial.files
            case Described():
                self.description = note.description
            case Refused():
                self._refused = note

    def _with_state(self, note: Done) -> Trial:
        """Its trial with the state that came in parts."""
        trace = note.trial.trace
        if trace is None or trace.evidence is None:
            return note.trial
        return msgspec.structs.replace(note.trial, trace=with_state(trace, self._states.state(note.state)))

    async def _read_errors(self, worker: AuditWorker) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                self._stderr.append((await worker.errors.receive(2**16)).decode(errors="replace")[-_STDERR_CHARS:])

    def why(self) -> str:
        """Why it ended, as far as known."""
        said = " ".join("".join(self._stderr).split())[-_STDERR_CHARS:]
        if self.fate == "hung":
            return f"no output for {self._patience_s:g} s" + (f"; stderr: {said}" if said else "")
        return said or "its process ended"
