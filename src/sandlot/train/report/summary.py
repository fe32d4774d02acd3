"""What a training run came to, in numbers: `summary.json`, and the words a person reads at its end."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from sandlot.core.disk import write_file
from sandlot.core.stats.intervals import Interval
from sandlot.observe.training_records import Diversity, Measured
from sandlot.run.compare import RunComparison
from sandlot.run.learners import learning_seats, model_names
from sandlot.run.results import Run
from sandlot.run.summary import Summary
from sandlot.train.checkpoint import ADAPTER, MODEL
from sandlot.train.own_policy import policy_folder
from sandlot.train.recipe import Recipe
from sandlot.train.report.heldout import heldout_comparison, heldout_summary
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


class SeatOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a training came to for one of the seats that learn, by the seat's own score."""

    model: str
    """The model that it began with."""
    own: bool
    """True if it has a policy with weights of its own."""
    heldout_before: Heldout | None
    heldout_after: Heldout | None
    paired: Paired | None
    reward: float | None
    """Its mean training reward in the last step."""
    best_version: int | None = None
    """The version in which it scored best, if it has weights of its own."""
    best_weights: str | None = None
    """Its model folder in that version, relative to the run directory."""
    best_adapter: str | None = None
    """The folder of its best adapter in PEFT's format; None without adapters."""
    last_weights: str | None = None
    """Its model folder after the last step; None with adapters, of which only the best version is merged."""
    last_adapter: str | None = None
    """The folder of its last adapter; None without adapters."""


class EnvironmentOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a training came to in one of its environments."""

    run: str
    """Its run directory, relative to the training's; `.` for the first environment."""
    groups: int
    """Groups of it that were learned from."""
    rollouts: int
    """Its rollouts in training and evaluations."""
    failed: int
    """Of these, without a score."""
    reward: float | None
    """Mean training reward in the last step that had groups of it."""
    passed: float | None
    """Share of full marks in that step."""
    heldout_before: Heldout | None
    heldout_after: Heldout | None
    paired: Paired | None
    seats: dict[str, SeatOutcome] = {}
    """Where several agents act: the same for each seat that learns."""


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
    environments: dict[str, EnvironmentOutcome] = {}
    """The same by environment; the held-out figures above are over the tasks of all of them."""


def outcome_of(progress: TrainingProgress, recipe: Recipe, sandbox: str) -> Outcome:
    """Read a run, finished or not."""
    path, run = progress.path, Run(progress.path)
    lines = progress.evaluations
    runs = [evaluation_runs(path, line) for line in (lines[0], lines[-1])] if lines else []
    measured = [heldout_summary(each) for each in runs]
    before, after = map(_heldout, (lines[0], lines[-1]), measured) if lines else (None, None)
    compared = len(lines) > 1
    best = progress.best
    steps = progress.steps[-1].version if progress.steps else 0
    done = steps >= recipe.steps and not progress.stopped
    kept = _checkpoint(best.version) if best else None
    return Outcome(
        name=recipe.name,
        environment=", ".join(run.environments),
        model=model_names(recipe.model, recipe.own_models, learning_seats(run)),
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
        paired=_paired(heldout_comparison(runs[0], runs[1])) if compared else None,
        best_version=best.version if best else None,
        best_weights=_below(path, kept, MODEL),
        best_adapter=_below(path, kept, ADAPTER),
        skills=_skills(*measured) if compared else {},
        separate=before is not None and after is not None and after.low > before.high,
        time=_time_spent(progress),
        alarms=tuple(found.sentence for found in (*progress.alarms, *progress.collapses)),
        rollbacks=len(progress.rollbacks),
        robustness=dict(_robustness(recipe, *runs)) if runs else {},
        diversity_before=progress.steps[0].diversity if progress.steps else None,
        diversity_after=progress.steps[-1].diversity if progress.steps else None,
        environments={name: _environment(name, each, progress, recipe) for name, each in run.environments.items()},
    )


def evaluation_runs(path: Path, line: Measured) -> dict[str, Run]:
    """The runs of an evaluation by environment; a line of an earlier version names the only one."""
    if not line.environments:
        run = Run(path / line.run)
        return {run.manifest.environment: run}
    return {name: Run(path / each.run) for name, each in line.environments.items()}


def _seat(seat: str, name: str, progress: TrainingProgress, recipe: Recipe) -> SeatOutcome:
    """What came of one seat in an environment."""
    lines, path = progress.evaluations, progress.path
    ends = [(line, {name: evaluation_runs(path, line)[name]}) for line in (lines[0], lines[-1])] if lines else []
    before, after = (_heldout(line, heldout_summary(runs, seat)) for line, runs in ends) if lines else (None, None)
    rewards = [env.seats[seat] for step in progress.steps if (env := step.environments.get(name)) and seat in env.seats]
    own = seat in recipe.own_policies
    best = progress.best_of(seat) if own else None
    kept, last = (
        policy_folder(_checkpoint(version), seat) if own and version is not None else None
        for version in (best.version if best else None, progress.steps[-1].version if progress.steps else None)
    )
    return SeatOutcome(
        model=recipe.for_policy(seat).model,
        own=own,
        heldout_before=before,
        heldout_after=after,
        paired=_paired(heldout_comparison(ends[0][1], ends[1][1], seat)) if len(lines) > 1 else None,
        reward=rewards[-1] if rewards else None,
        best_version=best.version if best else None,
        best_weights=_below(path, kept, MODEL),
        best_adapter=_below(path, kept, ADAPTER),
        last_weights=_below(path, last, MODEL),
        last_adapter=_below(path, last, ADAPTER),
    )


def _checkpoint(version: int) -> Path:
    return Path("checkpoints") / f"{version:06d}"


def _environment(name: str, run: Run, progress: TrainingProgress, recipe: Recipe) -> EnvironmentOutcome:
    lines = progress.evaluations
    steps = [step.environments[name] for step in progress.steps if name in step.environments]
    learned = [step for step in steps if step.groups]
    runs = [evaluation_runs(progress.path, line)[name] for line in (lines[0], lines[-1])] if lines else []
    before, after = (
        (_heldout(line, heldout_summary({name: run})) for line, run in zip((lines[0], lines[-1]), runs, strict=True))
        if lines
        else (None, None)
    )
    scores = [line.environments[name] for line in lines if name in line.environments]
    return EnvironmentOutcome(
        run=str(run.path.relative_to(progress.path)),
        groups=sum(step.groups for step in steps),
        rollouts=sum(each.rollouts for each in (*steps, *scores)),
        failed=sum(each.failed for each in (*steps, *scores)),
        reward=learned[-1].reward if learned else None,
        passed=learned[-1].passed if learned else None,
        heldout_before=before,
        heldout_after=after,
        paired=_paired(heldout_comparison({name: runs[0]}, {name: runs[1]})) if len(lines) > 1 else None,
        seats={seat: _seat(seat, name, progress, recipe) for seat in learning_seats(run)},
    )


def variant_place(plain: Path, name: str) -> Path:
    """Where a variant of a measurement lies."""
    return plain.with_name(f"{plain.name}-{name}")


def _robustness(recipe: Recipe, first: Mapping[str, Run], last: Mapping[str, Run]) -> Iterable[tuple[str, Robustness]]:
    for name in recipe.evaluation.variants:
        before, after = (_varied(plain, name) for plain in (first, last))
        paired = heldout_comparison(last, after, despite_setting=True) if after else None
        yield (
            name,
            Robustness(
                before=_level(heldout_summary(before).score) if before else None,
                after=_level(heldout_summary(after).score) if after else None,
                change=_level(paired.score) if paired else None,
                p_value=paired.p_value if paired else None,
            ),
        )


def _varied(plain: Mapping[str, Run], name: str) -> dict[str, Run]:
    """The runs of a variant of a measurement by environment; empty if it was not measured."""
    places = {env: variant_place(run.path, name) for env, run in plain.items()}
    return (
        {env: Run(place) for env, place in places.items()}
        if all((place / "manifest.json").is_file() for place in places.values())
        else {}
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


def _heldout(line: Measured, summary: Summary) -> Heldout:
    pass_at = dict(_pass_at(summary))
    score = _level(summary.score)
    return Heldout(
        version=line.version,
        mean=score.mean,
        low=score.low,
        high=score.high,
        passed=_level(summary.pass_rate),
        pass_at=pass_at,
        gap=pass_at[max(pass_at, key=int)] - pass_at["1"] if len(pass_at) > 1 else None,
        tasks=summary.tasks,
        rollouts=summary.rollouts,
        failed=sum(summary.failed.values()),
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
