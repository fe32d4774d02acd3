"""Clusters of rollouts that failed in the same way, and successes that look suspicious."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from sandlot.analysis.taxonomy import label_named
from sandlot.analysis.triage.concentration import Concentration, concentration
from sandlot.analysis.triage.contrast import ALPHA, Contrast, Doing, contrast, doing_of
from sandlot.analysis.triage.scanner import Hit, pattern_meaning, scan
from sandlot.analysis.triage.signature import FailureSignature, signature_of
from sandlot.core.stats.intervals import quantile
from sandlot.core.stats.tests import benjamini_hochberg
from sandlot.core.trace import Scored, Trace
from sandlot.core.types import Side

_EXAMPLES = 3
_FEWEST_PASSES = 4
_FAR_FEWER = 0.5
"""A pass with this share of the calls of other passes of the same task is suspicious; of tokens, its square."""
_WORTH_CALLS = 4
"""Minimum calls of the other passes: with fewer, a difference means nothing."""


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


class Odd(msgspec.Struct, frozen=True, kw_only=True):
    """Successes that share something a success should not need."""

    why: str
    """The pattern's name, `no_tools`, `few_calls` or `few_tokens`."""
    said: str
    size: int
    share: float
    """Share of the passing rollouts that were read."""
    elsewhere: float
    """Share of the rollouts that did not pass and do the same; 0 if unknown."""
    examples: tuple[str, ...]
    text: str = ""
    """The text of the first example."""


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


def oddities(seen: Sequence[OpenedTrace]) -> tuple[Odd, ...]:
    """Suspicious successes; first those that failing rollouts share least."""
    passing = [each for each in seen if each.passed]
    others = [each for each in seen if not each.passed]
    found = [*_scanned(passing, others), *_easy(passing)]
    return tuple(sorted(found, key=lambda each: (each.elsewhere - each.share, each.why)))


def _scanned(passing: Sequence[OpenedTrace], others: Sequence[OpenedTrace]) -> Iterable[Odd]:
    names = sorted({hit.pattern for each in passing for hit in each.hits})
    for name in names:
        members = [each for each in passing if any(hit.pattern == name for hit in each.hits)]
        also = sum(any(hit.pattern == name for hit in each.hits) for each in others)
        first = _examples(members)[0]
        yield Odd(
            why=name,
            said=pattern_meaning(name),
            size=len(members),
            share=len(members) / len(passing),
            elsewhere=also / len(others) if others else 0.0,
            examples=tuple(each.place for each in _examples(members)),
            text=next(hit.text for hit in first.hits if hit.pattern == name),
        )


def _easy(passing: Sequence[OpenedTrace]) -> Iterable[Odd]:
    """Passes that need far less than other passes of the same task, or no tool where most use some."""
    tasks: defaultdict[str, list[OpenedTrace]] = defaultdict(list)
    for each in passing:
        tasks[each.doing.task].append(each)
    few_calls: list[OpenedTrace] = []
    few_tokens: list[OpenedTrace] = []
    for members in tasks.values():
        if len(members) >= _FEWEST_PASSES:
            calls = quantile(sorted(each.calls for each in members), 0.5)
            tokens = quantile(sorted(each.tokens for each in members), 0.5)
            few_calls += [each for each in members if calls >= _WORTH_CALLS and 0 < each.calls <= _FAR_FEWER * calls]
            few_tokens += [each for each in members if each.tokens and each.tokens <= _FAR_FEWER**2 * tokens]
    using = sum(each.calls > 0 for each in passing)
    no_tools = [each for each in passing if not each.calls] if using > len(passing) / 2 else []
    for why, said, members in (
        ("no_tools", "calls no tool, but most passes do", no_tools),
        ("few_calls", "takes at most half the calls of other passes of the same task", few_calls),
        ("few_tokens", "takes at most a quarter of the tokens of other passes of the same task", few_tokens),
    ):
        if members:
            places = tuple(each.place for each in _examples(members))
            yield Odd(why=why, said=said, size=len(members), share=len(members) / len(passing), elsewhere=0.0, examples=places)


def _examples(members: Sequence[OpenedTrace]) -> list[OpenedTrace]:
    return sorted(members, key=lambda each: (each.doing.turns, each.place))[:_EXAMPLES]
