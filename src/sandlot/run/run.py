"""A run, from config to a directory full of graded traces. This is what `sandlot run` and `sandlot.run` call.

The main road is `run_async`: load, plan, find or make the directory, open the parts, collect, sum up. The same command finds the
same unfinished directory again, so a run that was killed is continued by repeating it.
"""

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec

from sandlot.env.environment import Environment
from sandlot.env.image import image_moved
from sandlot.env.load import load
from sandlot.errors import ConfigError
from sandlot.observe.lag import LagReport, LoopWatch
from sandlot.run.breaker import Breaker
from sandlot.run.collect import Collection, collect, stopped_by_signals
from sandlot.run.config import Plan, RunConfig, Selection, plan_run
from sandlot.run.manifest import Facts, Fingerprints, Manifest, facts_of, machine_facts, public, run_digest
from sandlot.run.results import Run, Sitting, note_sitting
from sandlot.store.directory import open_run
from sandlot.store.reader import RunReader
from sandlot.trace import TraceRow, Usage
from sandlot.wiring.parts import AgentConfig, ModelConfig, open_grading, open_parts, user_config

POOL = 16
"""Sandboxes kept ready for the next rollouts."""

WORTH_TELLING_S = 0.5
"""A function that held the loop this long is named in the summary; shorter waits a busy machine causes by itself."""

JUDGE_CACHE = ".judge"
"""Below the folder of runs: a verdict once given is not paid for again, by whatever run."""


async def run_async(
    config: RunConfig,
    *,
    env: Environment | None = None,
    runs: Path = Path("runs"),
    place: Path | None = None,
    watch: "Watcher | None" = None,
    more: Callable[[], Plan | None] = lambda: None,
) -> Run:
    """Take every rollout of a run that is not there yet, and give back the run.

    `more` is asked whenever everything planned so far is on disk: which rollouts there should be in all, or None to end.
    """
    environment = (env or load(config.env)).in_image(config.image)
    plan = plan_run(environment, config)
    facts = await facts_of(environment, config, plan)
    path = place or find_directory(runs, environment, config, facts.prints)
    manifest = _manifest(path, environment, config, plan, facts)
    watcher = watch or Watcher()
    started_s, cpu_s = time.monotonic(), cpu_seconds()
    collection = Collection()
    lag = LoopWatch()
    opening = collection.opening = anyio.CancelScope()
    with opening:
        async with (
            stopped_by_signals(collection),
            open_grading(
                environment,
                judge=config.judge,
                rubric=config.rubric,
                sandbox=config.sandbox,
                pool=min(config.at_once, POOL),
                cache=path.parent / JUDGE_CACHE,
            ) as grading,
            # Before the directory: a model that is refused leaves no empty run behind.
            open_parts(grading, config.model, config.agent, user=config.user, spent=_spent(path)) as parts,
            open_run(path, manifest=msgspec.json.format(msgspec.json.encode(manifest), indent=2)) as store,
            lag,
        ):
            collection.opening = None
            watcher.begin(path, plan, len(store.done_keys()))
            breaker = Breaker()
            breaker.resume(RunReader(path).rows() if store.done_keys() else ())
            wanted: Plan | None = plan
            while wanted is not None and collection.stopped is None:
                await collect(
                    wanted,
                    parts,
                    store,
                    collection=collection,
                    run=manifest.run,
                    at_once=config.at_once,
                    attempts=config.attempts,
                    breaker=breaker,
                    watch=watcher.note,
                )
                wanted = more() if collection.stopped is None else None
    if collection.opening is not None:
        raise KeyboardInterrupt(collection.stopped)  # while the model was loaded, for one: nothing has been taken yet
    # After everything is closed: what the sandboxes' processes used is known when they have been waited for.
    note_sitting(path, _sitting(collection, wall_s=time.monotonic() - started_s, cpu_s=cpu_seconds() - cpu_s, lag=lag.report()))
    return Run(path)


class Watcher:
    """Sees a run go on; the command line draws it."""

    def begin(self, path: Path, plan: Plan, num_done: int) -> None:
        """The run is about to start, or to continue."""

    def note(self, row: TraceRow) -> None:
        """One more rollout is on disk."""


def run(  # noqa: PLR0913 - the everyday fields of a run, all by keyword
    env: str | Path | Environment,
    model: str | ModelConfig,
    *,
    rollouts: int | None = None,
    group: int | None = None,
    tasks: tuple[str, ...] = (),
    split: Any = None,
    image: str | None = None,
    sandbox: str = "native",
    at_once: int = 64,
    user: str | ModelConfig | None = None,
    judge: str | ModelConfig | None = None,
    rubric: str | None = None,
    agent: AgentConfig | None = None,
    runs: str | Path = "runs",
) -> Run:
    """Run an environment with a model and return the `Run`. Inside an event loop, await `run_async` instead."""
    environment = load(env)
    config = RunConfig(
        env=str(environment.source or environment.name),
        model=_model(model),
        select=Selection(tasks=tuple(tasks), split=split, rollouts=rollouts, group=group),
        agent=agent or AgentConfig(),
        user=user_config(user) if isinstance(user, str) else user,
        judge=_model(judge) if judge else None,
        rubric=rubric,
        image=image,
        sandbox=sandbox,
        at_once=at_once,
    )

    async def go() -> Run:
        return await run_async(config, env=environment, runs=Path(runs))

    return anyio.run(go)


def find_directory(runs: Path, env: Environment, config: RunConfig, prints: Fingerprints) -> Path:
    """The unfinished run of the same command, else the next free name."""
    stem = name_of(env, config, prints)
    for number in range(1, 10_000):
        path = runs / f"{stem}-{number}"
        if not path.exists() or not Run(path).finished:
            return path
    raise ConfigError(f"`{runs}` holds 9,999 finished runs of this command; move some away")


def name_of(env: Environment, config: RunConfig, prints: Fingerprints) -> str:
    """What is run, in a word fit for a folder: the same for the same command."""
    model = "".join(char if char.isalnum() else "-" for char in config.model.spec.split("@")[0])[:40].strip("-")
    return f"{env.name}-{model}-{run_digest(config, prints)}"


async def manifest_of(path: Path, env: Environment, config: RunConfig, plan: Plan) -> bytes:
    """What is written down before a run begins, or was when it began; `ConfigError` if that was something else."""
    facts = await facts_of(env, config, plan)
    return msgspec.json.format(msgspec.json.encode(_manifest(path, env, config, plan, facts)), indent=2)


def _manifest(path: Path, env: Environment, config: RunConfig, plan: Plan, facts: Facts) -> Manifest:
    """A new run's manifest, or the one it began with, if that is still what would be run."""
    prints = facts.prints
    if (path / "manifest.json").exists():
        begun = Run(path).manifest
        if begun.digest != run_digest(config, prints):
            raise ConfigError(f"`{path}` was begun with another {_differences(begun, config, facts)}; start a new run")
        return begun
    return Manifest(
        run=path.name,
        config=public(config),
        digest=run_digest(config, prints),
        environment=env.name,
        seed=env.seed,
        source=str(env.source or ""),
        fingerprints=prints,
        num_rollouts=plan.num_rollouts,
        created=time.time(),
        machine=machine_facts(),
        limits=env.limits,
        task_limits={task.id: task.limits for task in plan.tasks if task.limits},
        tools=facts.tools,
        image=facts.image,
    )


def _differences(begun: Manifest, config: RunConfig, facts: Facts) -> str:
    """What a command would change about a run that was begun."""
    prints = facts.prints
    fields = [name for name in config.__struct_fields__ if getattr(begun.config, name) != getattr(public(config), name)]
    changed = [name for name in prints.__struct_fields__ if getattr(begun.fingerprints, name) != getattr(prints, name)]
    moved = image_moved(begun.image, facts.image) if begun.image else ""
    return " and ".join(
        dict.fromkeys([*fields, *(f"{name} (its fingerprint differs)" for name in changed), *([moved] if moved else [])])
    )


def _spent(path: Path) -> Usage | None:
    """What earlier sittings of this run have cost."""
    return Run(path).spent() if (path / "manifest.json").exists() else None


def _sitting(collection: Collection, *, wall_s: float, cpu_s: float, lag: LagReport) -> Sitting:
    return Sitting(
        wall_s=wall_s,
        cpu_s=cpu_s,
        stopped=collection.stopped,
        tripped=collection.tripped,
        num_cancelled=collection.num_cancelled,
        examples=collection.examples,
        lag_p99_s=lag.p99_s,
        blocked_by=lag.blocked_by(WORTH_TELLING_S),
    )


def _model(model: str | ModelConfig) -> ModelConfig:
    return ModelConfig(spec=model) if isinstance(model, str) else model


def cpu_seconds() -> float:
    """CPU seconds of this process and of the children it has waited for."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
