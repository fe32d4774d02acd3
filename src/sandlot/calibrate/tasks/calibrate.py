"""Calibration, from config to `calibration.json`. This is what `sandlot calibrate` calls.

Read `calibrate_config` first: choose the tasks, find the directory, take rollouts until every task is placed, sum up. The
rollouts are an ordinary run. The band and the confidence are not part of its name, so another band reuses its rollouts.
"""

from pathlib import Path

import anyio
import msgspec

from sandlot.calibrate.tasks.calibration import CURRICULUM_FILE, FILE, Calibration, Errors, Known, errors_of, summarise
from sandlot.calibrate.tasks.rates import rates_over
from sandlot.calibrate.tasks.rule import UNKNOWN, Rule
from sandlot.calibrate.tasks.state import CalibrationState, Family, by_tags
from sandlot.core.concurrency.blocking import blocking
from sandlot.core.disk import write_file
from sandlot.core.errors import ConfigError, HarnessError
from sandlot.core.types import Split
from sandlot.env.environment import Environment
from sandlot.env.load import load
from sandlot.observe.events import CalibrationWave, RolloutEnded, RunBegan, RunEvent, Sink, fan_out, ignore_event
from sandlot.run.config import RunConfig, RunPlan, Selection, plan_run, run_config_of, split_named
from sandlot.run.forecast import Forecast, forecast_run
from sandlot.run.manifest import gather_facts
from sandlot.run.prepare import name_of
from sandlot.run.results import Run
from sandlot.run.run import run_config
from sandlot.store.reader import RunReader
from sandlot.wiring.config import AgentConfig, ModelConfig


class CalibrationConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of a calibration."""

    run: RunConfig
    """The environment, the model and how it is run; the rule decides how many rollouts each task gets."""
    rule: Rule = Rule()
    """The band, and the confidence to place a task."""
    budget: int | None = None
    """Maximum number of rollouts; None for as many as the rule needs."""
    group: int = 8
    """Rollouts per group in training, for the expected share of groups with a training signal."""
    families: tuple[str, ...] = ()
    """Tags that name families of tasks; empty: each task's first tag."""

    def __post_init__(self) -> None:
        if self.group < 2:
            raise ConfigError(f"group is {self.group}; give 2 or more: the rollouts of a group are compared with each other")

    @property
    def opening(self) -> RunConfig:
        """The run at the beginning: the rule's start for every task, held-out tasks only if selected."""
        select = self.run.select
        split = select.split or (None if select.tasks else Split.TRAIN)
        first = Selection(tasks=select.tasks, split=split, group=self.rule.start)
        return msgspec.structs.replace(self.run, select=first)


async def calibrate_config(
    config: CalibrationConfig,
    *,
    env: Environment | None = None,
    runs: Path = Path("runs"),
    place: Path | None = None,
    family: Family | None = None,
    sink: Sink = ignore_event,
) -> Calibration:
    """Take rollouts until every task is placed, and write `calibration.json` and `curriculum.json` into the run directory.

    `sink` receives the run's events, and `CalibrationWave` whenever the next rollouts were chosen.
    """
    environment = env or load(config.run.env)
    plan = opening_plan(config, environment)
    path = place or await _find_directory(config, environment, plan, runs)
    state = CalibrationState(
        config.rule,
        plan.tasks,
        family or by_tags(*config.families),
        budget=config.budget,
        at_once=config.run.at_once,
    )
    steering = _Steering(state)
    both = fan_out(steering.receive, sink)
    run = await run_config(config.opening, env=environment, place=path, sink=both, more=steering.plan_more)
    return await anyio.to_thread.run_sync(_write_calibration, config, state, run)


async def calibrate_async(  # noqa: PLR0913 - the everyday fields of a calibration, all by keyword
    env: str | Path | Environment | None = None,
    model: str | ModelConfig | None = None,
    *,
    band: tuple[float, float] = (0.2, 0.5),
    confidence: float = 0.9,
    budget: int | None = None,
    tasks: tuple[str, ...] = (),
    split: Split | str | None = None,
    image: str | None = None,
    sandbox: str = "native",
    at_once: int = 64,
    user: str | ModelConfig | None = None,
    judge: str | ModelConfig | None = None,
    rubric: str | None = None,
    agent: AgentConfig | None = None,
    config: CalibrationConfig | None = None,
    runs: str | Path = "runs",
    sink: Sink = ignore_event,
) -> Calibration:
    """Measure how often a model passes each task, and return the `Calibration`: which tasks are too hard, in the band, too easy.

    It takes as few rollouts as the answer needs, and writes `calibration.json` and `curriculum.json` into the run directory. The
    same call continues a calibration that was interrupted; another band reuses the rollouts that are there.

    - `env`: a path, an installed name, or an `Environment`.
    - `model`: as for `--model`: `scripted:golden`, `smollm2`, `openai:NAME@URL`, ...; a `ModelConfig` sets sampling too.
    - `band`: the lowest and the highest pass rate worth training on.
    - `confidence`: how sure a task's place must be.
    - `budget`: maximum number of rollouts. Default: as many as it takes.
    - `tasks`: ids of the tasks to place. Default: all training tasks.
    - `split`: `train` or `heldout`; only tasks of this split.
    - `image`, `sandbox`, `at_once`, `user`, `judge`, `rubric`, `agent`: as for `sandlot.run`.
    - `config`: a whole `CalibrationConfig` instead of everything above but `env`.
    - `runs`: the folder for run directories.
    - `sink`: called with every event of the calibration.

    ```python
    import sandlot

    found = sandlot.calibrate("arithmetic", "scripted:golden", band=(0.1, 0.6))
    print({label: share.value for label, share in found.shares.items()}, found.spent.rollouts)
    ```
    """
    environment = load(env) if env is not None else None
    if config is None:
        if environment is None or model is None:
            raise ConfigError("nothing to calibrate: give an environment and a model, or `config=`")
        select = Selection(tasks=tuple(tasks), split=split_named(split))
        run = run_config_of(
            environment, model, select=select, agent=agent, user=user, judge=judge, rubric=rubric, image=image,
            sandbox=sandbox, at_once=at_once,
        )  # fmt: skip
        config = CalibrationConfig(run=run, rule=Rule(low=band[0], high=band[1], confidence=confidence), budget=budget)
    return await calibrate_config(config, env=environment, runs=Path(runs), sink=sink)


calibrate = blocking("calibrate", calibrate_async)


def opening_plan(config: CalibrationConfig, env: Environment) -> RunPlan:
    """The plan of the first rollouts; `ConfigError` if the budget is too small for it."""
    plan = plan_run(env.in_image(config.run.image), config.opening)
    if config.budget is not None and config.budget < plan.num_rollouts:
        raise ConfigError(
            f"budget is {config.budget}; the first {config.rule.start} rollouts of {len(plan.tasks)} tasks are "
            f"{plan.num_rollouts}. Give more, or choose tasks with `--task`"
        )
    return plan


def expected_rollouts(config: CalibrationConfig, num_tasks: int) -> tuple[int, int, int]:
    """Minimum, likely and maximum number of rollouts, before anything is known of the tasks."""
    rule = config.rule
    likely = round(num_tasks * rates_over(rule, UNKNOWN, UNKNOWN).rollouts)
    most = num_tasks * rule.cap if config.budget is None else min(config.budget, num_tasks * rule.cap)
    return num_tasks * rule.start, min(likely, most), most


class CalibrationForecast(msgspec.Struct, frozen=True, kw_only=True):
    """A calibration before it begins."""

    tasks: int
    rollouts: dict[str, int]
    """`fewest`, `likely` and `most`."""
    forecast: Forecast
    errors: Errors


def forecast_calibration(config: CalibrationConfig, runs: Path) -> CalibrationForecast:
    """How many rollouts to expect, their cost, and the error rates of the rule; runs nothing."""
    plan = opening_plan(config, load(config.run.env))
    counts = expected_rollouts(config, len(plan.tasks))
    _, expected = forecast_run(config.opening, runs, rollouts=counts[1])
    return CalibrationForecast(
        tasks=len(plan.tasks),
        rollouts=dict(zip(("fewest", "likely", "most"), counts, strict=True)),
        forecast=expected,
        errors=errors_of(config.rule, [Known(UNKNOWN, UNKNOWN, 1)]),
    )


async def _find_directory(config: CalibrationConfig, env: Environment, plan: RunPlan, runs: Path) -> Path:
    """The directory of these rollouts: the existing one, unless its run was judged bad."""
    placed_env = env.in_image(config.run.image)
    facts = await gather_facts(placed_env, config.opening, plan)
    stem = f"calibrate-{name_of(placed_env, config.opening, facts.prints)}"
    for number in range(1, 10_000):
        path = runs / f"{stem}-{number}"
        if not (path / "manifest.json").exists() or Run(path).verdict != "stopped":
            return path
    raise ConfigError(f"`{runs}` holds 9,999 bad runs of this command; move some away")


class _Steering:
    """Counts the stored rollouts, and plans the next ones."""

    def __init__(self, state: CalibrationState) -> None:
        self._state = state
        self._num_before = -1
        """Rollouts when the last wave was planned."""

    def receive(self, event: RunEvent) -> None:
        """Count the rollouts of earlier sittings, and every rollout that is stored from then on; a sink."""
        if isinstance(event, RunBegan):
            for row in RunReader(Path(event.path)).rows() if event.num_done else ():
                self._state.note(row)
        elif isinstance(event, RolloutEnded):
            self._state.note(event.row)

    def plan_more(self, sink: Sink) -> RunPlan | None:
        """The plan with the next wave, once everything planned is stored; None at the end."""
        if self._state.num_taken == self._num_before:
            raise HarnessError("no rollout of the last wave was counted; the log has the error (`sink failed`)")
        self._num_before = self._state.num_taken
        more = self._state.next_rollouts()
        num_tasks, num_placed = len(self._state.tasks), self._state.settled()
        num_more = sum(more.values())
        sink(CalibrationWave(num_tasks=num_tasks, num_placed=num_placed, num_taken=self._num_before, num_more=num_more))
        return self._state.plan(more) if more else None


def _write_calibration(config: CalibrationConfig, state: CalibrationState, run: Run) -> Calibration:
    """Sum up, and write both files into the run directory, each whole or not at all."""
    last = run.sittings[-1]
    calibration = summarise(
        state,
        list(run.rows),
        run.manifest,
        verdict="stopped" if last.tripped else "incomplete" if last.stopped else "complete",
        stopped=last.stopped,
        budget=config.budget,
        group=config.group,
    )
    for name, record in ((FILE, calibration), (CURRICULUM_FILE, calibration.curriculum)):
        write_file(run.path / name, msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
    return calibration
