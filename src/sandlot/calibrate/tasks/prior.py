"""The prior of a task from the other tasks of its family: a Beta distribution fitted by moments.

Each task's posterior has a mean and a variance. The family's mean is the mean of these means; its variance is the variance of the
means plus the mean of the variances. The fit is a fixed point: used as the prior of its tasks, the family is fitted to their
posteriors again. Posteriors do not depend on why counting stopped, so tasks with more rollouts do not bias the fit, as they would
bias plain pass rates.

A task never counts in its own prior: its rollouts would be used twice. Every prior includes one imagined task of which nothing is
known, and its strength is limited, so that a few similar tasks do not make it certain. The family itself, for tables and error
rates, is fitted without this caution.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from sandlot.calibrate.tasks.rule import UNKNOWN, Belief

FEWEST = 5
"""Minimum number of other tasks for a family prior."""
_WEAKEST = 0.05
_HALVINGS = 18

Seen = tuple[int, int]
"""Passed, of scored."""


@dataclass(frozen=True, slots=True)
class Caution:
    """Limits on the weight of a family prior."""

    imagined: float
    """Imagined tasks without any rollouts that are added to the fit."""
    strongest: float
    """Maximum weight of the prior, in rollouts."""


PRIOR = Caution(imagined=1.0, strongest=12.0)
"""For placing: the prior must not outvote the first rollouts of a task that differs from its family."""
TRUTH = Caution(imagined=0.1, strongest=400.0)
"""For describing a family: hardly any caution."""


def fit_family(tasks: tuple[tuple[Seen, int], ...], caution: Caution = PRIOR) -> Belief:
    """The family of these tasks: each entry is (passed, scored) and how many tasks have these counts."""
    seen = [(counts, number) for counts, number in tasks if counts[1] > 0]
    if sum(number for _, number in seen) < FEWEST:
        return UNKNOWN
    low, high = _WEAKEST, caution.strongest
    if _strength(_with_strength(high, seen, caution), seen, caution) >= high:
        return _with_strength(high, seen, caution)
    for _ in range(_HALVINGS):
        middle = (low * high) ** 0.5
        if _strength(_with_strength(middle, seen, caution), seen, caution) > middle:
            low = middle
        else:
            high = middle
    return _with_strength(low, seen, caution)


def _with_strength(strength: float, seen: list[tuple[Seen, int]], caution: Caution) -> Belief:
    """The family of this strength whose mean is the mean of its tasks' posterior means."""
    passed = caution.imagined * UNKNOWN.mean + sum(number * counts[0] / (strength + counts[1]) for counts, number in seen)
    scored = caution.imagined + sum(number * counts[1] / (strength + counts[1]) for counts, number in seen)
    mean = passed / scored
    return Belief(mean * strength, (1 - mean) * strength)


def _strength(family: Belief, seen: list[tuple[Seen, int]], caution: Caution) -> float:
    """Strength of the Beta distribution with the mean and variance of the posteriors, with this family as prior."""
    beliefs = [(UNKNOWN, caution.imagined), *((family.after(*counts), number) for counts, number in seen)]
    whole = sum(number for _, number in beliefs)
    spread = sum((belief.variance + (belief.mean - family.mean) ** 2) * number for belief, number in beliefs) / whole
    return family.mean * (1 - family.mean) / spread - 1


_fit_cached = lru_cache(maxsize=4096)(fit_family)


def family_of_all(counts: Mapping[str, Seen], caution: Caution = TRUTH) -> Belief:
    """The family fitted to all its tasks: for tables and error rates, not for placing one of them."""
    return _fit_cached(_count_alike(Counter(counts.values())), caution)


def priors(counts: Mapping[str, Seen], families: Mapping[str, str]) -> dict[str, Belief]:
    """The prior of every task from the others of its family; `families` maps tasks to families."""
    members: defaultdict[str, list[str]] = defaultdict(list)
    for task in counts:
        members[families[task]].append(task)
    found: dict[str, Belief] = {}
    for tasks in members.values():
        together = Counter(counts[task] for task in tasks)
        found |= {task: _fit_cached(_count_alike(together - Counter([counts[task]]))) for task in tasks}
    return found


def _count_alike(counts: Counter[Seen]) -> tuple[tuple[Seen, int], ...]:
    return tuple(sorted(counts.items()))
