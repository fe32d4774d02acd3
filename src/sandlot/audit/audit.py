"""An audit, from a subject to a verdict. Layers run cheapest first, and every probe of a layer runs.

The verdict is SHIP only if every mandatory layer ran and no grave finding was confirmed. It is INCOMPLETE if a probe failed, if
no probe of a layer applies, or if a judge or golden solution is missing: what was not checked does not count as sound. Only
layers that do not apply to the kind of subject may be missing, and the report names them.
"""

import datetime as dt
import hashlib
import importlib.metadata
import os
import platform
import re
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from sandlot.audit.attacked import AttemptsByPart, add_attempts
from sandlot.audit.attacker.attacker import AttackPlan
from sandlot.audit.attacker.opening import open_attack
from sandlot.audit.budget import TimeBudget, parse_budget, tasks_within
from sandlot.audit.case import Case, Probe
from sandlot.audit.coverage import Coverage, coverage_of
from sandlot.audit.effect import read_limits
from sandlot.audit.finding import MANDATORY, Finding, Layer
from sandlot.audit.layers import AuditSelection, run_probes
from sandlot.audit.probes.panel import DIFFERENTIAL, FINISHED_ROLLOUTS, GRADER, GYMNASIUM, GYMNASIUM_STATIC, SCRIPTED, STATIC
from sandlot.audit.probes.played.health import take_rollouts
from sandlot.audit.probes.static.material import num_python_files
from sandlot.audit.reports.folder import FOLDER, folder_of
from sandlot.audit.reports.formats import require_writable, write_audit, write_report
from sandlot.audit.subject import Description, Subject
from sandlot.audit.subjects.named import NamedSubject, SubjectOptions, find_subject
from sandlot.audit.unfinished import UnfinishedAudit
from sandlot.audit.verdict import FORMAT, Audit, LayerReport, apply_waivers, verdict_of
from sandlot.audit.waivers import read_waivers
from sandlot.core.concurrency.blocking import blocking
from sandlot.core.errors import ConfigError, SandlotError
from sandlot.core.task import Task
from sandlot.env.environment import Environment
from sandlot.observe.events import Sink, fan_out, ignore_event

PANEL: tuple[Probe, ...] = (*STATIC, *GRADER, *SCRIPTED, *DIFFERENTIAL, *FINISHED_ROLLOUTS)
"""The probes for environments and plain graders."""


GYM_PANEL: tuple[Probe, ...] = (*GYMNASIUM_STATIC, *GYMNASIUM)
"""The probes for Gymnasium environments."""


ALL_PROBES: tuple[Probe, ...] = (*PANEL, *GYMNASIUM)


_MOST_TASKS = 100
"""Default limit of tasks to play; the static layer reads all tasks."""


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """Everything an audit uses besides its subject."""

    subject: str = ""
    """The words of a command line that name the subject. Default: its name."""
    place: str = ""
    """Where it is: `place_of` it."""
    runs: Path | None = None
    """The folder of runs, where finished probes are stored until the audit is complete. None: store nothing."""
    conditions: tuple[str, ...] = ()
    """What else the result depends on: the sandbox and the patience."""
    seed: int = 0
    most_tasks: int = _MOST_TASKS
    tasks: tuple[str, ...] = ()
    """Ids of the tasks to play. Default: all."""
    judge: str | None = None
    user: str | None = None
    """The model that plays the user."""
    reference: Path | None = None
    manifest: Path | None = None
    rollouts: Path | None = None
    """A run of a model in this environment."""
    reviewed: Path | None = None
    """A run that people have labelled."""
    declarations: Path | None = None
    """The file with waivers."""
    budget_s: float | None = None
    """How long the audit may take. Default: as long as its probes take."""
    attack: AttackPlan | None = None
    """Who proposes plays, if anybody does."""
    jobs: int | None = None
    """How many probes run at the same time, each with a process of its own. Default: as many as there are processors."""
    wanted: AuditSelection = field(default_factory=AuditSelection)

    def __post_init__(self) -> None:
        if self.most_tasks < 1:
            raise ConfigError(f"--limit is {self.most_tasks}; give 1 or more")
        if self.jobs is not None and self.jobs < 1:
            raise ConfigError(f"--jobs is {self.jobs}; give 1 or more")
        for file in (self.reference, self.manifest):
            if file is not None and not file.is_file():
                raise ConfigError(f"no file `{file}` to compare with")


async def audit_async(  # noqa: PLR0913 - the options of `sandlot audit`, all by keyword
    subject: str | Path | Environment | SubjectOptions | NamedSubject | Subject,
    *,
    tasks: Sequence[str] = (),
    limit: int = _MOST_TASKS,
    budget: str | float | None = None,
    jobs: int | None = None,
    layers: Sequence[Layer | str] = (),
    probes: Sequence[str] = (),
    seed: int = 0,
    judge: str | None = None,
    user: str | None = None,
    model: str | None = None,
    attacker: str | None = None,
    attacker_reads: str = "prompt",
    reviewed: str | Path | None = None,
    reference: str | Path | None = None,
    manifest: str | Path | None = None,
    waivers: str | Path | None = None,
    reports: Sequence[str | Path] = (),
    sandbox: str = "native",
    patience_s: float = 60.0,
    runs: str | Path | None = "runs",
    sink: Sink = ignore_event,
) -> Audit:
    """Check that an environment is sound, and return the `Audit`: the verdict SHIP, FIX or INCOMPLETE, and the findings.

    An audit of all tasks and layers is kept below `runs`; the same call continues one that was interrupted.

    - `subject`: a path, an installed name or an `Environment`. `SubjectOptions` name a plain grader or a Gymnasium environment.
    - `tasks`, `limit`: ids of the tasks to play; the maximum number of tasks, a seeded sample if there are more.
    - `budget`: how long it may take (`"60s"`, `"5m"`, seconds): the most telling probes first, on fewer tasks.
    - `layers`, `probes`, `jobs`: only these, else the mandatory layers; so many at the same time, as many as processors if None.
    - `seed`, `judge`, `user`, `model`: of every random choice; for judge checks, for the user, and to play too (layer `model`).
    - `attacker`, `attacker_reads`: a model that proposes plays, or `file:PATH`; it reads the `prompt`, or the `code` too.
    - `reviewed`: a run directory with labels of people (layer `people`).
    - `reference`, `manifest`: a file with real records, and one with production's tools, to compare with.
    - `waivers`, `reports`: a file with `[[waiver]]` tables, else `audit.toml`; files (.html, .md, .json, .sarif, .xml) to write.
    - `sandbox`, `patience_s`: as for `sandlot run`; seconds without output after which a trial counts as hung.
    - `runs`, `sink`: the folder for audits, None keeps nothing; it receives an event when a probe begins and when it has ended.

    ```python
    import sandlot

    found = sandlot.audit("arithmetic", layers=["static"], runs=None)
    assert not any(finding.grave for finding in found.findings)
    ```
    """
    what = find_subject(subject, judge=judge, user=user, sandbox=sandbox, patience_s=patience_s)
    kept = Path(runs) if runs is not None and not (tasks or layers or probes) else None
    plan = AuditPlan(what.words, what.place, kept, (sandbox, f"{patience_s:g}"), seed, limit, tuple(tasks), judge, user)
    given = {"reference": reference, "manifest": manifest, "reviewed": reviewed, "declarations": waivers or what.declarations}
    plan = replace(plan, **{name: Path(file) for name, file in given.items() if file is not None})
    if budget is not None:
        budget_s = parse_budget(str(budget))
        plan = replace(plan, budget_s=budget_s, most_tasks=tasks_within(budget_s, limit))
    plan = replace(plan, jobs=jobs, wanted=_select(layers, probes, model=bool(model or attacker), people=reviewed is not None))
    _require_usable(what, plan, model, waivers)
    async with open_attack(attacker, attacker_reads, seed, runs) as attack:
        return await _audit_and_keep(what, _with_attack(plan, attack), model, Path(runs or "runs"), reports, sink)


audit = blocking("audit", audit_async)


def _with_attack(plan: AuditPlan, attack: AttackPlan | None) -> AuditPlan:
    return plan if attack is None else replace(plan, attack=attack, conditions=(*plan.conditions, *attack.identity))


def _select(layers: Sequence[Layer | str], probes: Sequence[str], *, model: bool, people: bool) -> AuditSelection:
    """The layers to run: those asked for, those of the probes asked for, or all that the options allow."""
    unknown = [layer for layer in layers if layer not in set(Layer)]
    if unknown:
        raise ConfigError(f"no layer `{unknown[0]}`; there are: {', '.join(Layer)}")
    of_probes = frozenset(probe.layer for probe in ALL_PROBES if probe.name in probes)
    everything = (*MANDATORY, *[Layer.MODEL] * model, *[Layer.PEOPLE] * people)
    return AuditSelection(of_probes or frozenset(map(Layer, layers or everything)), frozenset(probes) or None)


def _require_usable(what: NamedSubject, plan: AuditPlan, model: str | None, waivers: str | Path | None) -> None:
    """Refuse options that cannot work together, before anything runs."""
    for option, value in (("--model", model), ("--user", plan.user)):
        if value is not None and what.env is None:
            raise ConfigError(f"{option} is only for Sandlot environments; no model plays in graders and Gymnasium environments")
    if waivers is not None and not Path(waivers).is_file():
        raise ConfigError(f"no file `{waivers}` with waivers")


async def _audit_and_keep(
    what: NamedSubject, plan: AuditPlan, model: str | None, runs: Path, reports: Sequence[str | Path], sink: Sink
) -> Audit:
    files = [Path(file) for file in reports]
    for file in files:
        require_writable(file)
    async with what.open() as subject:
        if model is not None and what.env is not None:
            plan = replace(plan, rollouts=await _play_model(subject, what.env, model, plan, runs))
        audit = await audit_subject(subject, plan, sink)
    if plan.runs is not None:
        write_audit(audit, plan.runs)
    for file in files:  # the audit is stored already, if one of them fails
        write_report(audit, file)
    return audit


async def _play_model(subject: Subject, env: str, model: str, plan: AuditPlan, runs: Path) -> Path:
    """Take rollouts of a model. The folder name has the fingerprint: rollouts of another version say nothing about this one."""
    exactly = (await subject.describe()).fingerprint.removeprefix("sha256:")[:8]
    player = f"{model} {plan.user or ''}".strip()
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{Path(env).name}-{player}-{exactly}").strip("-.")
    place = runs / FOLDER / "rollouts" / name
    return await take_rollouts(env, model, place, judge=plan.judge, user=plan.user, sandbox=plan.conditions[0])


async def audit_subject(subject: Subject, plan: AuditPlan, sink: Sink = ignore_event) -> Audit:
    """Run the probes of a plan, and reach a verdict. A subject that is a context manager is open meanwhile."""
    async with subject if isinstance(subject, AbstractAsyncContextManager) else nullcontext():
        return await _audit_opened(subject, plan, fan_out(sink))


async def _audit_opened(subject: Subject, plan: AuditPlan, sink: Sink) -> Audit:
    budget = TimeBudget(plan.budget_s) if plan.budget_s is not None else None
    waivers, limits = read_waivers(plan.declarations), read_limits(plan.declarations)
    started, begun = time.time(), time.monotonic()
    about = await subject.describe()
    if plan.user is not None and not about.has_persona:
        raise ConfigError(f"`{about.name}` has no persona for a model to play; leave out `--user`, or add `@env.persona`")
    attack = plan.attack and plan.attack.recorded(about.name, plan.place)
    case = Case(
        subject=subject,
        description=about,
        tasks=_tasks(about, plan),
        seed=plan.seed,
        judge=plan.judge,
        user=plan.user,
        reference=plan.reference,
        manifest=plan.manifest,
        rollouts=plan.rollouts,
        reviewed=plan.reviewed,
        budget_s=plan.budget_s,
        attack=attack,
    )
    probes = _probes(about.kind, plan.wanted)
    memory = UnfinishedAudit(folder_of(about.name, plan.place, plan.runs), _dependencies(about, plan)) if plan.runs else None
    jobs = plan.jobs or len(os.sched_getaffinity(0))
    layers, findings = await run_probes(case, probes, plan.wanted, sink, memory, limits, budget, jobs)
    earlier = [probe for layer in layers for probe in layer.probes if probe.earlier]
    coverage = await _coverage(case, layers, findings)
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    standing, waived, expired = apply_waivers(findings, waivers, today)
    return Audit(
        subject=plan.subject or about.name,
        name=about.name,
        place=plan.place,
        kind=about.kind,
        fingerprint=about.fingerprint,
        sandlot=importlib.metadata.version("sandlot"),
        started=started,
        seconds=time.monotonic() - begun + sum(probe.seconds for probe in earlier),
        seed=plan.seed,
        tasks=len(case.tasks),
        of_tasks=len(about.tasks),
        chosen=_words_of_choice(plan),
        attacker=attack.words if attack is not None else (),
        trials=case.taken + sum(probe.trials for probe in earlier),
        verdict=verdict_of(layers, standing, coverage),
        coverage=coverage,
        limits=limits,
        layers=tuple(layers),
        findings=tuple(standing),
        waived=tuple(waived),
        expired=tuple(expired),
        material=num_python_files(about),
    )


async def _coverage(case: Case, layers: Sequence[LayerReport], findings: Sequence[Finding]) -> Coverage:
    """What the probes attacked, this time and in earlier sittings."""
    attempts: AttemptsByPart = {}
    probes = [probe for layer in layers for probe in layer.probes]
    for probe in probes:
        add_attempts(attempts, probe.attempts)
    with suppress(SandlotError):  # what the probes found must not be lost
        if attempts and not case.known and case.description.kind != "gymnasium":  # all played probes finished earlier
            await case.golden()
            await case.idle()
    return coverage_of(case.description, case.known, attempts, findings)


def _words_of_choice(plan: AuditPlan) -> tuple[str, ...]:
    if plan.tasks:
        return tuple(word for task in plan.tasks for word in ("--task", task))
    return () if plan.most_tasks == _MOST_TASKS else ("--limit", str(plan.most_tasks))


def _dependencies(about: Description, plan: AuditPlan) -> list[Any]:
    """Everything that the result of a probe depends on, besides its code."""
    files = [hashlib.sha256(file.read_bytes()).hexdigest() if file else None for file in (plan.reference, plan.manifest)]
    options = [plan.seed, plan.most_tasks, plan.tasks, plan.judge, plan.user, plan.conditions, files]
    return [FORMAT, plan.place, msgspec.to_builtins(about), options, platform.python_version()]


def chosen_tasks(tasks: Sequence[Task], most: int, seed: int) -> tuple[Task, ...]:
    """All tasks, or a seeded sample in the same order, with a task of every rubric if there is room for that."""
    if len(tasks) <= most:
        return tuple(tasks)
    order = Random(seed).sample(range(len(tasks)), len(tasks))  # noqa: S311 - seeded, not secret
    first = list({tasks[place].rubric: place for place in reversed(order)}.values())
    kept = set(list(dict.fromkeys([*first, *order] if len(first) <= most else order))[:most])
    return tuple(task for place, task in enumerate(tasks) if place in kept)


def _tasks(about: Description, plan: AuditPlan) -> tuple[Task, ...]:
    if not plan.tasks:
        return chosen_tasks(about.tasks, plan.most_tasks, plan.seed)
    by_id = {task.id: task for task in about.tasks}
    unknown = [name for name in plan.tasks if name not in by_id]
    if unknown:
        shown = ", ".join(f"`{name}`" for name in list(by_id)[:8])
        raise ConfigError(f"`{about.name}` has no task `{unknown[0]}`; it has {len(by_id)}: {shown}{', ...' * (len(by_id) > 8)}")
    return tuple(by_id[name] for name in plan.tasks)


def _probes(kind: str, wanted: AuditSelection) -> Sequence[Probe]:
    panel = GYM_PANEL if kind == "gymnasium" else PANEL
    names = [probe.name for probe in panel]
    unknown = sorted((wanted.probes or frozenset()) - set(names))
    if unknown:
        raise ConfigError(f"no probe `{unknown[0]}`; there are: {', '.join(names)}")
    return panel
