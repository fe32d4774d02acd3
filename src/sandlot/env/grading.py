"""Grading a rollout, the first time and again.

It reads only stored evidence, so `sandlot regrade` gives the same score bit for bit if the checks are deterministic.
"""

import functools
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio

from sandlot.core.errors import ConfigError, GradeError, NotInEvidence, SandboxOutOfMemory
from sandlot.core.ports.grading import Evidence, Judge
from sandlot.core.ports.sandbox import Backend, Files
from sandlot.core.ports.store import Blobs
from sandlot.core.ports.world import World
from sandlot.core.rubric import Rubric, RubricScore
from sandlot.core.task import Task
from sandlot.core.trace import Event, Trace
from sandlot.env.apps import load_apps
from sandlot.env.environment import Environment
from sandlot.env.image import image_of
from sandlot.env.session import world_seed
from sandlot.grade import lint
from sandlot.grade.evidence import StoredEvidence, refused_file
from sandlot.grade.grading import grade as grade_rubric

_SANDBOX_SHARE = 0.8
"""Share of the remaining grading time that one grading sandbox may use, so that code in it cannot use up the grading."""
_SPARED_SHARE = 0.05
"""Share of the grading time reserved for other checks once the agent's code did not end in a grading sandbox."""
_NOTED_FILES = 20
"""Paths named in the event of a grading sandbox."""


async def grade(
    env: Environment, task: Task, evidence: Evidence, judge: Judge | None = None, *, rubric: str | None = None
) -> RubricScore:
    """The score of one rollout. `GradeError` if a check fails to run: then there is no score."""
    task = task.copied()  # a check may change it
    if env.marked.grade is not None:
        return await env.marked.grade(evidence, task, judge)
    return await grade_rubric(rubric_for(env, task, rubric), evidence, task, _resolver(env), judge)


async def load_evidence(env: Environment, task: Task, trace: Trace, blobs: Blobs, backend: Backend | None = None) -> Evidence:
    """Read the stored evidence of a rollout."""
    if trace.evidence is None:
        raise GradeError(f"rollout {trace.task}/{trace.rollout} left no evidence to grade", kind="no_evidence")
    kept = {file.blob for file in trace.evidence.files.values() if file.blob is not None}
    contents = {name: await blobs.get(name) for name in sorted(kept)}
    open_sandbox = None
    if backend is not None:
        open_sandbox = functools.partial(_grading_sandbox, env, task, trace, backend, _SandboxTime())
    apps = await load_apps(env, trace.evidence.apps, blobs) if trace.evidence.apps else None
    state_type = env.state if isinstance(env.state, type) else None
    return StoredEvidence(trace.evidence, trace, contents, state_type, open_sandbox, apps)


@dataclass(slots=True)
class _SandboxTime:
    """The time of one grading that its grading sandboxes share."""

    whole_s: float | None = None
    """The grading time left when the first sandbox opened."""
    overran: bool = False
    """True once the agent's code did not end in one of them."""

    def left_s(self) -> float:
        """Seconds until grading ends. `NotInEvidence` if the agent's code has used up nearly all of them."""
        left_s = anyio.current_effective_deadline() - anyio.current_time()
        self.whole_s = left_s if self.whole_s is None else self.whole_s
        if self.overran and left_s < self.whole_s * _SPARED_SHARE:
            raise NotInEvidence("the agent's code did not end in other grading sandboxes and used up their time", kind="cut")
        return left_s


@asynccontextmanager
async def _grading_sandbox(
    env: Environment,
    task: Task,
    trace: Trace,
    backend: Backend,
    time: _SandboxTime,
    files: Mapping[str, bytes],
    replace: frozenset[str],
) -> AsyncGenerator[World]:
    """A fresh sandbox of the image, with some of the agent's files in it.

    If the agent's code does not end or fills the memory, the check is not met. If the sandbox does not open, the rollout fails.
    """
    _record_event(trace, files, replace)
    time.left_s()
    async with backend.open(image_of(env, task), "none", env.limits.but(task.limits)) as machine:
        share_s = time.left_s() * _SANDBOX_SHARE
        try:
            with anyio.move_on_after(share_s) as scope:
                for path, data in files.items():
                    await _put(machine, path, data, replace)
                yield env.new_world(task, machine, world_seed(env, task))
        except SandboxOutOfMemory as error:
            raise NotInEvidence(f"the agent's code filled the memory of the grading sandbox: {error}", kind="cut") from error
    if scope.cancelled_caught:
        time.overran = True
        raise NotInEvidence(f"the agent's code did not end within {share_s:.3g} s, its share of `grade_s`", kind="cut")


async def _put(machine: Files, path: str, data: bytes, replace: frozenset[str]) -> None:
    """Write one of the agent's files; `NotInEvidence` if the image has a file there that may not be replaced."""
    if path not in replace:
        try:
            await machine.read(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise refused_file(path, f"the image has something there ({error.strerror})") from error
        else:
            raise refused_file(path, "the image has a file there")
    try:
        await machine.write(path, data)
    except OSError as error:
        raise NotInEvidence(f"`{path}` cannot be written in the grading sandbox: {error}", kind="cut") from error


def _record_event(trace: Trace, files: Mapping[str, bytes], replace: frozenset[str]) -> None:
    """Add an event that lists the files put into a grading sandbox, once per trace."""
    detail = {"files": len(files), "first": sorted(files)[:_NOTED_FILES], "replaced": sorted(replace)}
    event = Event(kind="grading_sandbox", turn=trace.num_turns, detail=detail)
    if event not in trace.events:
        trace.events.append(event)


def rubric_for(env: Environment, task: Task, name: str | None = None) -> Rubric:
    """The rubric for a task: the one named, else the task's own, else the marked checks."""
    wanted = name or task.rubric
    if wanted in env.marked.rubrics:
        return env.marked.rubrics[wanted]
    if wanted == "default" and env.marked.checks:
        return Rubric(checks=tuple(env.marked.checks))
    there = ", ".join(f"`{known}`" for known in env.marked.rubrics) or "only the marked checks, `default`"
    raise ConfigError(f"task `{task.id}` names rubric `{wanted}`, which environment `{env.name}` does not have; rubrics: {there}")


def needs_sight(env: Environment, tasks: list[Task], rubric: str | None = None) -> bool:
    """True if any of the tasks has a judge check that shows images."""
    return env.marked.grade is None and any(rubric_for(env, task, rubric).needs_sight for task in tasks)


def needs_judge(env: Environment, tasks: list[Task], rubric: str | None = None) -> bool:
    """True if grading any of these tasks needs a judge."""
    return env.marked.grade is None and any(rubric_for(env, task, rubric).needs_judge for task in tasks)


def require_gradable(env: Environment, tasks: list[Task], rubric: str | None = None) -> None:
    """`ConfigError`, before the first rollout, if a rubric cannot grade these tasks."""
    if env.marked.grade is not None:
        if rubric is not None:
            raise ConfigError(
                f"environment `{env.name}` is graded by its `Score`s and has no rubrics; leave out rubric `{rubric}`"
            )
        return
    by_rubric: dict[str, list[Task]] = {}
    for task in tasks:
        by_rubric.setdefault(rubric or task.rubric, []).append(task)
    for name, graded in by_rubric.items():
        lint.require_gradable(
            rubric_for(env, graded[0], name), f"rubric `{name}` of `{env.name}`", functions=_resolver(env), tasks=graded
        )


def _resolver(env: Environment) -> Callable[[str], Callable[..., Any]]:
    def resolve(ref: str) -> Callable[..., Any]:
        if ref not in env.marked.functions:
            raise LookupError(f"environment `{env.name}` has no check function `{ref}`")
        return env.marked.functions[ref]

    return resolve
