"""What the other tasks of a family say about one of them: a Beta distribution fitted by moments.

Each task's belief has a mean and a variance; the family's mean is the mean of means, its variance what the means differ by and
what each is unsure of, together. The family looked for is the one that gives itself back: believed in, and fitted to what is then
believed. Since beliefs do not depend on why counting stopped, tasks that were given more rollouts because they were hard to place
do not bend it, as they would bend plain shares.

A task never counts in its own prior: its rollouts would be believed twice. And with every prior goes one imagined task of which
nothing is known, and a limit to its strength, so that a few that came out alike do not make a certainty. How a family *is*, for
tables and error rates, is fitted without such caution.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from sandlot.calibrate.tasks.rule import UNKNOWN, Belief

FEWEST = 5
"""Tasks seen, besides the one it is for, from which a family says something."""
_WEAKEST = 0.05
_HALVINGS = 18

Seen = tuple[int, int]
"""Passed, of scored."""


@dataclass(frozen=True, slots=True)
class Caution:
    """How little a family may be believed."""

    imagined: float
    """Tasks of which nothing is known that are counted in."""
    strongest: float
    """Rollouts that its word is worth at most."""


PRIOR = Caution(imagined=1.0, strongest=12.0)
"""For placing: the first few rollouts of a task unlike the others must not be outvoted by them."""
TRUTH = Caution(imagined=0.1, strongest=400.0)
"""For describing: hardly any."""


def fit_family(tasks: tuple[tuple[Seen, int], ...], caution: Caution = PRIOR) -> Belief:
    """The family that these tasks come from, each (passed, scored) with how many came out so."""
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
    """The family of this strength whose mean is the mean of what is then believed of each task."""
    passed = caution.imagined * UNKNOWN.mean + sum(number * counts[0] / (strength + counts[1]) for counts, number in seen)
    scored = caution.imagined + sum(number * counts[1] / (strength + counts[1]) for counts, number in seen)
    mean = passed / scored
    return Belief(mean * strength, (1 - mean) * strength)


def _strength(family: Belief, seen: list[tuple[Seen, int]], caution: Caution) -> float:
    """The strength of the Beta distribution with the mean and variance of all that is believed, with this family as prior."""
    beliefs = [(UNKNOWN, caution.imagined), *((family.after(*counts), number) for counts, number in seen)]
    whole = sum(number for _, number in beliefs)
    spread = sum((belief.variance + (belief.mean - family.mean) ** 2) * number for belief, number in beliefs) / whole
    return family.mean * (1 - family.mean) / spread - 1


_fit_cached = lru_cache(maxsize=4096)(fit_family)


def family_of_all(counts: Mapping[str, Seen], caution: Caution = TRUTH) -> Belief:
    """The family as all its tasks show it: for tables and error rates, not for placing one of them."""
    return _fit_cached(_count_alike(Counter(counts.values())), caution)


def priors(counts: Mapping[str, Seen], families: Mapping[str, str]) -> dict[str, Belief]:
    """For every task what the others of its family say; `families` names each task's."""
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
