"""Agreement of people who read the same rollouts, beyond what chance would give."""

from collections.abc import Sequence
from itertools import combinations

import msgspec

from sandlot.analysis.triage.labels import LabelledTrace
from sandlot.core.stats.agreement import bootstrap, cohen_kappa
from sandlot.core.stats.intervals import Interval


class ReaderAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """How far two people agree."""

    first: str
    second: str
    both: int
    """What both of them judged."""
    agreed: int
    """Of that, what they judged alike."""
    kappa: Interval
    """Cohen's kappa, with a bootstrap interval; its value is None if all their verdicts are equal."""


def agreements_of(counting: Sequence[LabelledTrace]) -> tuple[ReaderAgreement, ...]:
    """The agreement of every two people who labelled the same rollouts."""
    return reader_agreements([(each.by, each.key, each.label) for each in counting])


def reader_agreements(verdicts: Sequence[tuple[str, tuple[str, int] | tuple[str, int, int], str]]) -> tuple[ReaderAgreement, ...]:
    """From triples of the person, what was judged, and the verdict; the last verdict counts."""
    by_reader: dict[str, dict[tuple[str, int] | tuple[str, int, int], str]] = {}
    for reader, what, verdict in verdicts:
        by_reader.setdefault(reader, {})[what] = verdict
    found: list[ReaderAgreement] = []
    for first, second in combinations(sorted(by_reader), 2):
        ours, theirs = by_reader[first], by_reader[second]
        pairs = [(verdict, theirs[what]) for what, verdict in ours.items() if what in theirs]
        if pairs:
            agreed = sum(one == other for one, other in pairs)
            kappa = bootstrap(pairs, cohen_kappa)
            found.append(ReaderAgreement(first=first, second=second, both=len(pairs), agreed=agreed, kappa=kappa))
    return tuple(found)
