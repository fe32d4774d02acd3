"""The auditor's end of `inside/sandlot_serve.py`: foreign code in a process that may hang, die or lie.

`ForeignWorkers` keep one worker for each of the last few conditions, in a native sandbox without network or, on request, in a
plain child process. A worker that violates the protocol is ended, and a new one continues with the remaining requests.
"""

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio
import msgspec

from sandlot.audit.starved import BACKSTOP
from sandlot.audit.subject import Conditions, Declared, Lost
from sandlot.audit.subjects.foreign.place import ForeignProcess, WorkerPlace, open_place
from sandlot.audit.subjects.foreign.python import find_interpreter
from sandlot.audit.subjects.worker_process import GarbledFrame, WorkerFrames, frame, variables_of
from sandlot.core.errors import ConfigError, SandlotError
from sandlot.core.types import Json

_log = logging.getLogger(__name__)

_MAX_WORKERS = 3
"""Workers kept open, each under its own conditions; the least recently used one is closed first."""
_MAX_FRAME = 2 << 20
_GRACE_S = 15.0
"""Extra time for a worker to end a hung trial and report it."""
_CALLS = 20
"""Requests with up to this many calls have the time of one call."""
_CHANCES = 3
_PATIENCE = 4
"""Timeout multiplier for the retry of a hung request."""
_MANY_HUNG = 6
"""This many hung requests end a batch, and the first few are repeated with more time. If one hangs again, the others of the call
get little time, and so do all later calls once this many have hung twice."""
_MAX_HUNG = 60
"""After this many, the first hung request of a batch ends it."""
_QUICK_S = 1.0
_MAX_DEATHS = 40
"""Maximum dead workers per call; then the remaining requests are given up."""


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of foreign code."""

    trial_s: float = 10.0
    """Time limit of one request, however many calls it makes (up to 20)."""
    load_s: float = 120.0
    """Time limit of importing it."""
    memory_bytes: int = 1 << 30
    """Memory limit, on top of what it uses after the import."""


class ForeignConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a `grader.toml` and a `gym.toml` have in common."""

    python: str = "python3"
    """The Python that has what the code imports."""
    path: tuple[str, ...] = (".",)
    """Folders with its modules. The sandbox sees only these folders and the Python."""
    stand_ins: tuple[str, ...] = ()
    """Packages that it imports and does not use when it grades or steps: where one is not installed, an empty one is imported."""
    budget: Budget = Budget()
    declared: Declared = Declared()


_Config = TypeVar("_Config", bound=ForeignConfig)


def read_foreign_config(path: Path, kind: type[_Config]) -> _Config:
    """Read a configuration; its folders and its Python are relative to its own folder."""
    try:
        config = msgspec.toml.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path}: {error}") from error
    folders = tuple(str(path.parent / each) for each in config.path)
    python = str(path.parent / config.python) if "/" in config.python else config.python
    return msgspec.structs.replace(config, path=folders, python=python)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one request."""

    results: Any = None
    lost: Lost | None = None
    seconds: float = 0.0
    did: tuple[str, ...] = ()


class _WorkerFrame(msgspec.Struct, frozen=True, kw_only=True):
    """One frame from a worker, decoded strictly."""

    ready: Json | None = None
    failed: str | None = None
    done: bool = False
    index: int | None = None
    results: Any = None
    lost: str | None = None
    message: str = ""
    seconds: float = 0.0
    did: tuple[str, ...] = ()


class _TooManyHung(Exception):  # noqa: N818 - as below
    """Too many requests of a batch hung."""


class _WorkerLost(Exception):  # noqa: N818 - what happened
    """The worker ended, or violated the protocol."""


@dataclass(slots=True)
class _Worker:
    """One process that has loaded the foreign code."""

    process: ForeignProcess
    stack: AsyncExitStack
    frames: WorkerFrames = field(default_factory=lambda: WorkerFrames(_MAX_FRAME))
    complaints: bytearray = field(default_factory=bytearray)
    facts: Json = field(default_factory=dict[str, Any])
    """What the foreign code says about itself."""

    async def send(self, record: Json) -> None:
        body = msgspec.json.encode(record)
        await self.process.send(frame(body))

    async def receive(self, seconds: float) -> _WorkerFrame:
        """The next frame; `_WorkerLost` if none comes in time, or garbage."""
        try:
            with anyio.fail_after(seconds):
                while (body := self.frames.next()) is None:
                    await self._read_more()
                return msgspec.json.decode(body, type=_WorkerFrame)
        except TimeoutError:
            raise _WorkerLost(f"no output for {seconds:g} s") from None
        except (GarbledFrame, msgspec.MsgspecError) as error:
            raise _WorkerLost(f"it wrote garbage ({error})") from error
        except (OSError, SandlotError, anyio.BrokenResourceError) as error:
            raise _WorkerLost(f"its process cannot be reached ({error})") from error

    async def _read_more(self) -> None:
        try:
            name, piece = await anext(self.process.output)
        except StopAsyncIteration:
            raise _WorkerLost("its process ended") from None
        if name == "stdout":
            self.frames.feed(piece)
        else:
            self.complaints += piece[: max(0, 4000 - len(self.complaints))]

    async def close(self) -> None:
        with anyio.move_on_after(10, shield=True):
            await self.stack.aclose()


@dataclass(slots=True)
class _Call:
    """Requests of one call, and their answers."""

    requests: Sequence[Json]
    conditions: Conditions
    most: int
    """The largest number of calls of a request."""
    answers: dict[int, Answer] = field(default_factory=dict[int, Answer])
    num_hung: int = 0
    """Requests that hung at the first try."""
    asked_again: bool = False
    hangs: bool = False
    """True if a request hung again with more time."""

    @property
    def left(self) -> list[int]:
        """Requests without an answer."""
        return [index for index in range(len(self.requests)) if index not in self.answers]

    @property
    def hung(self) -> list[int]:
        """Requests that hung."""
        return [index for index, answer in self.answers.items() if answer.lost is not None and answer.lost.kind == "hung"]

    def give_up(self, lost: Lost) -> None:
        """Give this answer to all remaining requests."""
        self.answers |= dict.fromkeys(self.left, Answer(lost=lost))


class ForeignWorkers:
    """Sends requests to foreign code; get it from `open_foreign_workers`."""

    def __init__(self, place: WorkerPlace, program: str, spec: Json, budget: Budget) -> None:
        self._place = place
        self._program = program
        self._spec = spec
        self._budget = budget
        self._workers: dict[str, _Worker] = {}
        self._calling = anyio.Lock()
        self._num_hung = 0  # in calls where a request hung twice

    async def call(self, requests: Sequence[Json], conditions: Conditions, calls: Sequence[int] = ()) -> list[Answer]:
        """One answer per request, in order. `calls` is the number of calls each request makes. Default: one."""
        async with self._calling:  # a worker takes one batch at a time
            return await self._run_call(_Call(requests, conditions, max(calls, default=1)))

    async def _run_call(self, call: _Call) -> list[Answer]:
        deaths, careful = 0, False
        while left := call.left:
            places = left[:1] if careful else left
            try:
                await self._batch(call, places, call.answers)
            except _TooManyHung:
                await self._drop(call.conditions)
                if not call.asked_again:
                    await self._retry_hung(call)
                if self._num_hung + call.num_hung >= _MAX_HUNG:
                    call.give_up(Lost(kind="skipped", message=f"skipped after {call.num_hung} others hung"))
            except _WorkerLost as gone:
                await self._drop(call.conditions)
                deaths += 1
                if careful or len(places) == 1:  # now it is known which request it was
                    call.answers[places[0]] = Answer(lost=Lost(kind="died", message=str(gone)))
                careful = not careful
                if deaths == _MAX_DEATHS:
                    message = f"given up after {deaths} dead workers, the last because {gone}"
                    call.give_up(Lost(kind="died", message=message))
        if not call.hangs:
            await self._retry_hung(call)
        self._num_hung += len(call.hung)
        return [call.answers[index] for index in range(len(call.requests))]

    async def _retry_hung(self, call: _Call) -> None:
        """Repeat hung requests one by one with more time: on a busy machine a slow answer is not a defect.

        The first that hangs again ends it. After a few that were only slow, the others count as skipped.
        """
        call.asked_again = True
        slow = Lost(kind="skipped", message="slow, as others that finished with more time")
        for place, index in enumerate(call.hung):
            if place == _CHANCES:
                call.answers |= dict.fromkeys(call.hung, Answer(lost=slow))
                return
            second: dict[int, Answer] = {}
            try:
                await self._batch(call, [index], second, again=True)
            except _WorkerLost:
                await self._drop(call.conditions)
            if index not in second or second[index].lost is not None:
                call.hangs = True
                return
            call.answers[index] = second[index]

    async def facts(self, conditions: Conditions) -> Json:
        """Load the code and return its facts; `ConfigError` with the reason if it cannot be loaded."""
        async with self._calling:
            return (await self._worker(conditions)).facts

    async def close(self) -> None:
        """End every worker."""
        while self._workers:
            await self._workers.pop(next(iter(self._workers))).close()

    async def _batch(self, call: _Call, places: list[int], answers: dict[int, Answer], *, again: bool = False) -> None:
        worker = await self._worker(call.conditions)
        trial_s = self._trial_s(call, again=again)
        await worker.send(
            {
                "requests": [call.requests[index] for index in places],
                "alone": call.conditions.alone,
                "at_once": call.conditions.at_once,
                "random_seed": call.conditions.random_seed,
                "watched": call.conditions.watched,
                "trial_s": trial_s,
                "memory_bytes": self._budget.memory_bytes,
            }
        )
        while True:
            said = await worker.receive(trial_s * BACKSTOP + _GRACE_S)
            if said.done:
                return
            if said.index is None or not 0 <= said.index < len(places) or places[said.index] in answers:
                raise _WorkerLost("unexpected reply index")
            lost = Lost(kind=said.lost if said.lost == "hung" else "died", message=said.message) if said.lost else None
            answers[places[said.index]] = Answer(results=said.results, lost=lost, seconds=said.seconds, did=said.did)
            if said.lost == "hung" and not again:
                call.num_hung += 1
                if self._too_many_hung(call):
                    raise _TooManyHung

    def _trial_s(self, call: _Call, *, again: bool) -> float:
        """Time limit of one request."""
        known, whole = self._num_hung >= _MANY_HUNG, self._budget.trial_s
        if again:
            whole *= 1 if known else _PATIENCE
        elif known or call.hangs:
            whole = min(_QUICK_S, whole)
        return whole * max(1.0, call.most / _CALLS)

    def _too_many_hung(self, call: _Call) -> bool:
        unsure = not call.asked_again and self._num_hung < _MANY_HUNG
        return self._num_hung + call.num_hung >= _MAX_HUNG or (unsure and call.num_hung >= _MANY_HUNG)

    async def _worker(self, conditions: Conditions) -> _Worker:
        key = _key(conditions)
        if key in self._workers:
            self._workers[key] = self._workers.pop(key)  # most recently used
            return self._workers[key]
        while len(self._workers) >= _MAX_WORKERS:
            await self._workers.pop(next(iter(self._workers))).close()
        worker = await self._start(conditions)
        self._workers[key] = worker
        return worker

    async def _drop(self, conditions: Conditions) -> None:
        worker = self._workers.pop(_key(conditions), None)
        if worker is not None:
            await worker.close()

    async def _start(self, conditions: Conditions) -> _Worker:
        stack = AsyncExitStack()
        try:
            process = await stack.enter_async_context(self._place.start(_variables(conditions)))
            worker = _Worker(process, stack)
            said = {"clock_shift_s": conditions.clock_shift_s, "network": conditions.network}
            await worker.send(self._spec | {"program": self._program, "conditions": said, "confined": self._place.confined})
            await self._wait_until_loaded(worker)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await stack.aclose()
            raise
        return worker

    async def _wait_until_loaded(self, worker: _Worker) -> None:
        try:
            said = await worker.receive(self._budget.load_s)
        except _WorkerLost as gone:
            stderr = worker.complaints.decode("utf-8", "replace").strip()[-600:]
            raise ConfigError(f"the code to audit cannot be loaded: {gone}{': ' if stderr else ''}{stderr}") from gone
        if said.failed is not None or said.ready is None:
            raise ConfigError(f"the code to audit cannot be loaded: {(said.failed or 'no reason given').strip()}")
        worker.facts = said.ready


@asynccontextmanager
async def open_foreign_workers(
    config: ForeignConfig, program: str, spec: Json, *, unconfined: bool
) -> AsyncGenerator[ForeignWorkers]:
    """Workers for as long as the context lasts."""
    folders = tuple(Path(folder).resolve() for folder in config.path)  # noqa: ASYNC240 - a handful of names
    async with open_place(find_interpreter(config.python), folders, unconfined=unconfined) as place:
        known: Json = {"path": [str(folder) for folder in folders], "stand_ins": list(config.stand_ins)}
        workers = ForeignWorkers(place, program, spec | known, config.budget)
        try:
            yield workers
        finally:
            with anyio.move_on_after(20, shield=True):
                await workers.close()


def _key(conditions: Conditions) -> str:
    """The conditions that a process is started with; the others are sent with every batch."""
    started = (conditions.hash_seed, conditions.timezone, conditions.locale, conditions.clock_shift_s, conditions.network)
    return repr(started)


def _variables(conditions: Conditions) -> dict[str, str]:
    return {
        **variables_of(conditions),
        "LANG": conditions.locale,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
