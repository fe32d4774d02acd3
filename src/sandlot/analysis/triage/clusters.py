"""Clusters of rollouts that failed in the same way."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from sandlot.analysis.taxonomy import label_named
from sandlot.analysis.triage.concentration import Concentration, concentration
from sandlot.analysis.triage.contrast import ALPHA, Contrast, Doing, contrast, doing_of
from sandlot.analysis.triage.oddities import marks_of, retrieved_in
from sandlot.analysis.triage.scanner import Hit, scan
from sandlot.analysis.triage.signature import FailureSignature, signature_of
from sandlot.core.stats.tests import benjamini_hochberg
from sandlot.core.trace import Scored, Trace
from sandlot.core.types import Side

_EXAMPLES = 3


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Rollouts that failed in the same way."""

    signature: FailureSignature
    size: int
    share: float
    """Share of the rollouts that were read and did not pass."""
    tasks: int
    blames_environment: bool
    examples: tuple[str, ...]
    """`TASK/ROLLOUT`, shortest first."""
    contrast: Contrast | None = None
    concentration: Concentration | None = None


@dataclass(frozen=True, slots=True)
class OpenedTrace:
    """What triage keeps of a trace."""

    doing: Doing
    signature: FailureSignature | None
    hits: tuple[Hit, ...]
    passed: bool
    on_model: bool
    """True if the model's endpoint failed."""
    calls: int
    tokens: int
    tags: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()
    """Tools, programs and files."""
    retrieved: str = ""
    """What was copied from where solutions lie about."""

    @property
    def task(self) -> str:
        """Its task."""
        return self.doing.task

    @property
    def turns(self) -> int:
        """How many turns the agent took."""
        return self.doing.turns

    @property
    def place(self) -> str:
        """`TASK/ROLLOUT`."""
        return f"{self.doing.task}/{self.doing.rollout}"


def summarise_trace(trace: Trace, tags: Iterable[str] = ()) -> OpenedTrace:
    """Read a trace once, and keep what is needed; `tags` are those of its task."""
    outcome = trace.outcome
    return OpenedTrace(
        doing=doing_of(trace),
        signature=signature_of(trace),
        hits=scan(trace),
        passed=isinstance(outcome, Scored) and outcome.score.passed,
        on_model=getattr(outcome, "side", None) is Side.MODEL,
        calls=sum(len(node.message.calls) for node in trace.turns()),
        tokens=trace.usage.completion_tokens,
        tags=frozenset(tags),
        marks=marks_of(trace),
        retrieved=retrieved_in(trace),
    )


def clusters(seen: Sequence[OpenedTrace]) -> tuple[Cluster, ...]:
    """Clusters, largest first; those that the environment caused come before all others."""
    alike: defaultdict[FailureSignature, list[OpenedTrace]] = defaultdict(list)
    for each in seen:
        if each.signature is not None:
            alike[each.signature].append(each)
    total = sum(map(len, alike.values()))
    passing = [each for each in seen if each.passed]
    found = [_cluster(signature, members, total, passing) for signature, members in alike.items()]
    return tuple(sorted(_credible(found), key=lambda each: (not each.blames_environment, -each.size, each.signature)))


def _credible(found: Sequence[Cluster]) -> list[Cluster]:
    """The clusters, without the contrasts that are not significant after correction for multiple tests."""
    p_values = [each.contrast.p_value if each.contrast else 1.0 for each in found]
    kept = [p < ALPHA for p in benjamini_hochberg(p_values)]
    return [each if keep else msgspec.structs.replace(each, contrast=None) for each, keep in zip(found, kept, strict=True)]


def _cluster(signature: FailureSignature, members: Sequence[OpenedTrace], total: int, passing: Sequence[OpenedTrace]) -> Cluster:
    return Cluster(
        signature=signature,
        size=len(members),
        share=len(members) / total,
        tasks=len({each.doing.task for each in members}),
        blames_environment=label_named(signature.label).blames_environment and not members[0].on_model,
        examples=tuple(each.place for each in _examples(members)),
        contrast=contrast([each.doing for each in members], [each.doing for each in passing]),
        concentration=concentration(_tags(members), _tags(passing)),
    )


def _tags(seen: Sequence[OpenedTrace]) -> dict[str, frozenset[str]]:
    return {each.doing.task: each.tags for each in seen}


def _examples(members: Sequence[OpenedTrace]) -> list[OpenedTrace]:
    return sorted(members, key=lambda each: (each.doing.turns, each.place))[:_EXAMPLES]
