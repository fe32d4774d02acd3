"""What a training run came to, in numbers: `summary.json`, and the words a person reads at its end."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from sandlot.core.disk import write_file
from sandlot.core.stats.intervals import Interval
from sandlot.observe.training_records import Diversity, Measured
from sandlot.run.compare import RunComparison
from sandlot.run.results import Run
from sandlot.run.summary import Summary
from sandlot.train.checkpoint import ADAPTER, MODEL
from sandlot.train.recipe import Recipe
from sandlot.train.report.progress import TrainingProgress

FILE = "summary.json"


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """A figure and its interval at 95 %."""

    mean: float
    low: float
    high: float


class Heldout(Level, frozen=True, kw_only=True):
    """The score on held-out tasks at one version."""

    version: int
    passed: Level
    """Share of rollouts with full marks."""
    pass_at: dict[str, float]
    """pass@k by k: the probability that at least one of k rollouts gets full marks."""
    gap: float | None = None
    """pass@k at the largest k minus pass@1: the room for improvement by training."""
    tasks: int
    rollouts: int
    failed: int


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """Score after minus score before, paired by task: the same tasks and random draws, other weights."""

    difference: Level
    p_value: float
    tasks: int
    improved: int
    regressed: int


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """The held-out tasks with one tag."""

    tasks: int
    before: Level
    after: Level


class Robustness(msgspec.Struct, frozen=True, kw_only=True):
    """A variant of the held-out tasks: rephrased, or with other sampling."""

    before: Level | None
    after: Level | None
    change: Level | None
    """Score minus that of the original tasks after the last step, paired by task: below 0, the score depends on the variant."""
    p_value: float | None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """`summary.json`: the result of a training run."""

    format: int = 1
    name: str
    environment: str
    model: str
    algorithm: str
    seed: int
    verdict: str
    """`complete`, `incomplete`, or `stopped` if it was judged bad."""
    stopped: str | None
    """Why it ended early; None if it did not."""
    steps: int
    of_steps: int
    seconds: float
    cpu_s: float
    sandbox: str
    """`native`, `docker`, or `none` for an environment that needs no sandbox."""
    rollouts: int
    """Rollouts of training and evaluations."""
    failed: int
    """Rollouts without a score; they are not trained on."""
    heldout_before: Heldout | None
    heldout_after: Heldout | None
    paired: Paired | None
    best_version: int | None
    best_weights: str | None
    """Model folder of the best version, relative to the run directory."""
    best_adapter: str | None = None
    """Folder of the best adapter in PEFT's format, relative to the run directory; None without adapters."""
    skills: dict[str, Skill] = {}
    """Scores before and after, by tag."""
    separate: bool
    """True if the interval after is entirely above the one before."""
    time: dict[str, float]
    """Seconds of the steps by kind: sampling, environment, grading, update."""
    alarms: tuple[str, ...]
    rollbacks: int
    robustness: dict[str, Robustness] = {}
    """Results by variant of the held-out tasks."""
    diversity_before: Diversity | None = None
    """How differently the members of groups acted in the first step."""
    diversity_after: Diversity | None = None
    """The same in the last step."""


def outcome_of(progress: TrainingProgress, recipe: Recipe, sandbox: str) -> Outcome:
    """Read a run, finished or not."""
    path, run = progress.path, Run(progress.path)
    measured = [(line, Run(path / line.run)) for line in progress.evaluations]
    first, last = (measured[0], measured[-1]) if measured else (None, None)
    before, after = (_heldout(*each) if each else None for each in (first, last))
    paired = _paired(first[1].compare(last[1])) if first and last and len(measured) > 1 else None
    best = progress.best
    steps = progress.steps[-1].version if progress.steps else 0
    done = steps >= recipe.steps and not progress.stopped
    kept = Path("checkpoints") / f"{best.version:06d}" if best else None
    return Outcome(
        name=recipe.name,
        environment=run.manifest.environment,
        model=recipe.model,
        algorithm=type(recipe.algorithm).__name__,
        seed=recipe.seed,
        verdict="stopped" if progress.tripped else "complete" if done else "incomplete",
        stopped=progress.stopped,
        steps=steps,
        of_steps=recipe.steps,
        seconds=sum(sitting.wall_s for sitting in run.sittings),
        cpu_s=sum(sitting.cpu_s for sitting in run.sittings),
        sandbox=sandbox,
        rollouts=sum(step.rollouts for step in progress.steps) + sum(line.rollouts for line in progress.evaluations),
        failed=sum(step.failed for step in progress.steps) + sum(line.failed for line in progress.evaluations),
        heldout_before=before,
        heldout_after=after,
        paired=paired,
        best_version=best.version if best else None,
        best_weights=_below(path, kept, MODEL),
        best_adapter=_below(path, kept, ADAPTER),
        skills=_skills(first[1].summary(), last[1].summary()) if first and last and len(measured) > 1 else {},
        separate=before is not None and after is not None and after.low > before.high,
        time=_time_spent(progress),
        alarms=tuple(found.sentence for found in (*progress.alarms, *progress.collapses)),
        rollbacks=len(progress.rollbacks),
        robustness=dict(_robustness(recipe, first[1], last[1])) if first and last else {},
        diversity_before=progress.steps[0].diversity if progress.steps else None,
        diversity_after=progress.steps[-1].diversity if progress.steps else None,
    )


def variant_place(plain: Path, name: str) -> Path:
    """Where a variant of a measurement lies."""
    return plain.with_name(f"{plain.name}-{name}")


def _robustness(recipe: Recipe, first: Run, last: Run) -> Iterable[tuple[str, Robustness]]:
    for name in recipe.evaluation.variants:
        places = [variant_place(plain.path, name) for plain in (first, last)]
        before, after = (Run(place) if (place / "manifest.json").is_file() else None for place in places)
        paired = last.compare(after, despite_setting=True) if after else None
        yield (
            name,
            Robustness(
                before=_level(before.summary().score) if before else None,
                after=_level(after.summary().score) if after else None,
                change=_level(paired.score) if paired else None,
                p_value=paired.p_value if paired else None,
            ),
        )


def _below(path: Path, kept: Path | None, name: str) -> str | None:
    return str(kept / name) if kept and (path / kept / name).is_dir() else None


def _time_spent(progress: TrainingProgress) -> dict[str, float]:
    """Seconds of all steps by what they went into."""
    spent: dict[str, float] = {}
    for step in progress.steps:
        for name, share in step.shares.items():
            spent[name] = spent.get(name, 0.0) + share * step.seconds
    return spent


def write_outcome(path: Path, outcome: Outcome) -> Path:
    """As `summary.json` in the run's folder."""
    file = path / FILE
    write_file(file, msgspec.json.format(msgspec.json.encode(outcome), indent=2) + b"\n", durable=False)
    return file


def _heldout(line: Measured, run: Run) -> Heldout:
    summary = run.summary()
    pass_at = dict(_pass_at(summary))
    return Heldout(
        version=line.version,
        mean=line.mean,
        low=line.low,
        high=line.high,
        passed=Level(mean=line.passed, low=line.passed_low, high=line.passed_high),
        pass_at=pass_at,
        gap=pass_at[max(pass_at, key=int)] - pass_at["1"] if len(pass_at) > 1 else None,
        tasks=summary.tasks,
        rollouts=line.rollouts,
        failed=line.failed,
    )


def _skills(before: Summary, after: Summary) -> dict[str, Skill]:
    return {
        tag: Skill(tasks=group.tasks, before=_level(group.score), after=_level(after.tags[tag].score))
        for tag, group in before.tags.items()
        if tag in after.tags
    }


def _pass_at(summary: Summary) -> Iterable[tuple[str, float]]:
    return ((str(each.k), each.share.value) for each in summary.pass_at if each.share.value is not None)


def _paired(found: RunComparison) -> Paired:
    return Paired(
        difference=_level(found.score),
        p_value=found.p_value,
        tasks=found.tasks,
        improved=len(found.improved),
        regressed=len(found.regressed),
    )


def _level(interval: Interval) -> Level:
    return Level(mean=interval.value if interval.value is not None else float("nan"), low=interval.low, high=interval.high)
