"""Measures a judge: whether it is consistent, unmoved by what should not matter, and in agreement with people.

Every probe asks about the same items:

- *Repeat*: the same question again.
- *Order*: the choices in reverse, and the parts of the data in reverse where there are several.
- *Padding*: the same text with empty words added.
- *Batching*: several criteria in one call instead of one, and then in reverse order.
- *Canaries*: statements that are always true or never.
- *Labels*: people's verdicts. Agreement is measured beyond chance; the agreement of two people is the ceiling.

A reply without a readable verdict is counted as such and not retried.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from random import Random

import msgspec
from msgspec.structs import replace

from sandlot.calibrate.judges.items import JudgedItem
from sandlot.calibrate.judges.labels import Agreement, JudgedLabel, agreements, corrected_mean
from sandlot.core.concurrency.limited import gather_limited
from sandlot.core.errors import ConfigError, GradeError
from sandlot.core.ports.grading import Judge
from sandlot.core.stats.agreement import RankChange, fleiss_kappa, flip_rate, rank_change
from sandlot.core.stats.intervals import Interval, wilson
from sandlot.core.types import derive_seed
from sandlot.grade.batched import Criterion
from sandlot.grade.judge import CANARIES

PADDING = (
    "To put it in other words, everything that had to be said about this has been said above, and it has been said in full. "
    "It bears repeating that what stands above is what stands above. Having considered all of it, one arrives at where one was. "
    "In conclusion, and for the sake of completeness, nothing further needs to be added here, and nothing further is added."
)
"""Words without content; added twice after the text to judge."""
MORE_CANARIES = (
    ("A week has seven days.", "yes"),
    ("A week has nine days.", "no"),
    ("The word `apple` begins with the letter a.", "yes"),
    ("The word `apple` begins with the letter z.", "no"),
    ("Ten is less than a hundred.", "yes"),
    ("A hundred is less than ten.", "no"),
)


class Probing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many questions to ask."""

    repeats: int = 5
    """How often each item is asked unchanged."""
    most: int = 50
    """Maximum number of items to probe; every labelled item is asked at least once."""
    at_once: int = 16
    """Questions in flight."""
    batch: int = 5
    """Criteria per call in the batching probe; 1 leaves the probe out."""
    seed: int = 0
    """Seed for choosing the items, if there are more."""

    def __post_init__(self) -> None:
        for name, least in {"repeats": 2, "most": 1, "at_once": 1, "batch": 1}.items():
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)}; give {least} or more")


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """The measured quality of a judge."""

    judge: str
    items: int
    labelled: int
    calls: int
    """Questions asked."""
    unreadable: Interval
    """Share of replies without a readable verdict."""
    flips: Interval
    """Probability that asking again gives another verdict."""
    fleiss: float | None
    """Agreement with itself beyond chance (Fleiss' kappa); None if all verdicts are the same."""
    order: RankChange
    """The choices in reverse order: `better` is towards the choice that is then named first."""
    parts: RankChange | None
    """The parts of the data in reverse order; None if no item has several."""
    padding: RankChange
    """Empty words added."""
    batched: RankChange | None
    """Several criteria in one call, compared with one; None if not measured."""
    shuffled: RankChange | None
    """The criteria of one call in reverse order; None if not measured."""
    canaries: Interval
    """Share of right answers to statements that are always true or never."""
    agreements: tuple[Agreement, ...]
    """Agreement with people: overall first, then by check; empty without labels."""
    corrected: Interval | None
    """Estimated mean verdict of people over all items (prediction-powered); None without labels."""
    judged_mean: float | None
    """Mean verdict of the judge on the same items."""


AskSeveral = Callable[[Sequence[Criterion], Mapping[str, str]], Awaitable[Sequence[str]]]
"""Asks several criteria about one view in one call; returns one verdict per criterion, in order."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """An item among other criteria about the same view."""

    criteria: tuple[Criterion, ...]
    place: int
    """Index of the item's own criterion."""
    view: Mapping[str, str]

    def reversed(self) -> "_Batch":
        """The same with the criteria in reverse order."""
        return _Batch(self.criteria[::-1], len(self.criteria) - 1 - self.place, self.view)


@dataclass(frozen=True, slots=True)
class _Asker:
    """Asks judges and counts the replies."""

    panel: Sequence[Judge]
    at_once: int
    replies: list[bool]
    """For every reply, whether it had a readable verdict."""

    async def ask_each(self, questions: Sequence[tuple[int, JudgedItem]]) -> list[str | None]:
        """The verdict of one member of the panel on each item; None where the reply was unreadable."""
        return await self._ask_together([partial(self._ask_one, member, item) for member, item in questions])

    async def ask_batches(self, several: "AskSeveral | None", batches: Sequence["_Batch"]) -> list[str | None]:
        """The verdict on each batch's own item; None where the reply was unreadable."""
        return await self._ask_together([partial(self._ask_batch, several, batch) for batch in batches]) if several else []

    async def _ask_batch(self, several: "AskSeveral", batch: "_Batch") -> str:
        return (await several(batch.criteria, batch.view))[batch.place]

    async def _ask_one(self, member: int, item: JudgedItem) -> str:
        return (await self.panel[member % len(self.panel)].ask(item.question, item.choices, item.view, 1)).verdicts[0]

    async def _ask_together(self, asked: Sequence[Callable[[], Awaitable[str]]]) -> list[str | None]:
        return await gather_limited([partial(self._read, question) for question in asked], self.at_once) if asked else []

    async def _read(self, question: Callable[[], Awaitable[str]]) -> str | None:
        """The verdict; None if the reply is unreadable. Counts the reply."""
        try:
            verdict = await question()
        except GradeError as error:
            if error.kind != "unparsable":
                raise
            verdict = None
        self.replies.append(verdict is not None)
        return verdict


async def measure_judge(
    panel: Sequence[Judge], items: Sequence[JudgedItem], probing: Probing | None = None, ask_several: AskSeveral | None = None
) -> Quality:
    """Run every probe on a judge.

    - `panel`: the judge, once for each repeat with another seed.
    - `ask_several`: asks several criteria in one call; None for a judge that cannot.
    """
    probing = probing or Probing()
    if not items:
        raise ConfigError("no items to judge: give a file with `--labels`, examples in the rubric, or a run")
    probed = _choose_items(items, probing)
    asker = _Asker(panel, probing.at_once, [])
    repeats = await asker.ask_each([(number, item) for item in probed for number in range(probing.repeats)])
    by_item = [repeats[start : start + probing.repeats] for start in range(0, len(repeats), probing.repeats)]
    first = [verdicts[0] for verdicts in by_item]
    several = [(item, verdict) for item, verdict in zip(probed, first, strict=True) if len(item.view) > 1]
    order = await asker.ask_each([(0, replace(item, choices=item.choices[::-1])) for item in probed])
    padded = await asker.ask_each([(0, _padded(item)) for item in probed])
    turned = await asker.ask_each([(0, replace(item, view=dict(reversed(item.view.items())))) for item, _ in several])
    batches = [_batch(place, probed, probing) for place in range(len(probed))] if ask_several and probing.batch > 1 else []
    batched = await asker.ask_batches(ask_several, batches)
    shuffled = await asker.ask_batches(ask_several, [batch.reversed() for batch in batches])
    right = await _ask_canaries(asker, probed)
    everyone = await _ask_labelled(asker, items, dict(zip(map(id, probed), first, strict=True)))
    readable = [[verdict for verdict in verdicts if verdict is not None] for verdicts in by_item]
    return Quality(
        judge=panel[0].name,
        items=len(items),
        labelled=sum(bool(item.labels) for item in items),
        calls=len(asker.replies),
        unreadable=wilson(asker.replies.count(False), len(asker.replies)),
        flips=flip_rate(readable),
        fleiss=fleiss_kappa(readable),
        order=_rank_change(probed, first, order),
        parts=_rank_change([item for item, _ in several], [verdict for _, verdict in several], turned) if several else None,
        padding=_rank_change(probed, first, padded),
        batched=_rank_change(probed, first, batched) if batches else None,
        shuffled=_rank_change(probed, batched, shuffled) if batches else None,
        canaries=wilson(right.count(True), len(right)),
        agreements=agreements(everyone),
        corrected=corrected_mean(everyone),
        judged_mean=_mean([each.value for each in everyone if each.value is not None]),
    )


def _choose_items(items: Sequence[JudgedItem], probing: Probing) -> list[JudgedItem]:
    """The items to probe: a seeded sample, in their order."""
    if len(items) <= probing.most:
        return list(items)
    drawn = Random(probing.seed).sample(range(len(items)), probing.most)  # noqa: S311 - a draw that can be repeated
    return [items[number] for number in sorted(drawn)]


async def _ask_canaries(asker: _Asker, items: Sequence[JudgedItem]) -> list[bool]:
    """Ask one true and one false statement with every item's view."""
    both = [*CANARIES, *MORE_CANARIES]
    pairs = cycle(zip(both[::2], both[1::2], strict=True))
    asked = [(item, canary) for item, pair in zip(items, pairs, strict=False) for canary in pair]
    said = await asker.ask_each(
        [(0, replace(item, question=text, choices=("no", "yes"), check="canary")) for item, (text, _) in asked]
    )
    return [verdict == expected for verdict, (_, (_, expected)) in zip(said, asked, strict=True)]


async def _ask_labelled(asker: _Asker, items: Sequence[JudgedItem], known: dict[int, str | None]) -> list[JudgedLabel]:
    """Every item with the judge's verdict: probed items have one, the others are asked once."""
    missing = [item for item in items if id(item) not in known]
    verdicts = known | dict(zip(map(id, missing), await asker.ask_each([(0, item) for item in missing]), strict=True))
    return [JudgedLabel(item, verdicts[id(item)]) for item in items]


def _batch(place: int, items: Sequence[JudgedItem], probing: Probing) -> _Batch:
    """An item's criterion among those of other items, filled up with canaries where there are too few."""
    item = items[place]
    rng = Random(derive_seed("batch", probing.seed, place))  # noqa: S311 - a draw that can be repeated
    known = {other.question: Criterion(question=other.question, choices=other.choices) for other in items}
    canaries = [Criterion(question=text, choices=("no", "yes")) for text, _ in (*CANARIES, *MORE_CANARIES)]
    own = Criterion(question=item.question, choices=item.choices)  # another item may ask the same with other choices
    known.pop(item.question, None)
    others = rng.sample(list(known.values()), min(probing.batch - 1, len(known)))
    others += rng.sample(canaries, min(probing.batch - 1 - len(others), len(canaries)))
    at = rng.randrange(len(others) + 1)
    return _Batch((*others[:at], own, *others[at:]), at, item.view)


def _padded(item: JudgedItem) -> JudgedItem:
    """The item with padding after the last part."""
    *others, (name, text) = item.view.items()
    return replace(item, view={**dict(others), name: f"{text}\n\n{PADDING}\n\n{PADDING}"})


def _rank_change(items: Sequence[JudgedItem], before: Sequence[str | None], after: Sequence[str | None]) -> RankChange:
    """Changes between two lists of verdicts, as ranks in the item's choices (worst to best); unreadable verdicts are left out."""
    ranks = [
        (item.choices.index(first), item.choices.index(second))
        for item, first, second in zip(items, before, after, strict=True)
        if first is not None and second is not None
    ]
    return rank_change(ranks)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
