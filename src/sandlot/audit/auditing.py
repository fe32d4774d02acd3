"""The main road of `sandlot audit`: describe the subject, choose tasks, run the layers, keep what came out."""

import datetime as dt
import hashlib
import importlib.metadata
import platform
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from sandlot.audit.audit import FORMAT, Audit, Wanted, Watch, chosen_tasks, examine, separate, verdict_of
from sandlot.audit.case import Case, Probe
from sandlot.audit.differential.panel import PROBES as DIFFERENTIAL
from sandlot.audit.foreign.panel import PROBES as GYMNASIUM
from sandlot.audit.foreign.panel import READ
from sandlot.audit.grader.panel import PROBES as GRADER
from sandlot.audit.played.panel import PROBES as PLAYED
from sandlot.audit.record import folder_of
from sandlot.audit.scripted.panel import PROBES as SCRIPTED
from sandlot.audit.static.panel import PROBES as STATIC
from sandlot.audit.subject import Description, Subject
from sandlot.audit.unfinished import UnfinishedAudit
from sandlot.audit.waivers import read_waivers
from sandlot.core.errors import ConfigError
from sandlot.core.task import Task

PANEL: tuple[Probe, ...] = (*STATIC, *GRADER, *SCRIPTED, *DIFFERENTIAL, *PLAYED)
"""For environments and plain graders."""
GYM_PANEL: tuple[Probe, ...] = (*READ, *GYMNASIUM)
"""For Gymnasium environments, whose world is played in steps and actions."""
ALL_PROBES: tuple[Probe, ...] = (*PANEL, *GYMNASIUM)
MOST_TASKS = 100
"""Tasks that are played, unless more are asked for; what can be read of the others is read."""


@dataclass(frozen=True, slots=True)
class Given:
    """What an audit was given beside the subject."""

    named: str
    """The subject as a person named it."""
    place: str = ""
    """Where it lies: `place_of` it."""
    runs: Path | None = None
    """The folder of runs: finished probes are kept there until the audit is whole. None: nothing is kept."""
    conditions: tuple[str, ...] = ()
    """What else the result depends on: the sandbox, the patience."""
    seed: int = 0
    most_tasks: int = MOST_TASKS
    tasks: tuple[str, ...] = ()
    """Only these, by id."""
    judge: str | None = None
    user: str | None = None
    """The model that plays the user."""
    reference: Path | None = None
    manifest: Path | None = None
    rollouts: Path | None = None
    reviewed: Path | None = None
    declarations: Path | None = None
    """The file with waivers."""
    wanted: Wanted = field(default_factory=Wanted)


async def audit(subject: Subject, given: Given, watch: Watch = lambda _probe, _report: None) -> Audit:
    """Everything that was asked for, and the verdict. A subject that keeps something ready is opened for as long as it takes."""
    async with subject if isinstance(subject, AbstractAsyncContextManager) else nullcontext():
        return await _audited(subject, given, watch)


async def _audited(subject: Subject, given: Given, watch: Watch) -> Audit:
    for file in (given.reference, given.manifest):
        if file is not None and not file.is_file():
            raise ConfigError(f"no file `{file}` to compare with")
    waivers = read_waivers(given.declarations)
    started, begun = time.time(), time.monotonic()
    about = await subject.describe()
    if given.user is not None and not about.has_persona:
        raise ConfigError(f"`{about.name}` has no user for a model to play; leave `--user` out, or mark one with `@env.persona`")
    case = Case(
        subject=subject,
        description=about,
        tasks=_tasks(about, given),
        seed=given.seed,
        judge=given.judge,
        user=given.user,
        reference=given.reference,
        manifest=given.manifest,
        rollouts=given.rollouts,
        reviewed=given.reviewed,
    )
    probes = _probes(about.kind, given.wanted)
    memory = UnfinishedAudit(folder_of(about.name, given.place, given.runs), _bound_to(about, given)) if given.runs else None
    layers, findings = await examine(case, probes, given.wanted, watch, memory)
    earlier = [probe for layer in layers for probe in layer.probes if probe.earlier]
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    standing, waived, expired = separate(findings, waivers, today)
    return Audit(
        subject=given.named,
        name=about.name,
        place=given.place,
        kind=about.kind,
        fingerprint=about.fingerprint,
        sandlot=importlib.metadata.version("sandlot"),
        started=started,
        seconds=time.monotonic() - begun + sum(probe.seconds for probe in earlier),
        seed=given.seed,
        tasks=len(case.tasks),
        of_tasks=len(about.tasks),
        trials=case.taken + sum(probe.trials for probe in earlier),
        verdict=verdict_of(layers, standing),
        layers=tuple(layers),
        findings=tuple(standing),
        waived=tuple(waived),
        expired=tuple(expired),
    )


def _bound_to(about: Description, given: Given) -> list[Any]:
    """Everything that the result of a probe depends on, apart from its own code."""
    files = [hashlib.sha256(file.read_bytes()).hexdigest() if file else None for file in (given.reference, given.manifest)]
    options = [given.seed, given.most_tasks, given.tasks, given.judge, given.user, given.conditions, files]
    return [FORMAT, given.place, msgspec.to_builtins(about), options, platform.python_version()]


def _tasks(about: Description, given: Given) -> tuple[Task, ...]:
    if not given.tasks:
        return chosen_tasks(about.tasks, given.most_tasks, given.seed)
    by_id = {task.id: task for task in about.tasks}
    unknown = [name for name in given.tasks if name not in by_id]
    if unknown:
        shown = ", ".join(f"`{name}`" for name in list(by_id)[:8])
        raise ConfigError(f"`{about.name}` has no task `{unknown[0]}`; it has {len(by_id)}: {shown}{', ...' * (len(by_id) > 8)}")
    return tuple(by_id[name] for name in given.tasks)


def _probes(kind: str, wanted: Wanted) -> Sequence[Probe]:
    panel = GYM_PANEL if kind == "gymnasium" else PANEL
    names = [probe.name for probe in panel]
    unknown = sorted((wanted.probes or frozenset()) - set(names))
    if unknown:
        raise ConfigError(f"no probe `{unknown[0]}`; there are: {', '.join(names)}")
    return panel
