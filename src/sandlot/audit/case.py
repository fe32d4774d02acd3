"""The state of one audit: the subject, its description, and trials that probes share.

A probe is a function from a case to findings. Trials that several probes need (the golden solution, an agent that does nothing)
are taken once; for others a probe calls `take`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import msgspec

from sandlot.audit.attacked import AttemptsByPart, GoldenRecord, add_attempts, attempts_of, plays_of
from sandlot.audit.attacker.attacker import AttackPlan
from sandlot.audit.finding import Finding, Layer
from sandlot.audit.subject import (
    PLAIN,
    Call,
    Conditions,
    Description,
    NamedPlay,
    Regrade,
    Request,
    Say,
    Script,
    Subject,
    Take,
    Trial,
)
from sandlot.core.errors import HarnessError, SandlotError
from sandlot.core.task import Task
from sandlot.core.trace import Text
from sandlot.core.types import Role, Side
from sandlot.model.policy.faithful_user import FAITHFUL
from sandlot.tools.bash import BASH
from sandlot.tools.terminal import TERMINAL

IDLE = Script(name="nop")
"""An agent that does nothing."""
_LONGEST = 300
"""Maximum characters of an error in a reason."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One way to look for defects."""

    name: str
    layer: Layer
    codes: tuple[str, ...]
    """The defects it can find."""
    look: Callable[["Case"], Awaitable[list[Finding]]]
    applies: Callable[["Case"], str | None] = lambda _case: None
    """Why it does not apply to a case; None if it does."""
    without_golden: bool = False
    """True if it also runs where there is no golden solution."""

    async def run(self, case: "Case") -> list[Finding]:
        """Its findings, with its name and layer."""
        return [msgspec.structs.replace(found, layer=self.layer, probe=self.name) for found in await self.look(case)]


@dataclass(slots=True)
class TrialCount:
    """Number of trials of one probe."""

    probe: str = ""
    trials: int = 0
    spared: int = 0
    """Answers that were not graded, because no check reads the answer."""
    untried: int = 0
    """Answers that were not graded, because grading takes long."""
    attempts: AttemptsByPart = field(default_factory=dict)
    """What they attacked."""


_COUNT: ContextVar[TrialCount] = ContextVar("trial_count", default=TrialCount())  # noqa: B039 - outside of probes, not read


def count_trials(probe: str = "") -> TrialCount:
    """Start a new count of the trials that this task, and those it starts, take for a probe."""
    count = TrialCount(probe)
    _COUNT.set(count)
    return count


def current_probe() -> str:
    """The name of the probe that is running here; empty outside of probes."""
    return _COUNT.get().probe


def note_spared(num_answers: int) -> None:
    """Count answers that were not graded, because no check reads the answer."""
    _COUNT.get().spared += num_answers


def note_untried(num_answers: int) -> None:
    """Count answers that were not graded, because grading takes long."""
    _COUNT.get().untried += num_answers


@dataclass(slots=True)
class Case:
    """The subject, the options, and trials that probes share."""

    subject: Subject
    description: Description
    tasks: tuple[Task, ...]
    """The tasks to play: all, or a seeded sample."""
    seed: int = 0
    judge: str | None = None
    """The model for judge checks, if one was given."""
    user: str | None = None
    """The model that plays the user, if one was given."""
    reference: Path | None = None
    """A file with real records to compare the tasks' data with."""
    manifest: Path | None = None
    """The tools in production: a JSON list of MCP tool specs."""
    rollouts: Path | None = None
    """A run of a model in this environment."""
    reviewed: Path | None = None
    """A run whose rollouts people have labelled."""
    budget_s: float | None = None
    """How long the audit may take, if that is limited: searches are as deep as it allows."""
    attack: AttackPlan | None = None
    """Who proposes plays, if anybody does."""
    _golden: dict[str, Trial] | None = None
    _idle: dict[str, Trial] | None = None
    taken: int = 0
    """Number of trials so far."""
    shared: dict[str, Any] = field(default_factory=dict[str, Any])
    """What a probe computed from the description and others need too, such as the parsed sources."""
    _known: dict[str, GoldenRecord] | None = None
    _with_idle: bool = False
    _once: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def shells(self) -> frozenset[str]:
        """The sandbox's own tools, `bash` and `terminal`: they are not the author's, and what they show has process numbers."""
        tools = self.description.tools if self.description.image is not None else ()
        return frozenset(spec.name for spec in tools if spec.name == BASH.spec.name or spec == TERMINAL.spec)

    async def take(self, requests: Sequence[Request], conditions: Conditions = PLAIN) -> list[Trial]:
        """One trial for each request, in order. `HarnessError` if the user's model failed or the machine was too busy."""
        trials = await self._take(requests, conditions)
        busy = next((trial.lost for trial in trials if trial.lost and trial.lost.busy), None)
        if busy is not None:
            raise HarnessError(busy.message)
        broken = next((trial.failed for trial in trials if trial.failed and trial.failed.side is Side.MODEL), None)
        if broken is not None and self.user is not None:  # the agents are scripted, so the failed model is the user's
            raise HarnessError(f"the user's model failed: {broken.message[:300]}")
        return trials

    async def _take(self, requests: Sequence[Request], conditions: Conditions = PLAIN) -> list[Trial]:
        cut = next((request.trace.task for request in requests if isinstance(request, Regrade) and not _is_whole(request)), None)
        if cut is not None:  # its checks would fail for want of bytes, which is no fault of theirs
            raise HarnessError(f"task `{cut}` leaves more bytes of evidence than a trial returns, so it cannot be graded again")
        self.taken += len(requests)
        _COUNT.get().trials += len(requests)
        trials = await self.subject.take(requests, conditions) if requests else []
        if self.description.kind == "gymnasium":
            attempts = plays_of(requests, trials, conditions.changed)
        else:
            attempts = attempts_of(requests, trials, self.known)
        add_attempts(_COUNT.get().attempts, attempts)
        return trials

    @property
    def known(self) -> dict[str, GoldenRecord]:
        """What attacks are compared with: the golden and idle trials that were taken so far, by task."""
        if self._known is None or len(self._known) < len(self._golden or {}) or (self._idle and not self._with_idle):
            rubrics = {task.id: task.rubric for task in self.tasks}
            self._with_idle = bool(self._idle)
            self._known = {
                task: GoldenRecord(rubrics[task], trial, script_of(trial, "golden").turns, (self._idle or {}).get(task))
                for task, trial in (self._golden or {}).items()
                if trial.trace is not None
            }
        return self._known

    async def golden(self) -> dict[str, Trial]:
        """Trials of the golden solution by task id; empty if there is no golden solution."""
        async with self._once:  # several probes ask at the same time
            if self._golden is None:
                self._golden = await self._each(NamedPlay(name="golden")) if self.description.has_golden else {}
            return self._golden

    async def idle(self) -> dict[str, Trial]:
        """Trials of an agent that does nothing, by task id."""
        async with self._once:
            if self._idle is None:
                self._idle = await self._each(IDLE)
            return self._idle

    async def obstacle(self) -> str | None:
        """Why the subject cannot be played for a reason outside of it: the sandbox, judge or user does not work.

        The golden solution shows it. Failed trials are repeated once, so a single failure is no obstacle.
        """
        try:
            golden = await self.golden()
            failed = [task for task in self.tasks if task.id in golden and self._blameless(golden[task.id])]
            golden |= await self._golden_of(failed)
            broken = [(task, why) for task in failed if (why := self._blameless(golden[task.id]))]
            weak = [task for task in self.tasks if task.id in golden and golden[task.id].score and not golden[task.id].passed]
            saved = await self._saved_by_another_user(weak)
        except SandlotError as error:
            return str(error)[:_LONGEST]
        if broken:
            (task, why), num = broken[0], len(broken)
            return f"{num} of {len(self.tasks)} tasks could not be played, such as `{task.id}`: {why[:_LONGEST]}"
        if saved:
            return (
                f"with `{self.user}` as its user the golden solution does not get full marks on {len(saved)} of "
                f"{len(self.tasks)} tasks, such as `{saved[0].id}`; with `{FAITHFUL}` it does. Measure the user with "
                "`sandlot simulator`, or audit with another"
            )
        return None

    def _blameless(self, trial: Trial) -> str | None:
        """Why a trial failed, if the reason lies outside the environment."""
        if trial.lost is not None and trial.lost.busy:
            return trial.lost.message
        failure = trial.failed
        if failure is None:
            return None
        judged = failure.side is Side.GRADER and self.judge is not None and "judge `" in failure.message
        return failure.message if judged or failure.side in {Side.SANDBOX, Side.MODEL} else None

    async def _saved_by_another_user(self, weak: Sequence[Task]) -> list[Task]:
        """Those of the tasks that the golden solution solves with a perfect user."""
        if self.user is None or self.user == FAITHFUL:
            return []
        again = await self._golden_of(weak, Conditions(user=FAITHFUL))
        return [task for task in weak if again[task.id].passed]

    async def _golden_of(self, tasks: Sequence[Task], conditions: Conditions = PLAIN) -> dict[str, Trial]:
        requests = [Take(task=task.id, play=NamedPlay(name="golden"), seed=self.seed) for task in tasks]
        trials = await self._take(requests, conditions)
        return {task.id: trial for task, trial in zip(tasks, trials, strict=True)}

    async def _each(self, play: Script | NamedPlay) -> dict[str, Trial]:
        requests = [Take(task=task.id, play=play, seed=self.seed) for task in self.tasks]
        trials = await self._take(requests, Conditions(shuffled=self.seed))  # a random order shows leaks between trials
        return {task.id: trial for task, trial in zip(self.tasks, trials, strict=True)}

    @property
    def floor(self) -> float:
        """The score that doing nothing useful may reach."""
        return self.description.declared.floor

    def may_idle(self, task: Task) -> bool:
        """True if doing nothing is the right solution of a task."""
        correct = self.description.declared.noop_is_correct
        return task.id in correct or any(tag in correct for tag in task.tags)


def _is_whole(request: Regrade) -> bool:
    """True if the request has the bytes of all files of its evidence. A trial returns them up to a size limit."""
    evidence = request.trace.evidence
    return evidence is None or all(file.blob is None or file.blob in request.files for file in evidence.files.values())


def script_of(trial: Trial, name: str) -> Script:
    """What the agent did in a trial, as a script that can be played again or changed."""
    turns: list[tuple[Say | Call, ...]] = []
    for node in trial.trace.turns() if trial.trace else ():
        calls = tuple(Call(call.name, call.arguments) for call in node.message.calls)
        turns.append(calls or (Say(node.message.text),))
    return Script(name=name, turns=tuple(turns))


def regrade_changed(trial: Trial, more_files: Mapping[str, bytes] | None = None, **changes: Any) -> Regrade:
    """A request to grade a trial with other values of its evidence, without opening a world.

    `more_files` are the bytes behind files that the trial did not leave, by hash.
    """
    assert trial.trace is not None
    trace = msgspec.structs.replace(trial.trace, evidence=msgspec.structs.replace(trial.evidence, **changes))
    return Regrade(trace=trace, files={**trial.files, **(more_files or {})})


def regrade_with_answer(trial: Trial, answer: str, times: int = 1) -> Regrade:
    """The same with another final answer. The trace gets it too: a check may read the conversation instead of the evidence."""
    trace = regrade_changed(trial, answer=answer).trace
    nodes = list(trace.nodes)
    for at in range(len(nodes) - 1, -1, -1):
        if nodes[at].message.role is Role.ASSISTANT:
            message = msgspec.structs.replace(nodes[at].message, parts=(Text(answer),))
            nodes[at] = msgspec.structs.replace(nodes[at], message=message)
            break
    return Regrade(trace=msgspec.structs.replace(trace, nodes=nodes), files=trial.files, times=times)
