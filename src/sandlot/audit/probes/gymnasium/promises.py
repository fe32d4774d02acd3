"""What every Gymnasium environment must keep.

The same seed gives the same rollout, in any process and beside any other environment; nothing of one rollout stays for the next;
steps have the right shape, rewards are finite numbers, and observations and actions fit their spaces.
A cause is reported once: seeds that are not reproducible at all are reported by `gym-resets` and skipped by the other probes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.subject import PLAIN, Conditions, NamedPlay, Take, Trial
from sandlot.audit.subjects.foreign.gym_record import GymRecord, GymStep, record_of
from sandlot.core.errors import ConfigError
from sandlot.core.task import Task
from sandlot.core.types import Json

_Pair = tuple[Task, Trial]
_A_YEAR_S = 400 * 86400.0


@dataclass(frozen=True, slots=True)
class _Flaw:
    """The texts and severity of one variant."""

    title: str
    fix: str
    severity: Severity = Severity.HIGH


_SEEDED = "draw everything from `self.np_random`, after `super().reset(seed=seed)`, and make all state in `reset`"
_SHAPES = "return what the Gymnasium interface says: `observation, info` and `observation, reward, terminated, truncated, info`"
_FLAWS = {
    "D05.reset": _Flaw("the same seed and actions give different results", _SEEDED),
    "D05.leak": _Flaw("after a rollout, reset with the same seed gives another observation: some state is kept", _SEEDED),
    "D17.hash": _Flaw("results differ with another hash seed: the code uses the order of a set or the hash of a text", _SEEDED),
    "D17.clock": _Flaw("results differ a year later: the code reads the wall clock", _SEEDED),
    "D17.zone": _Flaw("results differ in another time zone or locale", _SEEDED),
    "D18.neighbours": _Flaw(
        "a second environment in the same process changes this one", "keep all state in `self`, none in modules or classes"
    ),
    "D08.action": _Flaw(
        "an action from the action space raises an error", "accept every action in the space, or declare a smaller space"
    ),
    "D08.observation": _Flaw(
        "an observation is not in the observation space", "declare the space that contains all observations"
    ),
    "D08.shape": _Flaw("`reset` or `step` returns values of the wrong shape", _SHAPES),
    "D08.outside": _Flaw(
        "actions outside the action space are accepted",
        "refuse them: `assert self.action_space.contains(action)`",
        Severity.LOW,
    ),
    "D06.nan": _Flaw("a reward is not a finite number", "return a finite float from every step"),
    "D06.range": _Flaw("a reward is outside the declared range", "declare the range that contains all rewards"),
    "D13.lost": _Flaw("playing it fails", "make `reset(seed=...)` and `step` work for every seed and every action of the space"),
}


async def play_seeds(case: Case, play: str, conditions: Conditions = PLAIN, tasks: Sequence[Task] | None = None) -> list[Trial]:
    """Play every seed."""
    chosen = case.tasks if tasks is None else tasks
    return await case.take([Take(task=task.id, play=NamedPlay(name=play), seed=case.seed) for task in chosen], conditions)


async def _play_repeatedly(case: Case) -> tuple[list[Trial], dict[str, list[Trial]]]:
    """Random actions on every seed, and the same again in the same process and in a new one.

    Empty if the first seed hangs or crashes; `gym-steps` reports that.
    """
    if (await play_seeds(case, "random", tasks=case.tasks[:1]))[0].lost is not None:
        return [], {}
    requests = [Take(task=task.id, play=NamedPlay(name="random"), seed=case.seed) for task in case.tasks]
    both = await case.take([*requests, *requests])
    alone = await case.take(requests, Conditions(alone=True, random_seed=5))
    first, second = both[: len(requests)], both[len(requests) :]
    return first, {
        "played again in the same process": second,
        "played in a process of its own, with other global random numbers": alone,
    }


async def _reproducible_seeds(case: Case) -> list[_Pair]:
    """The seeds that give the same results every time, with a trial of each."""
    first, others = await _play_repeatedly(case)
    return [
        (task, trial)
        for place, (task, trial) in enumerate(zip(case.tasks, first, strict=bool(first)))
        if not trial.untried and all(_path(trials[place]) == _path(trial) for trials in others.values())
    ]


async def _look_at_resets(case: Case) -> list[Finding]:
    """The same seed and the same actions give the same results."""
    first, others = await _play_repeatedly(case)
    for how, trials in others.items():
        part = _differing(list(zip(case.tasks, first, strict=True)), trials)
        if part:  # one cause, reported once
            return [_difference_finding("D05.reset", part, how)]
    return []


async def _look_at_surroundings(case: Case) -> list[Finding]:
    """Hash seed, clock, time zone and locale do not matter."""
    still = await _reproducible_seeds(case)
    ways = {
        "D17.hash": Conditions(hash_seed=1),
        "D17.clock": Conditions(clock_shift_s=_A_YEAR_S),
        "D17.zone": Conditions(timezone="Asia/Kolkata", locale="C"),
    }
    found: list[Finding] = []
    for code, conditions in ways.items():
        trials = await play_seeds(case, "random", conditions, [task for task, _ in still])
        part = _differing(still, trials)
        if part:
            found.append(_difference_finding(code, part, "played under other conditions"))
    return found


async def _look_at_neighbours(case: Case) -> list[Finding]:
    """A second environment in the same process does not matter."""
    still = await _reproducible_seeds(case)
    part = _differing(still, await play_seeds(case, "beside", tasks=[task for task, _ in still]))
    return [_difference_finding("D18.neighbours", part, "played in alternation with a second environment")] if part else []


async def _look_at_leaks(case: Case) -> list[Finding]:
    """A reset after a whole rollout gives the first observation of the seed again."""
    still = await _reproducible_seeds(case)
    trials = await play_seeds(case, "dirty", tasks=[task for task, _ in still])
    part = [(task, record_of(trial)) for (task, _), trial in zip(still, trials, strict=True) if _leaks(record_of(trial))]
    if not part:
        return []
    task, seen = part[0]
    assert seen.opening is not None
    assert seen.reopening is not None
    witness = Witness(
        inputs={"task": task.id, "play": "random until it ends, then reset with the same seed"},
        expected=f"observation {seen.opening.digest}",
        observed=f"observation {seen.reopening.digest}",
    )
    return [_finding_of("D05.leak", task, witness, len(part))]


async def _look_at_steps(case: Case) -> list[Finding]:
    """Steps have the right shape, observations are in their space, rewards finite and in range, sampled actions accepted."""
    seen: dict[str, list[tuple[Task, str]]] = {}
    trials = await play_seeds(case, "random")
    if all(trial.untried for trial in trials):
        raise ConfigError(f"no seed was played: {trials[0].fate}" if trials else "there is no seed to play")
    for task, trial in zip(case.tasks, trials, strict=True):
        if trial.untried:
            continue
        for code, what in _breaches(record_of(trial), task):
            seen.setdefault(code, []).append((task, what))
    found: list[Finding] = []
    for code, each in seen.items():
        task, what = each[0]
        inputs: Json = {"task": task.id, "play": "random"}
        witness = Witness(inputs=inputs, expected="what the Gymnasium interface requires", observed=what)
        found.append(_finding_of(code, task, witness, len({task.id for task, _ in each})))
    return found


async def _look_outside(case: Case) -> list[Finding]:
    """An action outside the space is refused."""
    seen = [(task, record_of(trial)) for task, trial in zip(case.tasks, await play_seeds(case, "outside"), strict=True)]
    taken = [(task, each.steps[0]) for task, each in seen if each.steps and each.steps[0].raised is None]
    if not taken:
        return []
    task, step = taken[0]
    observed = f"a step with reward {step.reward or 'that is not a number'}"
    witness = Witness(inputs={"task": task.id, "action": step.action}, expected="an error", observed=observed)
    return [_finding_of("D08.outside", task, witness, len(taken))]


# -- what was seen -------------------------------------------------------------------------------------------------------------


def _path(trial: Trial) -> tuple[object, ...]:
    """Everything that must be the same when the play is repeated."""
    seen = record_of(trial)
    steps = tuple((step.action, step.digest, step.reward, step.terminated, step.truncated, step.raised) for step in seen.steps)
    return seen.error, seen.opening, steps


def _differing(still: Sequence[_Pair], trials: Sequence[Trial]) -> list[tuple[Task, Trial, Trial]]:
    """The pairs of trials that differ; trials that could not be played are skipped."""
    pairs = [(task, one, two) for (task, one), two in zip(still, trials, strict=True) if not (one.untried or two.untried)]
    return [each for each in pairs if _path(each[1]) != _path(each[2])]


def _leaks(seen: GymRecord) -> bool:
    return seen.opening is not None and seen.reopening is not None and seen.reopening.digest != seen.opening.digest


def _breaches(seen: GymRecord, task: Task) -> list[tuple[str, str]]:
    if seen.error is not None or seen.opening is None:
        return [("D13.lost", seen.error or "it could not be opened")]
    found = [("D08.shape", "`reset` does not return a pair")] if not seen.opening.pair else []
    found += [("D08.observation", "the first observation")] if seen.opening.inside is False else []
    for number, step in enumerate(seen.steps):
        found += [(code, f"step {number} ({step.action[:80]}): {what}") for code, what in _step_breaches(step, task)]
    return found


def _step_breaches(step: GymStep, task: Task) -> list[tuple[str, str]]:
    if step.raised is not None:
        return [("D08.action", step.raised)]
    if step.parts != 5 or not step.flags:
        return [("D08.shape", f"{step.parts} values, terminated and truncated are bools: {step.flags}")]
    found = [("D08.observation", "the observation is outside its space")] if step.inside is False else []
    if not math.isfinite(step.earned):
        return [*found, ("D06.nan", f"reward {step.reward or 'is not a number'}")]
    bounds = [float(bound) for bound in cast("Sequence[str]", task.data.get("reward_range") or ()) if bound]
    outside = len(bounds) == 2 and not bounds[0] <= step.earned <= bounds[1]
    return [*found, ("D06.range", f"reward {step.reward}, declared {bounds[0]:g} to {bounds[1]:g}")] if outside else found


def _difference_finding(code: str, part: Sequence[tuple[Task, Trial, Trial]], how: str) -> Finding:
    task, one, two = part[0]
    first, second = _first_difference(record_of(one), record_of(two))
    witness = Witness(inputs={"task": task.id, "play": "random", "then": how}, expected=first, observed=second)
    return _finding_of(code, task, witness, len(part))


def _first_difference(one: GymRecord, two: GymRecord) -> tuple[str, str]:
    """The first difference of two rollouts, described for each."""
    if one.error != two.error:
        return one.error or "a rollout", two.error or "a rollout"
    if one.opening != two.opening or one.opening is None or two.opening is None:
        return f"opening {one.opening}", f"opening {two.opening}"
    for number, (first, second) in enumerate(zip(one.steps, two.steps, strict=False)):
        if first != second:
            return f"step {number}: {_describe_step(first)}", f"step {number}: {_describe_step(second)}"
    return f"{len(one.steps)} steps", f"{len(two.steps)} steps"


def _describe_step(step: GymStep) -> str:
    if step.raised is not None:
        return f"action {step.action}, which raised {step.raised}"
    over = ", terminated" * step.terminated + ", truncated" * step.truncated
    return f"action {step.action}, observation {step.digest}, reward {step.reward}{over}"


def _finding_of(code: str, task: Task, witness: Witness, count: int) -> Finding:
    """The finding of a variant, seen on `count` seeds."""
    flaw = _FLAWS[code]
    return make_finding(code, flaw.title, witness, severity=flaw.severity, task=task.id, count=count, fix=flaw.fix)


PROBES = (
    Probe("gym-steps", Layer.SCRIPTED, ("D06", "D08", "D13"), _look_at_steps),
    Probe("gym-outside", Layer.SCRIPTED, ("D08",), _look_outside),
    Probe("gym-resets", Layer.DIFFERENTIAL, ("D05",), _look_at_resets),
    Probe("gym-leaks", Layer.DIFFERENTIAL, ("D05",), _look_at_leaks),
    Probe("gym-surroundings", Layer.DIFFERENTIAL, ("D17",), _look_at_surroundings),
    Probe("gym-neighbours", Layer.DIFFERENTIAL, ("D18",), _look_at_neighbours),
)
