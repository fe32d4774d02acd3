"""Calibrating, from config to `calibration.json`. This is what `sandlot calibrate` calls.

The main road is `calibrate_async`: choose the tasks, find the directory, take rollouts until every task is placed, sum up. The
rollouts are an ordinary run; what is asked of them, the band and how sure to be, is not part of its name, so that another band
goes on with the rollouts that are there.
"""

from pathlib import Path

import anyio
import msgspec

from sandlot.calibrate.tasks.calibration import CURRICULUM_FILE, FILE, Calibration, summarise
from sandlot.calibrate.tasks.rates import rates_over
from sandlot.calibrate.tasks.rule import UNKNOWN, Rule
from sandlot.calibrate.tasks.state import CalibrationState, Family, by_tags
from sandlot.core.disk import DISK, write_file
from sandlot.core.errors import ConfigError
from sandlot.core.trace import TraceRow
from sandlot.core.types import Split
from sandlot.env.environment import Environment
from sandlot.env.load import load
from sandlot.observe.events import RolloutEnded, RunBegan, RunEvent
from sandlot.run.config import RunConfig, RunPlan, Selection, plan_run
from sandlot.run.manifest import fingerprints_of
from sandlot.run.prepare import name_of
from sandlot.run.results import Run
from sandlot.run.run import run_config
from sandlot.store.reader import RunReader


class CalibrationConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole calibration."""

    run: RunConfig
    """The environment, the model and how it is played; how often each task is taken is the rule's business."""
    rule: Rule = Rule()
    """The band, and how sure to be."""
    budget: int | None = None
    """Rollouts in all; None for as many as the rule asks for."""
    group: int = 8
    """Rollouts of a group in training, for the expected share of groups that teach."""
    families: tuple[str, ...] = ()
    """Tags that name families of tasks; none for each task's first tag."""

    def __post_init__(self) -> None:
        if self.group < 2:
            raise ConfigError(f"group is {self.group}; a group has 2 rollouts or more: they are compared with each other")

    @property
    def opening(self) -> RunConfig:
        """The run as it begins: the rule's start for every task, held-out tasks only if they were asked for."""
        select = self.run.select
        split = select.split or (None if select.tasks else Split.TRAIN)
        first = Selection(tasks=select.tasks, split=split, group=self.rule.start)
        return msgspec.structs.replace(self.run, select=first)


class Watch:
    """Sees a calibration go on; the command line draws it."""

    def begin(self, path: Path, standing: CalibrationState) -> None:
        """The first rollouts are about to be taken, or those after what is there already."""

    def note(self, row: TraceRow, standing: CalibrationState) -> None:
        """One more rollout is on disk."""

    def planned(self, standing: CalibrationState, num_more: int) -> None:
        """Beliefs were looked at, and so many more rollouts are to be taken."""


async def calibrate_async(
    config: CalibrationConfig,
    *,
    env: Environment | None = None,
    runs: Path = Path("runs"),
    place: Path | None = None,
    family: Family | None = None,
    watch: Watch | None = None,
) -> Calibration:
    """Take rollouts until every task is placed, and say where each lies; both files lie in the run's directory."""
    environment = env or load(config.run.env)
    plan = opening_plan(config, environment)
    path = place or await _find_directory(config, environment, plan, runs)
    standing = CalibrationState(
        config.rule,
        plan.tasks,
        family or by_tags(*config.families),
        budget=config.budget,
        at_once=config.run.at_once,
    )
    steering = _Steering(standing, watch or Watch())
    run = await run_config(config.opening, env=environment, place=path, sink=steering.receive, more=steering.more)
    return await anyio.to_thread.run_sync(_write_calibration, config, standing, run)


def calibrate(config: CalibrationConfig, *, runs: str | Path = "runs", watch: Watch | None = None) -> Calibration:
    """The same from outside an event loop."""

    async def go() -> Calibration:
        return await calibrate_async(config, runs=Path(runs), watch=watch)

    return anyio.run(go)


def opening_plan(config: CalibrationConfig, env: Environment) -> RunPlan:
    """The rollouts that come first; refused if there is no budget for them."""
    plan = plan_run(env.in_image(config.run.image), config.opening)
    if config.budget is not None and config.budget < plan.num_rollouts:
        raise ConfigError(
            f"budget is {config.budget}; the first {config.rule.start} rollouts of {len(plan.tasks)} tasks are "
            f"{plan.num_rollouts}. Give more, or choose tasks with `--task`"
        )
    return plan


def expected_rollouts(config: CalibrationConfig, num_tasks: int) -> tuple[int, int, int]:
    """Fewest, likely and most rollouts, before anything is known of the tasks."""
    rule = config.rule
    likely = round(num_tasks * rates_over(rule, UNKNOWN, UNKNOWN).rollouts)
    most = num_tasks * rule.cap if config.budget is None else min(config.budget, num_tasks * rule.cap)
    return num_tasks * rule.start, min(likely, most), most


async def _find_directory(config: CalibrationConfig, env: Environment, plan: RunPlan, runs: Path) -> Path:
    """The directory of these rollouts: the one there is, unless it was judged bad."""
    placed_env = env.in_image(config.run.image)
    prints = await fingerprints_of(placed_env, config.opening, plan)
    stem = f"calibrate-{name_of(placed_env, config.opening, prints)}"
    for number in range(1, 10_000):
        path = runs / f"{stem}-{number}"
        if not (path / "manifest.json").exists() or Run(path).verdict != "stopped":
            return path
    raise ConfigError(f"`{runs}` holds 9,999 bad runs of this command; move some away")


class _Steering:
    """Counts the stored rollouts, and says which ones are needed next."""

    def __init__(self, standing: CalibrationState, watch: Watch) -> None:
        self._standing = standing
        self._watch = watch

    def receive(self, event: RunEvent) -> None:
        """Count what earlier sittings left, and every rollout that is stored from then on."""
        if isinstance(event, RunBegan):
            for row in RunReader(Path(event.path)).rows() if event.num_done else ():
                self._standing.note(row)
            self._watch.begin(Path(event.path), self._standing)
        elif isinstance(event, RolloutEnded):
            self._standing.note(event.row)
            self._watch.note(event.row, self._standing)

    def more(self) -> RunPlan | None:
        """What there should be, once everything planned is there."""
        more = self._standing.next_rollouts()
        self._watch.planned(self._standing, sum(more.values()))
        return self._standing.plan(more) if more else None


def _write_calibration(config: CalibrationConfig, standing: CalibrationState, run: Run) -> Calibration:
    """Sum up, and put both files beside the rollouts, whole or not at all."""
    last = run.sittings[-1]
    calibration = summarise(
        standing,
        list(run.rows),
        run.manifest,
        verdict="stopped" if last.tripped else "incomplete" if last.stopped else "complete",
        stopped=last.stopped,
        budget=config.budget,
        group=config.group,
    )
    for name, record in ((FILE, calibration), (CURRICULUM_FILE, calibration.curriculum)):
        write_file(run.path / name, msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n", DISK)
    return calibration
