"""What the other tasks of a family say about one of them: a Beta distribution fitted by moments.

Each task's belief has a mean and a variance; the family's mean is the mean of means, its variance what the means differ by and
what each is unsure of, together. The family looked for is the one that gives itself back: believed in, and fitted to what is then
believed. Since beliefs do not depend on why counting stopped, tasks that were given more rollouts because they were hard to place
do not bend it, as they would bend plain shares.

A task never counts in its own prior: its rollouts would be believed twice. And with every family goes one imagined task of
which nothing is known, so that a few that came out alike do not make a certainty.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import lru_cache

from sandlot.calibrate.rule import UNKNOWN, Belief

FEWEST = 5
"""Tasks seen, besides the one it is for, from which a family says something."""
STRONGEST = 12.0
"""Rollouts that a family's word is worth at most: the first few of a task unlike the others must not be outvoted by it."""
WEAKEST = 0.05
HALVINGS = 24

Seen = tuple[int, int]
"""Passed, of scored."""


def fitted(tasks: tuple[tuple[Seen, int], ...]) -> Belief:
    """The family that these tasks come from, each (passed, scored) with how many came out so."""
    seen = [(counts, number) for counts, number in tasks if counts[1] > 0]
    if sum(number for _, number in seen) < FEWEST:
        return UNKNOWN
    low, high = WEAKEST, STRONGEST
    if _strength(_with_strength(high, seen), seen) >= high:
        return _with_strength(high, seen)
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        if _strength(_with_strength(middle, seen), seen) > middle:
            low = middle
        else:
            high = middle
    return _with_strength(low, seen)


def _with_strength(strength: float, seen: list[tuple[Seen, int]]) -> Belief:
    """The family of this strength whose mean is the mean of what is then believed of each task."""
    passed = UNKNOWN.mean + sum(number * counts[0] / (strength + counts[1]) for counts, number in seen)
    scored = 1 + sum(number * counts[1] / (strength + counts[1]) for counts, number in seen)
    mean = passed / scored
    return Belief(mean * strength, (1 - mean) * strength)


def _strength(family: Belief, seen: list[tuple[Seen, int]]) -> float:
    """The strength of the Beta distribution with the mean and variance of all that is believed, with this family as prior."""
    beliefs = [(UNKNOWN, 1), *((family.after(*counts), number) for counts, number in seen)]
    whole = sum(number for _, number in beliefs)
    spread = sum((belief.variance + (belief.mean - family.mean) ** 2) * number for belief, number in beliefs) / whole
    return family.mean * (1 - family.mean) / spread - 1


_fitted = lru_cache(maxsize=4096)(fitted)


def family_of_all(counts: Mapping[str, Seen]) -> Belief:
    """The family as all its tasks show it: for tables and simulations, not for placing one of them."""
    return _fitted(_alike(Counter(counts.values())))


def priors(counts: Mapping[str, Seen], families: Mapping[str, str]) -> dict[str, Belief]:
    """For every task what the others of its family say; `families` names each task's."""
    members: defaultdict[str, list[str]] = defaultdict(list)
    for task in counts:
        members[families[task]].append(task)
    found: dict[str, Belief] = {}
    for tasks in members.values():
        together = Counter(counts[task] for task in tasks)
        found |= {task: _fitted(_alike(together - Counter([counts[task]]))) for task in tasks}
    return found


def _alike(counts: Counter[Seen]) -> tuple[tuple[Seen, int], ...]:
    return tuple(sorted(counts.items()))
