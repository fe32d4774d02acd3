"""A run, from config to a directory full of graded traces. This is what `sandlot run` and `sandlot.run` call.

The main road is `run_config`: load, plan, find or make the directory, open the parts, collect, sum up. The same command finds the
same unfinished directory again, so a run that was killed is continued by repeating it. So is a run that the breaker stopped: then
what failed is set aside and taken again, and the breaker counts anew.
"""

import inspect
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from sandlot.core.concurrency.blocking import blocking
from sandlot.core.errors import ConfigError
from sandlot.core.trace import TraceRow, Usage
from sandlot.core.types import Split
from sandlot.env.environment import Environment
from sandlot.env.image import image_changes
from sandlot.env.load import load
from sandlot.observe.lag import LagReport, LoopWatch
from sandlot.run.breaker import Breaker
from sandlot.run.collect import Collection, collect, stopped_by_signals
from sandlot.run.config import RunConfig, RunPlan, Selection, plan_run, read_config, run_config_of, split_named
from sandlot.run.manifest import Fingerprints, Manifest, RunFacts, gather_facts, machine_facts, public_config, run_digest
from sandlot.run.results import Run, Sitting, note_sitting
from sandlot.run.trained import require_same_setting, setting_differences
from sandlot.store.directory import open_run
from sandlot.wiring.config import AgentConfig, ModelConfig
from sandlot.wiring.parts import open_grading, open_parts

_POOL = 16
"""Sandboxes kept ready for the next rollouts."""

_WORTH_TELLING_S = 0.5
"""A function that held the loop this long is named in the summary; shorter waits a busy machine causes by itself."""

JUDGE_CACHE = ".judge"
"""Below the folder of runs: a verdict once given is not paid for again, by whatever run."""


async def run_config(
    config: RunConfig,
    *,
    env: Environment | None = None,
    runs: Path = Path("runs"),
    place: Path | None = None,
    watch: "Watcher | None" = None,
    more: Callable[[], RunPlan | None] = lambda: None,
) -> Run:
    """Run inside an event loop: take every planned rollout that is not stored yet, and return the run.

    - `config`: the whole configuration, as `sandlot run --dry-run` prints it.
    - `env`: the environment, if it is already loaded; otherwise `config.env` is.
    - `runs`: the folder for run directories.
    - `place`: the run directory itself. Default: found below `runs`.
    - `watch`: is called with the plan and with every finished rollout.
    - `more`: is called when everything planned is stored; returns a larger plan, or None to end.

    ```python
    import anyio
    from sandlot import run_async
    from sandlot.run.config import RunConfig, Selection
    from sandlot.wiring.config import ModelConfig


    async def main() -> None:
        model = ModelConfig(spec="scripted:golden")
        run = await run_async(RunConfig(env="environments/arithmetic", model=model, select=Selection(rollouts=4)))
        assert len(run) == 4


    anyio.run(main)
    ```
    """
    environment = (env or load(config.env)).in_image(config.image)
    plan = plan_run(environment, config)
    facts = await gather_facts(environment, config, plan)
    elsewhere = await anyio.to_thread.run_sync(setting_differences, config.model, facts, environment.name)
    require_same_setting(config.model, elsewhere, named=config.other_setting)
    path = place or _find_directory(runs, environment, config, facts.prints)
    manifest = _manifest(path, environment, config, plan, facts, elsewhere)
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
                pool=min(config.at_once, _POOL),
                cache=path.parent / JUDGE_CACHE,
            ) as grading,
            # Before the directory: a model that is refused leaves no empty run behind.
            open_parts(grading, config.model, config.agent, user=config.user, spent=_spent(path)) as parts,
            open_run(path, manifest=msgspec.json.format(msgspec.json.encode(manifest), indent=2), retake=_retaken(path)) as store,
            lag,
        ):
            collection.opening = None
            watcher.begin(path, plan, len(store.done_keys()))
            breaker = Breaker(num_tasks=len(plan.tasks))
            wanted: RunPlan | None = plan
            while wanted is not None and collection.stopped is None:
                await collect(
                    wanted,
                    parts if config.seed is None else replace(parts, draws=f"seed-{config.seed}"),
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

    def begin(self, path: Path, plan: RunPlan, num_done: int) -> None:
        """The run is about to start, or to continue."""

    def note(self, row: TraceRow) -> None:
        """One more rollout is on disk."""


async def run_async(  # noqa: PLR0913 - the everyday fields of a run, all by keyword
    env: str | Path | Environment | None = None,
    model: str | ModelConfig | None = None,
    *,
    rollouts: int | None = None,
    group: int | None = None,
    tasks: tuple[str, ...] = (),
    split: Split | str | None = None,
    image: str | None = None,
    sandbox: str = "native",
    at_once: int = 64,
    user: str | ModelConfig | None = None,
    judge: str | ModelConfig | None = None,
    rubric: str | None = None,
    agent: AgentConfig | None = None,
    seed: int | None = None,
    config: RunConfig | str | Path | None = None,
    other_setting: bool = False,
    runs: str | Path = "runs",
) -> Run:
    """Run an environment with a model, store every rollout, and return the `Run`.

    The same call continues a run that was interrupted; a finished run is followed by a new one. `run` blocks until the
    run has ended, also where an event loop is running (a notebook); there `await run_async(...)` keeps the loop free. Ctrl-C
    stops either in order.

    - `env`: a path, an installed name, or an `Environment`.
    - `model`: as for `--model`: `scripted:golden`, `smollm2`, `openai:NAME@URL`, ...; a `ModelConfig` sets sampling too.
    - `rollouts`: the number of rollouts, spread evenly over the tasks.
    - `group`: the number of rollouts of each task. Default: 1. Give `rollouts` or `group`, not both.
    - `tasks`: ids of the tasks to run. Default: all.
    - `split`: `train` or `heldout`; only tasks of this split.
    - `image`: run in a sandbox of this image instead of the environment's own.
    - `sandbox`: `native`, `docker` or `docker:SOCKET`.
    - `at_once`: rollouts in flight.
    - `user`: the model that plays the environment's user.
    - `judge`: the model for judge checks.
    - `rubric`: grade by this rubric instead of the tasks' own.
    - `agent`: another harness or agent command.
    - `seed`: models draw as in any other run with this seed. Default: new draws in each run.
    - `other_setting`: measure a model in another setting than the one it was trained in, which is refused otherwise.
    - `config`: a whole run in one: a `RunConfig`, or a JSON file as `sandlot run --dry-run` prints it. Then give nothing else but
      `env` (an `Environment` object) and `runs`.
    - `runs`: the folder for run directories.

    ```python
    import sandlot

    run = sandlot.run("environments/arithmetic", "scripted:golden", split="heldout", rollouts=8)
    assert run.summary().pass_rate.value == 1.0
    ```
    """
    environment = load(env) if env is not None else None
    if config is not None:
        beside = {"model": model, "rollouts": rollouts, "group": group, "tasks": tuple(tasks), "split": split, "image": image}
        beside |= {"sandbox": sandbox, "at_once": at_once, "user": user, "judge": judge, "rubric": rubric, "agent": agent}
        beside |= {"seed": seed, "other_setting": other_setting}
        defaults = inspect.signature(run_async).parameters
        given = [name for name, value in beside.items() if value != defaults[name].default]
        if given:
            raise ConfigError(f"`config` is a whole run, and `{given[0]}` is given beside it; change it in the config instead")
        whole = config if isinstance(config, RunConfig) else read_config(Path(config))
        return await run_config(whole, env=environment, runs=Path(runs))
    if environment is None or model is None:
        raise ConfigError("nothing to run: give an environment and a model, or `config=`")
    whole = run_config_of(
        environment,
        model,
        select=Selection(tasks=tuple(tasks), split=split_named(split), rollouts=rollouts, group=group),
        agent=agent,
        user=user,
        judge=judge,
        rubric=rubric,
        image=image,
        sandbox=sandbox,
        at_once=at_once,
        seed=seed,
        other_setting=other_setting,
    )
    return await run_config(whole, env=environment, runs=Path(runs))


run = blocking("run", run_async)


def _find_directory(runs: Path, env: Environment, config: RunConfig, prints: Fingerprints) -> Path:
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


async def manifest_of(path: Path, env: Environment, config: RunConfig, plan: RunPlan, facts: RunFacts | None = None) -> bytes:
    """What is written down before a run begins, or was when it began; `ConfigError` if that was something else."""
    facts = facts or await gather_facts(env, config, plan)
    return msgspec.json.format(msgspec.json.encode(_manifest(path, env, config, plan, facts)), indent=2)


def _manifest(
    path: Path, env: Environment, config: RunConfig, plan: RunPlan, facts: RunFacts, elsewhere: tuple[str, ...] = ()
) -> Manifest:
    """A new run's manifest, or the one it began with, if that is still what would be run."""
    prints = facts.prints
    if (path / "manifest.json").exists():
        begun = Run(path).manifest
        if begun.digest != run_digest(config, prints):
            raise ConfigError(f"`{path}` was begun with another {_differences(begun, config, facts)}; start a new run")
        return begun
    return Manifest(
        run=path.name,
        config=public_config(config),
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
        other_setting=elsewhere,
        image=facts.image,
    )


def _differences(begun: Manifest, config: RunConfig, facts: RunFacts) -> str:
    """What a command would change about a run that was begun."""
    prints = facts.prints
    fields = [name for name in config.__struct_fields__ if getattr(begun.config, name) != getattr(public_config(config), name)]
    changed = [name for name in prints.__struct_fields__ if getattr(begun.fingerprints, name) != getattr(prints, name)]
    moved = image_changes(begun.image, facts.image) if begun.image else ""
    return " and ".join(
        dict.fromkeys([*fields, *(f"{name} (its fingerprint differs)" for name in changed), *([moved] if moved else [])])
    )


def _retaken(path: Path) -> Callable[[TraceRow], bool] | None:
    """Of a run that was stopped as bad: what failed, to be taken again. What was wrong may have been repaired since."""
    stopped = (path / "manifest.json").exists() and Run(path).verdict == "stopped"
    return (lambda row: row.outcome == "failed") if stopped else None


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
        blocked_by=lag.blocked_by(_WORTH_TELLING_S),
    )


def cpu_seconds() -> float:
    """CPU seconds of this process and of the children it has waited for."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
