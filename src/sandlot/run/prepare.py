"""What is settled before the first rollout of a run: its tasks, its fingerprints, its directory and its manifest."""

import time
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from sandlot.core.errors import ConfigError
from sandlot.core.task import Task
from sandlot.env.environment import Environment
from sandlot.env.grading import rubric_for
from sandlot.grade.lint import reported_checks
from sandlot.run.config import RunConfig, RunPlan, plan_run
from sandlot.run.declared import overridden_limits
from sandlot.run.manifest import Fingerprints, Manifest, RunFacts, gather_facts, machine_facts, public_config, run_digest
from sandlot.run.results import Run
from sandlot.run.trained import setting_differences


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A run that is ready to be opened."""

    env: Environment
    config: RunConfig
    plan: RunPlan
    facts: RunFacts
    tasks: tuple[Task, ...]
    """Tasks that rollouts are taken of: those of the plan, or some of them."""
    differences: tuple[str, ...]
    """How this setting differs from the one the model was trained in; empty if it does not, or if that is not known."""
    name: str | None = None
    """The name that sampling seeds are derived from; None for the name of the run directory."""


async def prepare_run(env: Environment, config: RunConfig, plan: RunPlan | None = None, name: str | None = None) -> PreparedRun:
    """Plan the rollouts, unless `plan` is given, and find out what they depend on: fingerprints, tools, the model's origin."""
    plan = plan or plan_run(env, config)
    facts = await gather_facts(env, config, plan)
    differences = await anyio.to_thread.run_sync(setting_differences, config.model, facts, env.name)
    return PreparedRun(env=env, config=config, plan=plan, facts=facts, tasks=plan.tasks, differences=differences, name=name)


def name_of(env: Environment, config: RunConfig, prints: Fingerprints) -> str:
    """A folder name for a run: the same for the same command on the same environment."""
    model = "".join(char if char.isalnum() else "-" for char in config.model.spec.split("@")[0])[:40].strip("-")
    return f"{env.name}-{model}-{run_digest(config, prints)}"


def find_directory(runs: Path, prepared: PreparedRun) -> Path:
    """The directory of the unfinished run of the same command, or else the next free name below `runs`."""
    stem = name_of(prepared.env, prepared.config, prepared.facts.prints)
    for number in range(1, 10_000):
        path = runs / f"{stem}-{number}"
        if not path.exists() or not Run(path).finished:
            return path
    raise ConfigError(f"`{runs}` holds 9,999 finished runs of this command; move some away")


def manifest_of(prepared: PreparedRun, path: Path) -> Manifest:
    """The manifest of a new run, or the stored one of the run at `path`; `ConfigError` if that is another run."""
    env, config, plan, facts = prepared.env, prepared.config, prepared.plan, prepared.facts
    if (path / "manifest.json").exists():
        begun = Run(path).manifest
        if begun.digest != run_digest(config, facts.prints):
            raise ConfigError(f"`{path}` was begun with another {_changes(begun, config, facts)}; start a new run")
        return begun
    return Manifest(
        run=path.name,
        config=public_config(config),
        digest=run_digest(config, facts.prints),
        environment=env.name,
        seed=env.seed,
        source=str(env.source or ""),
        fingerprints=facts.prints,
        num_rollouts=plan.num_rollouts,
        created=time.time(),
        machine=machine_facts(),
        limits=env.limits,
        task_limits={task.id: task.limits for task in plan.tasks if task.limits},
        overridden_limits=overridden_limits(env, plan.tasks),
        reported_checks=_reported_checks(env, config, plan),
        tools=facts.tools,
        seats=tuple(seat.name for seat in env.seats),
        other_setting=prepared.differences if config.other_setting else (),
        image=facts.image,
    )


def _reported_checks(env: Environment, config: RunConfig, plan: RunPlan) -> tuple[str, ...]:
    if config.agent.harness != "command" or env.marked.grade is not None:
        return ()
    checks = [check.id for task in plan.tasks for check in reported_checks(rubric_for(env, task, config.rubric))]
    return tuple(dict.fromkeys(checks))


def _changes(begun: Manifest, config: RunConfig, facts: RunFacts) -> str:
    """The names of what differs from a run that was begun."""
    from sandlot.sandbox.images.difference import image_difference  # noqa: PLC0415 - only this refusal needs it

    prints, public = facts.prints, public_config(config)
    fields = [name for name in config.__struct_fields__ if getattr(begun.config, name) != getattr(public, name)]
    changed = [name for name in prints.__struct_fields__ if getattr(begun.fingerprints, name) != getattr(prints, name)]
    moved = image_difference(begun.image, facts.image) if begun.image else ""
    return " and ".join(
        dict.fromkeys([*fields, *(f"{name} (its fingerprint differs)" for name in changed), *([moved] if moved else [])])
    )
