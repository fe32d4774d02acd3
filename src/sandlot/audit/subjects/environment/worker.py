"""The worker process: it loads an environment, takes trials, and writes a note about each.

Run as `python -m sandlot.audit.subjects.environment.worker`. One job comes in on standard input. Notes go out on a separate
descriptor, so output of author code is never taken for a result. If it hangs or dies, the notes tell during which trial.
"""

import ctypes
import dataclasses
import os
import random
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial

import anyio
import msgspec

from sandlot.audit.answer_places import look_up
from sandlot.audit.starved import take_measured
from sandlot.audit.subject import Conditions, Description, Play, Regrade, Request, Say, Script, Take, Trial
from sandlot.audit.subjects.environment.conditions import ATTEMPTED, apply_conditions, break_environment, broken_judge, reseed
from sandlot.audit.subjects.environment.describe import describe
from sandlot.audit.subjects.environment.states import StatePart, StateReader, StateWriter, with_state
from sandlot.audit.subjects.foreign.inside.sandlot_surroundings import take_noted, watch_for
from sandlot.audit.subjects.worker_process import frame
from sandlot.core.errors import ConfigError, SandlotError, unwrapped
from sandlot.core.persona import Persona
from sandlot.core.ports.grading import Evidence
from sandlot.core.ports.session import Policy, User, Users
from sandlot.core.task import Task
from sandlot.core.trace import Failed, Scored, Text, ToolCall, Trace
from sandlot.core.types import Side, derive_seed
from sandlot.env.environment import Environment
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of
from sandlot.harness.tool_loop import ToolLoop
from sandlot.model.policy.player import Move, Player, PlayerView
from sandlot.model.policy.scripted import PLAYS, ScriptedPolicies
from sandlot.model.policy.solution import Solution
from sandlot.rollout import grade_trace, record_outcome, run_rollout
from sandlot.run.manifest import list_served_tools
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.config import ModelConfig, judge_config, user_config
from sandlot.wiring.models import open_users
from sandlot.wiring.parts import Grading, RolloutParts, open_grading

_MEMORY_BYTES = 8 * 2**30
"""Address space of a worker, so that a grader that allocates without end does not exhaust the machine."""
_FILES_BYTES = 64 * 2**20
"""Maximum bytes of evidence returned with a trial. Most trials of a job leave nearly the same files, and each goes out once."""
_SANDBOXES = 4
"""Sandboxes kept ready."""

_PR_SET_PDEATHSIG = 1


class Job(msgspec.Struct, frozen=True):
    """The job of one worker."""

    env: str
    requests: tuple[Request, ...] = ()
    """Empty: only describe the environment. A `Regrade` has no files and no state here."""
    files: dict[str, bytes] = {}
    """The bytes behind the evidence of all requests, by hash."""
    conditions: Conditions = Conditions()
    judge: str | None = None
    user: str | None = None
    sandbox: str = "native"
    parts: tuple[StatePart, ...] = ()
    """The parts of the states of all requests."""
    states: dict[int, int] = {}
    """The number of each `Regrade`'s state, by the request's place."""


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    """A trial has begun."""

    place: int


class Done(msgspec.Struct, frozen=True, tag="done"):
    """A trial is done. Its trial has only the files that no earlier one of the job had, and no state.

    One that was graded again has no trace: it is the one of the request.
    """

    place: int
    trial: Trial
    parts: tuple[StatePart, ...] = ()
    """The parts of its state that no earlier one of the job had."""
    state: int = 0
    """The number of its state."""


class Described(msgspec.Struct, frozen=True, tag="described"):
    """The description of the environment."""

    description: Description


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The environment cannot be loaded, or its parts cannot be opened."""

    message: str


Note = Begun | Done | Described | Refused


def main() -> None:
    """Read the job, do it, and exit."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of author code goes to stderr
    sys.stdout = sys.stderr
    job = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Job)
    # Only the soft limit: programs in sandboxes, such as a browser, may reserve more, and have limits of their own.
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))

    def note(what: Note) -> None:
        out.write(frame(msgspec.msgpack.encode(what)))
        out.flush()

    try:
        if job.conditions.watched:
            watch_for(job.conditions.watched)
        apply_conditions(job.conditions, [spec for spec in (job.judge, job.user) if spec])
        env = load(job.env)
        if not job.requests:
            note(Described(_describe(env, job.sandbox)))
        else:
            anyio.run(_take_all, env, job, note)
    except (SandlotError, ExceptionGroup) as error:
        cause = unwrapped(error)
        if not isinstance(cause, SandlotError):
            raise
        note(Refused(str(cause)))
    os._exit(0)  # threads that author code left must not keep it alive


def _describe(env: Environment, sandbox: str) -> Description:
    """The description, with the tools of its MCP servers, or the reason why they cannot be listed."""
    about = describe(env)
    if not env.marked.sources:
        return about
    try:
        return msgspec.structs.replace(about, tools=tuple(anyio.run(list_served_tools, env, tasks_of(env)[0], sandbox)))
    except (SandlotError, ExceptionGroup) as error:
        cause = unwrapped(error)
        if not isinstance(cause, SandlotError):
            raise
        return msgspec.structs.replace(about, unlisted=f"the tools of its MCP servers cannot be listed: {cause}")


async def _take_all(env: Environment, job: Job, note: Callable[[Note], None]) -> None:
    conditions = job.conditions
    break_environment(env, conditions.fault)
    tasks = {task.id: msgspec.structs.replace(task, limits={**task.limits, **conditions.limits}) for task in tasks_of(env)}
    order = list(range(len(job.requests)))
    if conditions.shuffled is not None:
        random.Random(conditions.shuffled).shuffle(order)  # noqa: S311 - seeded, not secret
    places = anyio.CapacityLimiter(conditions.at_once)
    async with (
        open_grading(env, judge=judge_config(job.judge), sandbox=job.sandbox, pool=min(conditions.at_once, _SANDBOXES)) as opened,
        AsyncExitStack() as stack,
        anyio.create_task_group() as group,
    ):
        grading = Grading(env=env, judge=broken_judge(opened.judge, conditions.fault), backend=opened.backend)
        user = conditions.user or job.user
        users = await stack.enter_async_context(open_users(_at_temperature_zero(user), env)) if user else None
        kept = MemoryBlobs() if env.apps and env.image is None else None
        given = MemoryBlobs()
        for data in job.files.values():
            await given.put(data)
        requests = _with_states(job)
        told: set[str] = set()
        states = StateWriter()

        def note_done(place: int, trial: Trial) -> None:
            new = {blob: data for blob, data in trial.files.items() if blob not in told}
            told.update(new)
            if trial.trace is None or isinstance(requests[place], Regrade):
                note(Done(place, msgspec.structs.replace(trial, files=new, trace=None)))
                return
            number, trace = states.number_of(trial.evidence.state), with_state(trial.trace, None)
            note(Done(place, msgspec.structs.replace(trial, files=new, trace=trace), states.take_new(), number))

        async def take(place: int) -> None:
            async with places:
                reseed(conditions, place)
                note(Begun(place))
                trial = partial(_take_trial, grading, tasks, requests[place], place, given, users, kept)
                done = await take_measured(trial, may_run_out=conditions.fault is not None)
                did = tuple(take_noted(conditions.watched)) if conditions.watched else ()
                note_done(place, msgspec.structs.replace(done, did=did))

        for place in order:
            if conditions.at_once == 1:
                await take(place)
            else:
                group.start_soon(take, place)


def _with_states(job: Job) -> list[Request]:
    """The requests with the states that came in parts."""
    reader = StateReader()
    reader.add(job.parts)
    requests = list(job.requests)
    for place, number in job.states.items():
        request = requests[place]
        assert isinstance(request, Regrade)
        requests[place] = msgspec.structs.replace(request, trace=with_state(request.trace, reader.state(number)))
    return requests


def _at_temperature_zero(spec: str) -> ModelConfig:
    """The user's model at temperature 0: probes compare trials, so the same conversation must get the same replies."""
    config = user_config(spec)
    assert config is not None
    return msgspec.structs.replace(config, sampling=msgspec.structs.replace(config.sampling, temperature=0.0))


@dataclasses.dataclass(frozen=True, slots=True)
class _SteadyUsers:
    """`Users` with one seed per task and trial seed: a trial's position in its batch must not change what the user says."""

    users: Users
    trial_seed: int

    @property
    def name(self) -> str:
        return self.users.name

    def user(self, persona: Persona, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[User]:  # noqa: ARG002 - both depend on the position
        return self.users.user(persona, task, derive_seed("user", "audit", task.id, self.trial_seed))


async def _take_trial(
    grading: Grading,
    tasks: dict[str, Task],
    request: Request,
    place: int,
    given: MemoryBlobs,
    users: Users | None = None,
    kept: MemoryBlobs | None = None,
) -> Trial:
    """Take one trial; failures are part of the result.

    `given`: the evidence of trials to be graded again. `kept`: the blobs of all trials in one place. In a world of apps the base
    state, megabytes, is then hashed once; a sandbox's files would fill the memory.
    """
    name = request.task if isinstance(request, Take) else request.trace.task
    if name not in tasks:
        raise ConfigError(f"environment `{grading.env.name}` has no task `{name}`")
    ATTEMPTED.clear()
    graded: list[Evidence] = []
    grading = dataclasses.replace(grading, on_evidence=graded.append)
    if isinstance(request, Regrade):
        scores = [await _regrade(grading, tasks[name], request, given) for _ in range(request.times)]
        return Trial(
            trace=request.trace,
            scores=tuple(scores),
            reached=tuple(dict.fromkeys(ATTEMPTED)),
            answer_was_read=_was_read(graded),
        )
    blobs = MemoryBlobs() if kept is None else kept
    policies = ScriptedPolicies(request.play.name, lambda _task, _seed: _policy_for(grading.env, request.play, request.seed))
    steady = _SteadyUsers(users, request.seed) if users is not None else None
    parts = RolloutParts(grading=grading, policies=policies, harness=ToolLoop(), users=steady)
    trace = await run_rollout(parts, tasks[name], run="audit", rollout=place, blobs=blobs)
    return Trial(
        trace=trace,
        files=await _evidence_files(trace, blobs),
        scores=(trace.outcome,) if isinstance(trace.outcome, Scored | Failed) else (),
        reached=tuple(dict.fromkeys(ATTEMPTED)),
        answer_was_read=_was_read(graded),
    )


def _was_read(graded: Sequence[Evidence]) -> bool:
    """False if there was a grading, and none read the answer."""
    return not graded or any(evidence.answer_was_read for evidence in graded)


async def _regrade(grading: Grading, task: Task, request: Regrade, blobs: MemoryBlobs) -> Scored | Failed:
    trace = msgspec.structs.replace(request.trace, outcome=None)
    with record_outcome(trace):
        trace.outcome = Scored(await grade_trace(grading, task, trace, blobs))
    return _graded(trace)


def _graded(trace: Trace) -> Scored | Failed:
    outcome = trace.outcome
    return outcome if isinstance(outcome, Scored | Failed) else Failed(Side.GRADER, "no_score", "grading was cancelled")


async def _evidence_files(trace: Trace, blobs: MemoryBlobs) -> dict[str, bytes]:
    left, kept = _FILES_BYTES, dict[str, bytes]()
    for file in sorted(trace.evidence.files.values(), key=lambda file: file.size) if trace.evidence else ():
        if file.blob is not None and file.blob not in kept and file.size <= left:
            kept[file.blob] = await blobs.get(file.blob)
            left -= file.size
    if trace.evidence and trace.evidence.apps:  # the base states are the environment's own
        kept[trace.evidence.apps.journal] = await blobs.get(trace.evidence.apps.journal)
    return kept


# -- agents ------------------------------------------------------------------------------------------------------------


def _policy_for(env: Environment, play: Play, seed: int) -> Solution | Policy:
    """The agent of a trial: a script, a scripted player, the golden solution, an adversary or a control."""
    if isinstance(play, Script):
        return Player(play.name, _scripted(play), seed)
    if play.name in PLAYS:
        return Player(play.name, PLAYS[play.name], seed)
    solutions: dict[str, Solution] = {"look-up": look_up, **env.marked.adversaries, **env.marked.controls}
    if env.marked.solution is not None:
        solutions["golden"] = env.marked.solution
    if play.name not in solutions:
        raise ConfigError(f"unknown agent `{play.name}` in `{env.name}`; known: {', '.join(solutions)}")
    return solutions[play.name]


def _scripted(script: Script) -> Callable[[PlayerView], Move]:
    def play(moment: PlayerView) -> Move:
        turn = moment.turn
        if turn >= len(script.turns):
            return Move()
        acts = script.turns[turn]
        return Move(
            tuple(
                Text(act.text) if isinstance(act, Say) else ToolCall(f"call_{turn}_{at}", act.tool, act.arguments)
                for at, act in enumerate(acts)
            )
        )

    return play


def _end_with_the_auditor() -> None:
    """Ask the kernel to kill this process when the auditor dies. The fork server does this for its own forks."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    _end_with_the_auditor()
    main()
