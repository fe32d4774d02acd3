"""A run, from config to a directory full of graded traces. This is what `sandlot run` and `sandlot.run` call.

Read `run_config` first: prepare, find or make the directory, open the collector, collect, note how the sitting went. The same
command finds the same unfinished directory again, so repeating it continues a run that was killed. It also continues a run that
the breaker stopped: failed rollouts are set aside and taken again, and the breaker counts anew.
"""

import inspect
import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskStatus

from sandlot.core.concurrency.blocking import blocking
from sandlot.core.concurrency.garbage import paced_collections
from sandlot.core.errors import ConfigError, HarnessError
from sandlot.core.trace import Usage
from sandlot.core.types import Split
from sandlot.env.environment import Environment
from sandlot.env.load import load
from sandlot.model.wire.server_load import load_of
from sandlot.observe.events import Sink, fan_out, ignore_event
from sandlot.observe.lag import LoopWatch
from sandlot.run.admission_watch import AdmissionWatch, watch_admission
from sandlot.run.collector import Collection, Collector, open_collector, stopped_by_signals
from sandlot.run.config import RunConfig, RunPlan, Selection, read_config, run_config_of, split_named
from sandlot.run.prepare import PreparedRun, find_directory, prepare_run
from sandlot.run.results import Run, Sitting, note_sitting
from sandlot.run.slots import Room, Slots
from sandlot.run.trained import require_same_setting
from sandlot.wiring.config import AgentConfig, ModelConfig
from sandlot.wiring.models import open_policies

_WORTH_REPORTING_S = 0.5
"""A function that held the loop this long is named in the summary; shorter waits are normal on a busy machine."""


async def run_config(
    config: RunConfig,
    *,
    env: Environment | None = None,
    runs: Path = Path("runs"),
    place: Path | None = None,
    sink: Sink = ignore_event,
    approve: bool = False,
    more: Callable[[Sink], RunPlan | None] = lambda _sink: None,
    on: str = "local",
) -> Run:
    """Run inside an event loop: take every planned rollout that is not stored yet, and return the run.

    - `config`: the whole configuration, as `sandlot run --dry-run` prints it.
    - `env`: the environment, if it is already loaded. Default: load `config.env`.
    - `runs`: the folder for run directories.
    - `place`: the run directory itself. Default: found below `runs`.
    - `sink`: receives the run's events.
    - `approve`: turns that the environment holds (`env.hold`) wait for a person.
    - `more`: is called with the run's sink when everything planned is stored; returns a larger plan, or None to end.
    - `on`: where rollouts are taken: `local`, `processes:N`, `ray`, or `workers:HOST:PORT`.
    """
    prepared = await _prepare(config, env)
    collection = Collection()
    room = Room(config.at_once, adapt=config.adapts)
    async with stopped_by_signals(collection), watch_admission(room) as watch:
        path, slots = place or find_directory(runs, prepared), Slots(config.at_once, room=room)
        return await _sit(prepared, path, collection, slots, watch, sink=sink, approve=approve, more=more, on=on)


async def run_together(
    configs: Sequence[RunConfig],
    *,
    weights: Sequence[float] | None = None,
    envs: Sequence[Environment | None] | None = None,
    runs: Path = Path("runs"),
    sinks: Sequence[Sink] | None = None,
    on: str = "local",
) -> list[Run]:
    """Several runs at once, each in its own directory, in one room for rollouts in flight: the largest `at_once` of them.

    The room is divided by what each run still needs, times its weight (`schedule/shares.py`), and an engine that several of them
    use is started once. The room adapts if all of them ask for it. A run that is refused, before anything starts, refuses all;
    one that breaks later leaves the others alone, and its error is raised when they have ended.
    """
    prepared = [await _prepare(config, env) for config, env in zip(configs, envs or [None] * len(configs), strict=True)]
    paths = [find_directory(runs, each) for each in prepared]
    _require_different(paths)
    room = Room(max(config.at_once for config in configs), adapt=all(config.adapts for config in configs))
    slots = [Slots(room.at_once, room=room, weight=weight) for weight in weights or [1.0] * len(configs)]
    collections = [Collection() for _ in configs]
    errors: list[Exception] = []

    async def one(number: int, *, task_status: TaskStatus[None]) -> None:
        sink = sinks[number] if sinks is not None else ignore_event
        try:
            place, opened = slots[number], task_status.started
            await _sit(prepared[number], paths[number], collections[number], place, watch, sink=sink, opened=opened, on=on)
        except Exception as error:  # noqa: BLE001 - raised when the others have ended
            errors.append(error)
            with suppress(RuntimeError):  # it broke after it was open
                task_status.started()

    async with stopped_by_signals(*collections), watch_admission(room) as watch, anyio.create_task_group() as group:
        for number in range(len(configs)):
            await group.start(one, number)  # one after the other: the first opens the engine that the others share
    if errors:
        raise errors[0]
    return [Run(path) for path in paths]


def _require_different(paths: Sequence[Path]) -> None:
    twice = next((path for number, path in enumerate(paths) if path in paths[:number]), None)
    if twice is not None:
        raise ConfigError(f"two of the runs are the same, `{twice.name}`; leave one out")


async def _prepare(config: RunConfig, env: Environment | None) -> PreparedRun:
    prepared = await prepare_run((env or load(config.env)).in_image(config.image), config)
    require_same_setting(config.model, prepared.differences, named=config.other_setting)
    return prepared


async def _sit(  # noqa: PLR0913 - what a sitting may differ in, all by keyword
    prepared: PreparedRun,
    path: Path,
    collection: Collection,
    slots: Slots,
    watch: AdmissionWatch | None,
    *,
    sink: Sink,
    approve: bool = False,
    more: Callable[[Sink], RunPlan | None] = lambda _sink: None,
    opened: Callable[[], None] = lambda: None,
    on: str = "local",
) -> Run:
    """One sitting of a run: open it, collect until nothing is missing or it is stopped, and note how that went.

    `opened` is called when everything is open.
    """
    config = prepared.config
    started_s, cpu_s = time.monotonic(), cpu_seconds()
    lag = LoopWatch()
    is_open = False
    sink = fan_out(watch.receive, sink) if watch is not None else sink
    policies = open_policies(config.model, config.agent, prepared.env, _spent(path))
    with collection.until_stopped() as opening:
        async with (
            open_collector(
                prepared, path, policies=policies, collection=collection, sink=sink, approve=approve, slots=slots, on=on
            ) as collector,
            lag,
        ):
            is_open = True
            opened()
            lag.report_to(collector.sink)
            collection.release(opening)
            wanted: RunPlan | None = prepared.plan
            with paced_collections(), _joined(watch, collector, on):  # when all is open: what is there now stays
                while wanted is not None and collection.stopped is None:
                    await collector.collect(wanted)
                    wanted = more(collector.sink) if collection.stopped is None else None
            loop = lag.report()
            sitting = Sitting(
                wall_s=time.monotonic() - started_s,
                cpu_s=cpu_seconds() - cpu_s,
                stopped=collection.stopped,
                tripped=collection.tripped,
                num_cancelled=collection.num_cancelled,
                examples=collection.examples,
                lag_p99_s=loop.p99_s,
                blocked_by=loop.blocked_by(_WORTH_REPORTING_S),
                on=on,
                admission=watch.record() if watch is not None else None,
            )
            note_sitting(path, sitting)  # before the lock is released: who sees that the run has ended finds how
    if not is_open:  # stopped while opening, such as loading a model: nothing has been taken
        raise HarnessError(str(collection.stopped)) if collection.tripped else KeyboardInterrupt(collection.stopped)
    return Run(path)


def _joined(watch: AdmissionWatch | None, collector: Collector, on: str) -> AbstractContextManager[None]:
    """The run is in the room that is watched, if one is."""
    if watch is None:
        return nullcontext()
    prepared, parts = collector.prepared, collector.parts
    return watch.joined(
        collector.name,
        collector.sink,
        sandboxed=prepared.env.image is not None,
        here=on.partition(":")[0] in {"local", "processes"},
        model=prepared.config.model.spec,
        load=load_of(parts.policies) if parts is not None else None,
    )


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
    adapt: bool = False,
    user: str | ModelConfig | None = None,
    judge: str | ModelConfig | None = None,
    rubric: str | None = None,
    agent: AgentConfig | None = None,
    seed: int | None = None,
    seats: Mapping[str, str | ModelConfig] | None = None,
    config: RunConfig | str | Path | None = None,
    other_setting: bool = False,
    runs: str | Path = "runs",
    sink: Sink = ignore_event,
    on: str = "local",
) -> Run:
    """Run an environment with a model, store every rollout, and return the `Run`.

    The same call continues an interrupted run; after a finished run it starts a new one. `run` blocks until the run has ended,
    also inside a running event loop (a notebook); there, `await run_async(...)` does not block. Ctrl-C stops both in order.

    - `env`: a path, an installed name, or an `Environment`.
    - `model`: as for `--model`: `scripted:golden`, `smollm2`, `openai:NAME@URL`, ...; a `ModelConfig` sets sampling too.
    - `rollouts`: the number of rollouts, spread evenly over the tasks.
    - `group`: rollouts per task. Default: 1. Give `rollouts` or `group`, not both.
    - `tasks`, `split`: ids of the tasks to run, or only those of a split, `train` or `heldout`. Default: all.
    - `image`: run in a sandbox of this image instead of the environment's own.
    - `sandbox`: `native`, `docker` or `docker:SOCKET`.
    - `at_once`, `adapt`: rollouts in flight; with `adapt`, at most so many: as many as model, judge and machine can take.
    - `user`: the model that plays the environment's user.
    - `judge`: the model for judge checks.
    - `rubric`: grade by this rubric instead of the tasks' own.
    - `agent`: another harness or agent command.
    - `seed`: the seed of sampling. Default: another one in each run.
    - `seats`: where several agents act, models of single seats by name; `model` plays the others.
    - `other_setting`: allow another setting than the one the model was trained in; without this, it is refused.
    - `config`: a whole run, a `RunConfig` or the JSON file that `--dry-run` prints; beside it only `env`, `runs`, `sink`, `on`.
    - `runs`: the folder for run directories.
    - `sink`: receives the run's events, as a function of one argument.
    - `on`: where rollouts are taken: `local`, this process, `processes:N`, `ray`, or `workers:HOST:PORT`, where workers join.

    ```python
    import sandlot

    assert sandlot.run("arithmetic", "scripted:golden", split="heldout", rollouts=8).summary().pass_rate.value == 1.0
    ```
    """
    given = {"model": model, "rollouts": rollouts, "group": group, "tasks": tuple(tasks), "split": split, "image": image}
    given |= {"sandbox": sandbox, "at_once": at_once, "user": user, "judge": judge, "rubric": rubric, "agent": agent}
    given |= {"adapt": adapt, "seed": seed, "other_setting": other_setting, "seats": seats}
    environment = load(env) if env is not None else None
    return await run_config(_config_of(environment, config, given), env=environment, runs=Path(runs), sink=sink, on=on)


def _config_of(env: Environment | None, config: RunConfig | str | Path | None, given: dict[str, Any]) -> RunConfig:
    """The whole run that the arguments of `run` describe; refuses `config` with anything beside it."""
    if config is not None:
        defaults = inspect.signature(run_async).parameters
        beside = [name for name, value in given.items() if value != defaults[name].default]
        if beside:
            raise ConfigError(f"`config` is a whole run, so `{beside[0]}` cannot be given too; change it in the config")
        return config if isinstance(config, RunConfig) else read_config(Path(config))
    if env is None or given["model"] is None:
        raise ConfigError("nothing to run: give an environment and a model, or `config=`")
    select = Selection(tasks=given["tasks"], split=split_named(given["split"]), rollouts=given["rollouts"], group=given["group"])
    selected = {"rollouts", "group", "tasks", "split"}
    others = {name: value for name, value in given.items() if name not in selected}
    others["adapt"] = given["adapt"] or msgspec.UNSET
    return run_config_of(env, select=select, **others)


run = blocking("run", run_async)


def _spent(path: Path) -> Usage | None:
    """What earlier sittings of this run have cost."""
    return Run(path).spent() if (path / "manifest.json").exists() else None


def cpu_seconds() -> float:
    """CPU seconds of this process and of all that it started, ended ones included."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    living = sum(map(_ticks, _started(os.getpid()))) / os.sysconf("SC_CLK_TCK")
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) + living


def _started(pid: int) -> Iterator[int]:
    """The living processes below one."""
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # it has ended meanwhile
            for child in map(int, file.read_text().split()):
                yield child
                yield from _started(child)


def _ticks(pid: int) -> int:
    """CPU time of a process and of the children it has waited for."""
    with suppress(OSError):
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return 0
